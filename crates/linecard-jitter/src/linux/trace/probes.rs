//! The traced tracepoints, and the data taken from each.

use super::btf::{Btf, BtfError};
use super::program::{FIRST, Log, Program, R1, R3, SECOND, Size, THIRD};
use crate::stream::probe;
use crate::trace::{Event, EventKind, NET_RX, Vector};
use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr};

/// Bytes of an Ethernet header, which outgoing packets begin with.
const ETHERNET: i32 = 14;
/// UDP's number in the header of IP.
const IPPROTO_UDP: u32 = 17;
/// Bytes of a UDP header.
const UDP: i16 = 8;
/// Stack offset for small values.
const WORD_AT: i16 = 8;
/// Value of `cpu_idle` when a core wakes.
const AWAKE: u32 = u32::MAX;

/// The events to trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TraceTarget {
    /// Destination UDP ports of the streams, over IPv4 and over IPv6: at most 64 of each.
    pub ports: [Vec<u16>; 2],
    /// Their destination addresses, at most 64 of each version; of a version without any, or with an unspecified one, all.
    pub addresses: Vec<IpAddr>,
    /// The lower halves of their sockets' cookies, at most 64; without, all sockets at those ports count as one.
    pub sockets: Vec<u32>,
    /// The number of a packet in the trace.
    pub identity: Identity,
    /// UDP payload bytes of a packet: tracefs recognises the stream's packets by them.
    pub payload_len: usize,
    /// The sending thread, if it is on this host: tracefs ignores packets of that length from other
    /// threads. BPF reads packets, and needs neither.
    pub sender: Option<u32>,
    /// The threads whose wakeups are traced: at most eight.
    pub threads: Vec<u32>,
}

impl TraceTarget {
    /// Adds a stream that goes there.
    pub fn add(&mut self, target: SocketAddr) {
        let ports = &mut self.ports[usize::from(target.is_ipv6())];
        if !ports.contains(&target.port()) {
            ports.push(target.port());
        }
        self.addresses.push(target.ip());
    }

    /// The last four octets of each address of a version, as they are in memory; none if all are meant. Of IPv6, addresses
    /// that differ before that count as one.
    fn destinations(&self, version: usize) -> Vec<u32> {
        let own = || self.addresses.iter().filter(|ip| usize::from(ip.is_ipv6()) == version);
        if own().any(IpAddr::is_unspecified) {
            return Vec::new();
        }
        let last = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => u32::from_ne_bytes(ip.octets()),
            IpAddr::V6(ip) => (ip.to_bits() as u32).to_be(),
        };
        own().map(last).collect()
    }
}

/// The number of a packet in a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Identity {
    /// That of its probe; other packets are ignored.
    #[default]
    Probe,
    /// The first eight octets of its UDP payload, as they are in memory: for RTP, sequence number and time stamp.
    Start,
}

/// Kinds of records. The numbers are internal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Transmit = 1,
    Receive,
    Ready,
    Refused,
    Raise,
    Poll,
    InterruptEntry,
    InterruptExit,
    SoftirqEntry,
    SoftirqExit,
    TimerEntry,
    TimerExit,
    Switch,
    Wakeup,
    Idle,
    LocalTimer,
    Reschedule,
    CallFunction,
    IrqWork,
    VectorExit,
}

/// Layout of the running kernel's structures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offsets {
    skb_data: u32,
    socket_port: u32,
    socket_cookie: u32,
    task_pid: u32,
    task_name: u32,
    hrtimer_function: u32,
    timer_function: u32,
}

impl Offsets {
    pub(super) fn read() -> Result<Self, BtfError> {
        let btf = Btf::read()?;
        Ok(Self {
            skb_data: btf.offset("sk_buff", "data")?,
            socket_port: btf.offset("sock_common", "skc_num")?,
            socket_cookie: btf.offset("sock_common", "skc_cookie")?,
            task_pid: btf.offset("task_struct", "pid")?,
            task_name: btf.offset("task_struct", "comm")?,
            hrtimer_function: btf.offset("hrtimer", "function")?,
            timer_function: btf.offset("timer_list", "function")?,
        })
    }
}

/// A tracepoint and its record kind. Those needed to join packets are required; others are left out
/// and reported if a kernel or an architecture lacks them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Its group in tracefs.
    pub(super) group: &'static str,
    pub(super) name: &'static CStr,
    pub(super) kind: Kind,
    pub(super) is_needed: bool,
}

const fn needed(group: &'static str, name: &'static CStr, kind: Kind) -> Probe {
    Probe { group, name, kind, is_needed: true }
}

const fn useful(group: &'static str, name: &'static CStr, kind: Kind) -> Probe {
    Probe { group, name, kind, is_needed: false }
}

