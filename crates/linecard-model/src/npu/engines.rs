//! The components around the receive threads: DMA engine, host, sending thread, client.

use super::config::Discipline;
use super::frame::{self, Direction, SegmentHeader};
use super::machine::{Event, Job, Machine};
use crate::Ps;
use alloc::vec::Vec;
use linecard::packet::header::tcp_flags::SYN;
use linecard::packet::{LinkType, Meta, Packet, Piece};

impl Machine<'_> {
    /// A thread takes a descriptor of its ring and requests the transfer of a packet: one request
    /// per merged packet, because they are not contiguous (IV.D, V.B).
    pub(super) fn submit(&mut self, number: u16, packet: Packet<Vec<u8>>) {
        let segments = packet.meta.gso.map_or(1, |gso| gso.segments.into());
        let bytes = packet.payload_len() as u64;
        let (thread, left) = (&mut self.threads[usize::from(number)], 1 + packet.chain().len());
        let dropped = &mut self.outcome.dropped;
        if thread.ring == 0 {
            dropped.ring_full.add(segments, bytes);
            self.buffers -= segments;
            return;
        }
        if self.requests.len() + left > self.config.dma.requests {
            dropped.dma_full.add(segments, bytes);
            self.buffers -= segments;
            return;
        }
        thread.ring -= 1;
        let is_syn = frame::read(packet.bytes()).is_some_and(|(_, header)| header.flags & SYN != 0);
        let job = self.jobs.add(Job { thread: number, packet, segments, left, is_syn });
        // The balancer adds one hop.
        let hops = 1 + u64::from(self.config.dma.discipline == Discipline::RoundRobin);
        let latency = Ps::from_ns(hops * self.config.npu.message_ns);
        self.events.add(self.now + latency, Event::Request(job));
    }

    /// The requests of a job have reached the engine.
    pub(super) fn request(&mut self, place: usize) {
        let Some(job) = self.jobs.get_mut(place) else { return };
        let pieces = job.packet.chain().iter().map(Piece::len);
        let lens = core::iter::once(job.packet.bytes().len()).chain(pieces);
        let dma = &mut self.outcome.dma;
        dma.requests += job.left as u64;
        dma.syns += u64::from(job.is_syn);
        for len in lens {
            let time = Ps::of_bits(8 * len as u64, self.config.dma.rate.bits_per_second());
            let time = time + Ps::from_ns(self.config.dma.request_ns);
            dma.offered += time;
            self.requests.push(job.thread, (place, time.0));
        }
        dma.most_waiting = dma.most_waiting.max(self.requests.len() as u64);
        self.serve();
    }

    /// Starts the next request. A balancer runs one request ahead, so that its message takes no
    /// engine time.
    fn serve(&mut self) {
        if self.in_service.is_some() {
            return;
        }
        let Some((job, time)) = self.requests.pop() else { return };
        self.in_service = Some(job);
        self.events.add(self.now + Ps(time), Event::Served);
    }

    /// The engine has served a request. After a job's last one it notifies the thread, which
    /// interrupts the host, in no time.
    pub(super) fn served(&mut self) {
        let Some(place) = self.in_service.take() else { return };
        self.outcome.dma.served += 1;
        if let Some(job) = self.jobs.get_mut(place) {
            job.left -= 1;
            if job.left == 0 {
                self.buffers -= job.segments;
                self.outcome.dma.syns_served += u64::from(job.is_syn);
                let at = self.now + Ps::from_ns(self.config.npu.message_ns);
                self.events.add(at, Event::Interrupt(place));
            }
        }
        self.serve();
    }

    /// A packet waits for the host; at most as many as the rings have descriptors.
    pub(super) fn interrupt(&mut self, place: usize) {
        self.host_queue.push_back(place);
        self.attend();
    }

    /// Starts the next packet on the host's processor.
    fn attend(&mut self) {
        let Some(place) = self.host_queue.front().filter(|_| !self.is_host_busy) else { return };
        let host = &self.config.host;
        let bytes = self.jobs.get_mut(*place).map_or(0, |job| job.packet.payload_len() as u64);
        let time = Ps::from_ns(host.interrupt_ns + host.packet_ns)
            + Ps::of_bits(8 * bytes, host.copy_rate.bits_per_second());
        self.is_host_busy = true;
        self.events.add(self.now + time, Event::Handled);
    }

    /// The host has processed a packet; its descriptor returns to the ring.
    pub(super) fn handled(&mut self) {
        self.is_host_busy = false;
        if let Some(job) = self.host_queue.pop_front().and_then(|place| self.jobs.take(place)) {
            self.threads[usize::from(job.thread)].ring += 1;
            self.outcome.delivered.add(job.segments, job.packet.payload_len() as u64);
            self.shared.figures.interrupts += 1;
            self.receive(&job);
        }
        self.attend();
    }

    fn receive(&mut self, job: &Job) {
        let Some((Direction::ToServer(port), _)) = frame::read(job.packet.bytes()) else { return };
        let Some(number) = self.connection(port) else { return };
        let receiver = &mut self.receivers[number];
        let answer = receiver.take((number, &job.packet), self.now, &mut self.shared);
        if let Some(header) = answer {
            self.send_header(number, &header);
        }
        self.plan_opening(number);
    }

    /// Schedules a window update for a window that is nearly closed.
    fn plan_opening(&mut self, number: usize) {
        let receiver = &mut self.receivers[number];
        if let Some(at) = receiver.opens_at(self.now, &self.shared)
            && !core::mem::replace(&mut receiver.is_waiting, true)
        {
            self.events.add(at, Event::Opens(number));
        }
    }

    /// The application has freed buffer space: the client is notified.
    pub(super) fn opens(&mut self, number: usize) {
        let receiver = &mut self.receivers[number];
        receiver.is_waiting = false;
        let header = receiver.header(self.now, &self.shared);
        self.send_header(number, &header);
        self.plan_opening(number);
    }

    /// The host sends a segment. The connection's thread sees it, which takes no time here.
    fn send_header(&mut self, number: usize, header: &SegmentHeader) {
        let bytes = frame::build(Direction::ToClient(self.senders[number].port), header, &[]);
        let mut packet = Packet::new(bytes, LinkType::Ethernet, Meta::default());
        let thread = usize::from(self.homes[number]);
        if self.threads[thread].offloads.answer(&mut packet) {
            self.answer(packet.into_parts().0);
        }
    }

    /// Sends a frame to the client: through the sending thread, then the link.
    pub(super) fn answer(&mut self, bytes: Vec<u8>) {
        let npu = &self.config.npu;
        let time = Ps::from_ns(npu.send_ns);
        let at = self.now + Ps::from_ns(npu.message_ns);
        // The time left determines how many wait.
        let waiting = self.sender_free.since(at).0 / time.0.max(1);
        if waiting >= npu.send_queue {
            self.outcome.answers_dropped += 1;
            return;
        }
        self.outcome.answers += 1;
        self.sender_free = self.sender_free.max(at) + time;
        let rate = self.config.client.link_rate.bits_per_second();
        let wire = Ps::of_bits(frame::wire_bits(bytes.len()), rate);
        self.back_free = self.back_free.max(self.sender_free) + wire;
        self.events.add(self.back_free, Event::FrameReceived(bytes));
    }
}
