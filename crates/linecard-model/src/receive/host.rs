//! The host: empty nodes with buffers, and verification of the lists that it is given.

use super::design::Design;
use super::line::Packet;
use super::map::{NODE_LEN, NODES};
use super::packet::{Position, position};
use crate::Ps;
use crate::cell::Cell;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use linecard::offload::segment::Class;

/// Where the host's buffers begin, as pointers in nodes say.
const MEMORY: u32 = 0x8000_0000;

/// A message, or a single packet, that the host was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The first packet's header, and the payload of all.
    pub bytes: Vec<u8>,
    /// Number of its first packet, from 0 in order of arrival.
    pub first: u64,
    /// Cost of each of its packets.
    pub cells: Vec<Cell>,
    /// When it was handed to the host.
    pub at: Ps,
    /// Whether the list was correct: one connection or datagram, contiguous, with correct bytes,
    /// lengths, count and classes.
    pub right: bool,
}

/// A packet that was moved to a node's buffer.
#[derive(Debug)]
struct Moved {
    packet: Packet,
    from: usize,
    to: usize,
    cell: Cell,
}

#[derive(Debug, Default)]
struct Node {
    pointer: u32,
    length: u32,
    next: u32,
    count: u32,
    moved: Option<Moved>,
}

/// Host memory, nodes, and lists under construction.
#[derive(Debug)]
pub(super) struct Host {
    memory: Vec<u8>,
    nodes: Vec<Node>,
    /// Their addresses, the next one first.
    empty: VecDeque<u32>,
    /// Lists handed over after the transfer in progress; each starts with its own node.
    pending: Vec<(u32, Ps)>,
    /// Lists that the host has received and the run has not returned yet.
    done: VecDeque<Received>,
}

impl Host {
    pub(super) fn new(design: &Design) -> Self {
        let size = design.buffer_bytes as u32;
        let node = |n: u32| Node { pointer: MEMORY + n * size, ..Node::default() };
        let count = design.nodes as u32;
        Self {
            memory: alloc::vec![0; design.buffer_bytes * design.nodes],
            nodes: (0..count).map(node).collect(),
            empty: (0..count).map(|n| NODES + n * NODE_LEN).collect(),
            pending: Vec::new(),
            done: VecDeque::new(),
        }
    }

    /// The node that the next transfer fills.
    pub(super) fn next_empty(&self) -> Option<u32> {
        self.empty.front().copied()
    }

    /// Takes that node for a transfer.
    pub(super) fn take_empty(&mut self) -> Option<u32> {
        self.empty.pop_front()
    }

    /// A word of a node.
    pub(super) fn load(&self, address: u32) -> Option<u32> {
        let node = self.nodes.get(index(address & !(NODE_LEN - 1))?)?;
        Some(match address % NODE_LEN {
            0 => node.pointer,
            4 => node.length,
            8 => node.next,
            _ => node.count,
        })
    }

    /// Writes a word of a node; the pointer is the host's.
    pub(super) fn store(&mut self, address: u32, value: u32) -> bool {
        let index = index(address & !(NODE_LEN - 1));
        let Some(node) = index.and_then(|index| self.nodes.get_mut(index)) else { return false };
        match address % NODE_LEN {
            4 => node.length = value,
            8 => node.next = value,
            12 => node.count = value,
            _ => return false,
        }
        true
    }

    /// Bytes `from..to` of a packet have been moved to the buffer of the node at `address`.
    pub(super) fn place(
        &mut self,
        address: u32,
        packet: Packet,
        (from, to): (usize, usize),
        cell: Cell,
    ) {
        let Some(node) = index(address).and_then(|index| self.nodes.get_mut(index)) else { return };
        let start = (node.pointer - MEMORY) as usize;
        if let Some(bytes) = packet.bytes.get(from..to)
            && let Some(room) = self.memory.get_mut(start..start + bytes.len())
        {
            room.copy_from_slice(bytes);
        }
        node.moved = Some(Moved { packet, from, to, cell });
    }

    /// Hands the list at `address` to the host after the transfer in progress at `now`.
    pub(super) fn hand_over(&mut self, address: u32, now: Ps) -> bool {
        let known = index(address).is_some_and(|index| index < self.nodes.len());
        // More lists than nodes: the firmware hands some over twice.
        let fits = known && self.pending.len() < self.nodes.len();
        if fits {
            self.pending.push((address, now));
        }
        fits
    }

    /// No transfer has been active since `at`.
    pub(super) fn settle(&mut self, at: Ps) {
        for (address, handed) in core::mem::take(&mut self.pending) {
            self.receive(address, at.max(handed));
        }
    }

    pub(super) fn next_received(&mut self) -> Option<Received> {
        self.done.pop_front()
    }

    /// Packets in lists that were not handed over.
    pub(super) fn held(&self) -> u64 {
        self.nodes.iter().filter(|node| node.moved.is_some()).count() as u64
    }

    /// Walks a list, and returns its nodes to the empty ones.
    fn receive(&mut self, head: u32, at: Ps) {
        let count = index(head).map_or(0, |index| self.nodes[index].count);
        let mut received =
            Received { bytes: Vec::new(), first: 0, cells: Vec::new(), at, right: true };
        let mut list: Vec<Moved> = Vec::new();
        let mut address = head;
        // A list ends at a node that was visited already: the number of nodes bounds the walk.
        while address != 0 {
            let node = index(address).and_then(|index| self.nodes.get_mut(index));
            let Some((node, moved)) = node.and_then(|node| node.moved.take().map(|m| (node, m)))
            else {
                received.right = false;
                break;
            };
            let start = (node.pointer - MEMORY) as usize;
            let bytes = self.memory.get(start..start + node.length as usize);
            let bytes = bytes.unwrap_or_default();
            received.right &= moved.packet.bytes.get(moved.from..moved.to) == Some(bytes);
            received.bytes.extend_from_slice(bytes);
            received.cells.push(moved.cell);
            list.push(moved);
            self.empty.push_back(address);
            address = node.next;
            *node = Node { pointer: node.pointer, ..Node::default() };
        }
        received.first = list.first().map_or(0, |moved| moved.packet.number);
        received.right &= count as usize == list.len() && is_message(&list);
        if !list.is_empty() {
            self.done.push_back(received);
        }
    }
}

/// Which node is at an address.
fn index(address: u32) -> Option<usize> {
    let offset = address.checked_sub(NODES)?;
    offset.is_multiple_of(NODE_LEN).then_some((offset / NODE_LEN) as usize)
}

/// Whether packets are a contiguous part of one message with the correct classes.
fn is_message(list: &[Moved]) -> bool {
    let whole = |moved: &Moved| moved.from == 0 && moved.to == moved.packet.bytes.len();
    let [first, rest @ ..] = list else { return false };
    if first.cell.class == Class::Ssm {
        return rest.is_empty() && whole(first);
    }
    let Some(mut before) = position(&first.packet.bytes) else { return false };
    let begins = first.cell.class == Class::Bom && whole(first) && !before.is_last;
    begins && rest.iter().all(|moved| follows(&mut before, moved))
}

/// Whether a packet follows the one before; updates `before` to it.
fn follows(before: &mut Position, moved: &Moved) -> bool {
    let Some(place) = position(&moved.packet.bytes) else { return false };
    let class = if place.is_last { Class::Eom } else { Class::Com };
    let right = place.key == before.key
        && place.first == before.end
        && !before.is_last
        && moved.cell.class == class
        && (moved.from, moved.to) == (place.payload_at, moved.packet.bytes.len());
    *before = place;
    right
}