/// All tracepoints.
pub(super) const PROBES: &[Probe] = &[
    needed("net", c"net_dev_start_xmit", Kind::Transmit),
    needed("net", c"netif_receive_skb", Kind::Receive),
    needed("sock", c"sk_data_ready", Kind::Ready),
    useful("udp", c"udp_fail_queue_rcv_skb", Kind::Refused),
    needed("irq", c"softirq_raise", Kind::Raise),
    needed("napi", c"napi_poll", Kind::Poll),
    needed("irq", c"irq_handler_entry", Kind::InterruptEntry),
    needed("irq", c"irq_handler_exit", Kind::InterruptExit),
    needed("irq", c"softirq_entry", Kind::SoftirqEntry),
    needed("irq", c"softirq_exit", Kind::SoftirqExit),
    useful("timer", c"hrtimer_expire_entry", Kind::TimerEntry),
    useful("timer", c"hrtimer_expire_exit", Kind::TimerExit),
    useful("timer", c"timer_expire_entry", Kind::TimerEntry),
    useful("timer", c"timer_expire_exit", Kind::TimerExit),
    needed("sched", c"sched_switch", Kind::Switch),
    needed("sched", c"sched_wakeup", Kind::Wakeup),
    useful("power", c"cpu_idle", Kind::Idle),
    useful("irq_vectors", c"local_timer_entry", Kind::LocalTimer),
    useful("irq_vectors", c"local_timer_exit", Kind::VectorExit),
    useful("irq_vectors", c"reschedule_entry", Kind::Reschedule),
    useful("irq_vectors", c"reschedule_exit", Kind::VectorExit),
    useful("irq_vectors", c"call_function_entry", Kind::CallFunction),
    useful("irq_vectors", c"call_function_exit", Kind::VectorExit),
    useful("irq_vectors", c"call_function_single_entry", Kind::CallFunction),
    useful("irq_vectors", c"call_function_single_exit", Kind::VectorExit),
    useful("irq_vectors", c"irq_work_entry", Kind::IrqWork),
    useful("irq_vectors", c"irq_work_exit", Kind::VectorExit),
];

impl Probe {
    /// The tracepoint's name.
    pub(super) fn name(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }

    /// The BPF programs for this tracepoint: for packets, one for each version of IP.
    pub(super) fn programs(
        &self,
        target: &TraceTarget,
        offsets: &Offsets,
        log: Log<'_>,
    ) -> Vec<Vec<[u8; 8]>> {
        let link = match self.kind {
            Kind::Transmit => ETHERNET,
            Kind::Receive => 0,
            Kind::Wakeup if target.threads.is_empty() => return Vec::new(),
            _ => return vec![self.program(target, offsets, log)],
        };
        let versions = (0..2).filter(|version| !target.ports[*version].is_empty());
        let program = |version| {
            let mut program = Program::new();
            packet(&mut program, target, offsets, (link, version));
            program.record(self.kind as u8, log)
        };
        versions.map(program).collect()
    }

    fn program(&self, target: &TraceTarget, offsets: &Offsets, log: Log<'_>) -> Vec<[u8; 8]> {
        let mut program = Program::new();
        match self.kind {
            Kind::Ready => socket(&mut program, target, offsets, 0),
            Kind::Refused => socket(&mut program, target, offsets, 1),
            Kind::Raise => {
                program.argument(R1, 0);
                program.only_if(R1, NET_RX.into());
            }
            Kind::Poll => {
                program.argument(FIRST, 1);
                program.unless_zero(FIRST);
            }
            Kind::InterruptEntry | Kind::SoftirqEntry | Kind::Idle => program.argument(FIRST, 0),
            Kind::TimerEntry => {
                let is_high = self.name.to_bytes().starts_with(b"hr");
                let field = if is_high { offsets.hrtimer_function } else { offsets.timer_function };
                follow(&mut program, 0, field, 8);
                program.load(Size::Double, SECOND, WORD_AT);
            }
            Kind::Switch => switch(&mut program, offsets),
            Kind::Wakeup => {
                follow(&mut program, 0, offsets.task_pid, 4);
                program.load(Size::Word, FIRST, WORD_AT);
                program.only_if_any(FIRST, &target.threads);
            }
            _ => {}
        }
        program.record(self.kind as u8, log)
    }
}

/// Reads `len` bytes from where a field of argument `n` points.
fn follow(program: &mut Program, n: i16, field: u32, len: i32) {
    program.argument(R3, n);
    program.add(R3, field.cast_signed());
    program.read_kernel(WORD_AT, len);
}

