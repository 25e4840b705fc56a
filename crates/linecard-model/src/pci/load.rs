//! The clients: links that send what the windows allow.

use super::config::Load;
use super::overhead::{FRAME_OVERHEAD, FULL_PAYLOAD, WIRE_OVERHEAD};
use crate::Ps;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// The smallest frame on Ethernet.
const MIN_FRAME: u32 = 64;

/// A frame in transit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) session: usize,
    pub(super) payload: u32,
    /// When its first byte reaches the adapter.
    pub(super) first_byte: Ps,
}

impl Frame {
    /// Bytes from the Ethernet header to the CRC.
    pub(super) fn len(&self) -> u32 {
        (self.payload + FRAME_OVERHEAD).max(MIN_FRAME)
    }

    /// Its time on a wire, preamble and gap included.
    pub(super) fn wire_time(&self, bits_per_second: u64) -> Ps {
        Ps::of_bits(u64::from(self.len() + WIRE_OVERHEAD) * 8, bits_per_second)
    }
}

/// All clients.
#[derive(Debug)]
pub(super) struct Clients {
    bits_per_second: u64,
    per_client: usize,
    sessions: Vec<Session>,
    links: Vec<Link>,
}

#[derive(Debug, Clone)]
struct Session {
    /// Bytes left of the file.
    left: u32,
    /// Frames that the window allows.
    credit: u32,
    is_queued: bool,
}

/// A client's link to the switch.
#[derive(Debug, Clone, Default)]
struct Link {
    /// Sessions that may send, in turn, each at most once.
    ready: VecDeque<usize>,
    sending: Option<Frame>,
}

impl Clients {
    pub(super) fn new(load: &Load) -> Self {
        let session = Session { left: 0, credit: load.window_frames, is_queued: false };
        Self {
            bits_per_second: load.client_rate.bits_per_second(),
            per_client: load.sessions as usize,
            sessions: vec![session; (load.clients * load.sessions) as usize],
            links: vec![Link::default(); load.clients as usize],
        }
    }

    /// The client of a session.
    pub(super) fn client_of(&self, session: usize) -> usize {
        session / self.per_client
    }

    /// An answer arrived: it allows more frames, and may request more bytes.
    pub(super) fn grant(&mut self, session: usize, frames: u32, bytes: u32) {
        self.sessions[session].credit += frames;
        self.sessions[session].left += bytes;
        self.enqueue(session);
    }

    /// Starts sending on an idle link, if a session may; returns when the frame will have been
    /// sent.
    pub(super) fn begin(&mut self, client: usize) -> Option<Ps> {
        let link = &mut self.links[client];
        if link.sending.is_some() {
            return None;
        }
        let session = link.ready.pop_front()?;
        let from = &mut self.sessions[session];
        let payload = from.left.min(FULL_PAYLOAD);
        from.left -= payload;
        from.credit -= 1;
        from.is_queued = false;
        let frame = Frame { session, payload, first_byte: Ps::ZERO };
        link.sending = Some(frame);
        self.enqueue(session);
        Some(frame.wire_time(self.bits_per_second))
    }

    /// The link has sent a frame.
    pub(super) fn sent(&mut self, client: usize) -> Option<Frame> {
        self.links[client].sending.take()
    }

    fn enqueue(&mut self, session: usize) {
        let client = self.client_of(session);
        let from = &mut self.sessions[session];
        if from.left > 0 && from.credit > 0 && !from.is_queued {
            from.is_queued = true;
            self.links[client].ready.push_back(session);
        }
    }
}
