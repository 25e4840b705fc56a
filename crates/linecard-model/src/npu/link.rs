//! The client's side: connections queued for the link, frames on it, and replies.

use super::client::{Sender, State};
use super::config::{Dispatch, Start};
use super::frame::{self, Direction};
use super::machine::{Event, Machine};
use super::thread::instant;
use crate::Ps;
use alloc::vec::Vec;
use linecard::packet::{LinkType, Meta, Packet};

impl Machine<'_> {
    /// Queues a connection for the link, if it has data to send.
    pub(super) fn line_up(&mut self, connection: usize) {
        let sender = &mut self.senders[connection];
        if !sender.in_line && sender.can_send(&self.config.client) {
            sender.in_line = true;
            self.line.push_back(connection);
        }
        self.transmit();
    }

    /// Transmits the next frame if the link is free. Connections take turns.
    fn transmit(&mut self) {
        while self.wire.is_none() {
            let Some(connection) = self.line.pop_front() else { return };
            let (sender, client) = (&mut self.senders[connection], &self.config.client);
            sender.in_line = false;
            let Some(segment) = sender.take(self.now, client) else { continue };
            let payload = self.shared.stream.bytes(connection, segment.offset, segment.len);
            let bytes = frame::build(Direction::ToServer(sender.port), &segment.header, payload);
            let time =
                Ps::of_bits(frame::wire_bits(bytes.len()), client.link_rate.bits_per_second());
            self.wire = Some(bytes);
            self.events.add(self.now + time, Event::Arrived);
            self.wake_in_time(connection);
            if self.senders[connection].can_send(client) {
                self.senders[connection].in_line = true;
                self.line.push_back(connection);
            }
        }
    }

    /// A frame has arrived over the link; some are corrupted or reordered.
    pub(super) fn arrived(&mut self) {
        let Some(mut bytes) = self.wire.take() else { return };
        self.transmit();
        self.frames += 1;
        let client = &self.config.client;
        let is_chosen = |every: Option<u32>| {
            every.is_some_and(|every| self.frames.is_multiple_of(every.into()))
        };
        if is_chosen(client.corrupt_every.0) {
            // The last byte of the TCP header or of the payload: only a checksum can detect it.
            bytes.last_mut().into_iter().for_each(|byte| *byte ^= 0x10);
        }
        if is_chosen(client.swap_every.0) && self.late.is_none() {
            self.late = Some(bytes);
            return;
        }
        self.dispatch(bytes);
        if let Some(late) = self.late.take() {
            self.dispatch(late);
        }
    }

    /// Passes a frame to a receive thread.
    fn dispatch(&mut self, bytes: Vec<u8>) {
        let npu = &self.config.npu;
        let meta = Meta { timestamp: instant(self.now), ..Meta::default() };
        let packet = Packet::new(bytes, LinkType::Ethernet, meta);
        let bytes = packet.payload_len() as u64;
        self.outcome.sent.add(1, bytes);
        let number = match npu.dispatch {
            Dispatch::Hash => self.steer(&packet),
            Dispatch::Spray => {
                self.turn = (self.turn + 1) % npu.receive_threads();
                self.turn
            }
        };
        let thread = &mut self.threads[usize::from(number)];
        if self.buffers >= npu.buffers {
            self.outcome.dropped.no_buffer.add(1, bytes);
        } else if thread.queue.len() >= npu.queue {
            self.outcome.dropped.queue_full.add(1, bytes);
        } else {
            self.buffers += 1;
            thread.queue.push_back(packet);
            self.start(number, Ps::from_ns(npu.message_ns));
        }
    }

    /// A frame has reached the client.
    pub(super) fn frame_received(&mut self, bytes: &[u8]) {
        let Some((Direction::ToClient(port), header)) = frame::read(bytes) else { return };
        let Some(number) = self.connection(port) else { return };
        let sender = &mut self.senders[number];
        let (before, was_finished) = (sender.state, sender.is_finished());
        sender.receive(&header, self.now, &self.config.client);
        let is_finished = sender.is_finished() && !was_finished;
        let is_made = before == State::SynSent && sender.state == State::Established;
        if is_finished {
            self.left_to_finish -= 1;
            let all = self.left_to_finish == 0;
            self.outcome.client.finished_at = all.then_some(self.now);
        }
        if is_made {
            self.settled(number);
        }
        self.wake_in_time(number);
        self.line_up(number);
    }

    /// A retransmission timer may be due.
    pub(super) fn timer(&mut self, number: usize) {
        let sender = &mut self.senders[number];
        if sender.planned <= self.now {
            sender.planned = Ps::NEVER;
        }
        let before = sender.state;
        sender.expire(self.now, &self.config.client);
        if before == State::SynSent && sender.state == State::Failed {
            self.settled(number);
        }
        self.wake_in_time(number);
        self.line_up(number);
    }

    /// Schedules the timer of a connection, unless it is scheduled for that time or earlier.
    pub(super) fn wake_in_time(&mut self, number: usize) {
        let sender = &mut self.senders[number];
        if let Some(deadline) = sender.deadline
            && deadline < sender.planned
        {
            sender.planned = deadline;
            self.events.add(deadline, Event::Timer(number));
        }
    }

    /// Lets connections start sending once those they wait for are established or given up.
    pub(super) fn settled(&mut self, connection: usize) {
        let client = &self.config.client;
        if connection >= client.connections as usize {
            return;
        }
        self.awaited -= 1;
        match client.start {
            Start::Each => self.senders[connection].is_open = true,
            Start::Together if self.awaited == 0 => {
                let made = |sender: &&mut Sender| sender.state == State::Established;
                let senders = self.senders[..client.connections as usize].iter_mut();
                senders.filter(made).for_each(|sender| sender.is_open = true);
                (0..client.connections as usize).for_each(|index| self.line_up(index));
            }
            Start::Together => {}
        }
    }
}