/// Continues only for a packet of a stream, whose number becomes the second value. The IP header starts after `link`
/// bytes; its version is 4 or 6.
fn packet(
    program: &mut Program,
    target: &TraceTarget,
    offsets: &Offsets,
    (link, version): (i32, usize),
) {
    let (ip, protocol_at, first): (i16, i16, u32) = [(20, 9, 0x45), (40, 6, 0x60)][version];
    let payload = ip + UDP;
    let number = match target.identity {
        Identity::Probe => payload + probe::SEQUENCE_AT as i16,
        Identity::Start => payload,
    };
    let len = number + 8;
    // The stack is read in aligned words only: the last 8 bytes are the number.
    let top = (len + 7) / 8 * 8 + WORD_AT;
    let packet = top + (len - top).rem_euclid(8);
    let at = |offset: i16| packet - offset;
    follow(program, 0, offsets.skb_data, 8);
    program.load(Size::Double, R3, WORD_AT);
    program.add(R3, link);
    program.read_kernel(packet, len.into());
    // An IPv4 header without options.
    program.load(Size::Byte, R1, at(0));
    program.and(R1, if version == 0 { 0xFF } else { 0xF0 });
    program.only_if(R1, first);
    program.load(Size::Byte, R1, at(protocol_at));
    program.only_if(R1, IPPROTO_UDP);
    program.load(Size::Half, R1, at(ip + 2));
    let ports = target.ports[version].iter();
    let ports = ports.map(|port| u16::from_ne_bytes(port.to_be_bytes()).into());
    program.only_if_any(R1, &ports.collect::<Vec<_>>());
    let destinations = target.destinations(version);
    if !destinations.is_empty() {
        // The destination is the last field of both headers.
        program.load(Size::Word, R1, at(ip - 4));
        program.only_if_any(R1, &destinations);
    }
    if target.identity == Identity::Probe {
        program.load(Size::Word, R1, at(payload + probe::MAGIC_AT as i16));
        program.only_if(R1, u32::from_ne_bytes(probe::MAGIC.to_be_bytes()));
    }
    program.load(Size::Double, SECOND, at(number));
    if target.identity == Identity::Probe {
        program.big_endian(SECOND);
    }
}

/// Continues only for the socket of a stream, argument `n`, whose cookie becomes the first value where there are several.
fn socket(program: &mut Program, target: &TraceTarget, offsets: &Offsets, n: i16) {
    if target.sockets.is_empty() {
        follow(program, n, offsets.socket_port, 2);
        program.load(Size::Half, R1, WORD_AT);
        let ports = target.ports.iter().flatten().map(|port| u32::from(*port));
        return program.only_if_any(R1, &ports.collect::<Vec<_>>());
    }
    follow(program, n, offsets.socket_cookie, 8);
    program.load(Size::Double, FIRST, WORD_AT);
    program.only_if_any(FIRST, &target.sockets);
}

/// Arguments: whether the previous thread was preempted, previous thread, next thread, state of the
/// previous one.
fn switch(program: &mut Program, offsets: &Offsets) {
    follow(program, 1, offsets.task_pid, 4);
    program.load(Size::Word, SECOND, WORD_AT);
    // A thread that waits for nothing (state 0) is runnable.
    program.argument(R1, 3);
    program.is_zero(R3, R1);
    program.shift_left(R3, 32);
    program.or(SECOND, R3);
    program.argument(R1, 0);
    program.shift_left(R1, 32);
    program.or(SECOND, R1);
    follow(program, 2, offsets.task_pid, 4);
    program.load(Size::Word, FIRST, WORD_AT);
    follow(program, 2, offsets.task_name, 8);
    program.load(Size::Double, THIRD, WORD_AT);
}

/// Decodes a record; `None` when it was not completely written.
pub(super) fn event(core: u16, record: [u64; 4]) -> Option<Event> {
    let [at_ns, head, second, third] = record;
    let first = (head >> 32) as u32;
    let what = match head as u8 {
        1 => EventKind::Transmit { sequence: second },
        2 => EventKind::Receive { sequence: second },
        3 => EventKind::Ready { socket: first },
        4 => EventKind::Refused,
        5 => EventKind::Raise,
        6 => EventKind::Poll { work: first },
        7 => EventKind::InterruptEntry { number: first },
        8 => EventKind::InterruptExit,
        9 => EventKind::SoftirqEntry { number: first as u8 },
        10 => EventKind::SoftirqExit,
        11 => EventKind::TimerEntry { function: second },
        12 => EventKind::TimerExit,
        13 => EventKind::Switch {
            from: second as u32,
            is_displaced: second >> 32 != 0,
            to: first,
            name: third.to_ne_bytes(),
        },
        14 => EventKind::Wakeup { thread: first },
        15 if first == AWAKE => EventKind::Awake,
        15 => EventKind::Sleep { state: first },
        16 => EventKind::VectorEntry { vector: Vector::LocalTimer },
        17 => EventKind::VectorEntry { vector: Vector::Reschedule },
        18 => EventKind::VectorEntry { vector: Vector::CallFunction },
        19 => EventKind::VectorEntry { vector: Vector::IrqWork },
        20 => EventKind::VectorExit,
        _ => return None,
    };
    Some(Event { at_ns, core, what })
}
