//! The inputs of receivers and senders.

use crate::options::Options;
use crate::packet::Kind;
use crate::trace::Trace;
use crate::traffic::{self, FULL};
use std::path::PathBuf;

/// Packets of a round, and the most taken from a capture.
const PACKETS: usize = 20_000;
const QUICK_PACKETS: usize = 1_280;
/// Payload bytes of a packet, from small to jumbo.
pub const SIZES: [usize; 7] = [64, 256, 512, 1024, FULL, 4096, 8948];

/// Where packets come from.
#[derive(Debug, Clone)]
enum From {
    /// A capture of this name, if there is one; otherwise something like it.
    Captured(&'static str, Derived),
    Derived(Derived),
    File(PathBuf),
}

#[derive(Debug, Clone, Copy)]
enum Derived {
    Runs(Kind, u32, usize, usize),
    Reordered,
    Lossy,
    Web,
    Imix,
    /// All flows, and those active at once.
    Many(u32, u32),
}

/// Something to receive.
#[derive(Debug, Clone)]
pub struct Input {
    pub name: String,
    pub what: String,
    from: From,
}

/// Packets, and how they came to be.
pub struct Ready {
    pub trace: Trace,
    pub origin: &'static str,
    /// Flows that a receiver needs room for, and those active at once; 0 if it does not matter.
    pub flows: usize,
    #[cfg_attr(not(dpdk), expect(dead_code, reason = "only DPDK's table wants to know"))]
    pub window: usize,
}

/// All there are.
pub fn all(options: &Options) -> Vec<Input> {
    let runs = |kind, flows, run, size| Derived::Runs(kind, flows, run, size);
    let mut inputs: Vec<Input> = vec![];
    let mut add = |name: &str, what: &str, from| {
        inputs.push(Input { name: name.into(), what: what.into(), from });
    };
    let bulk = runs(Kind::Tcp4, 1, 64, FULL);
    let captured = [
        ("bulk", "1 flow, 1448 B", bulk),
        ("flows64", "64 flows", runs(Kind::Tcp4, 64, 16, FULL)),
        ("ipv6", "8 flows of TCP over IPv6", runs(Kind::Tcp6, 8, 32, 1428)),
        ("jumbo", "4 flows, 8948 B", runs(Kind::Tcp4, 4, 7, 8948)),
        ("udp", "4 flows of UDP, 1472 B", runs(Kind::Udp4, 4, 16, 1472)),
    ];
    for (name, what, derived) in captured {
        add(name, what, From::Captured(name, derived));
    }
    let derived = [
        ("web", "requests and responses, 400 connections at once", Derived::Web),
        ("reordered", "bulk, 5% of packets 1 to 3 places late", Derived::Reordered),
        ("lossy", "bulk, 1% of packets lost", Derived::Lossy),
        ("imix", "64, 594, 1518 B 7:4:1, 1000 flows, a third UDP", Derived::Imix),
        ("100k", "100,000 flows, 4 packets each, 4096 flows at once", Derived::Many(100_000, 4096)),
        ("1m", "1,000,000 flows, 4 packets each, 16 at once", Derived::Many(1_000_000, 16)),
        (
            "1m-wide",
            "1,000,000 flows, 4 packets each, 4096 at once",
            Derived::Many(1_000_000, 4096),
        ),
    ];
    for (name, what, derived) in derived {
        add(name, what, From::Derived(derived));
    }
    for size in SIZES {
        let flow = From::Derived(runs(Kind::Tcp4, 1, 64, size));
        add(&format!("size-{size}"), &format!("1 flow, {size} B"), flow);
    }
    for path in &options.captures {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        add(&name, "given capture", From::File(path.clone()));
    }
    inputs.retain(|input| options.asks_for(&input.name));
    inputs
}

impl Input {
    /// Reads or makes the packets.
    pub fn ready(&self, options: &Options) -> Result<Ready, String> {
        let limit = if options.quick { QUICK_PACKETS } else { PACKETS };
        match &self.from {
            From::File(path) => {
                let trace = Trace::read(path, limit)?;
                Ok(Ready { trace, origin: "captured", flows: 0, window: 0 })
            }
            From::Captured(name, derived) => Ok(captured(name, *derived, options, limit)),
            From::Derived(derived) => Ok(derive(*derived, options, limit)),
        }
    }
}

fn captured(name: &str, derived: Derived, options: &Options, limit: usize) -> Ready {
    let path = options.traces.as_ref().map(|folder| folder.join(name).with_extension("pcap"));
    match path.filter(|path| path.exists()).map(|path| Trace::read(&path, limit)) {
        Some(Ok(trace)) => return Ready { trace, origin: "captured", flows: 0, window: 0 },
        Some(Err(error)) => eprintln!("{name}: derived instead: {error}"),
        None => {}
    }
    derive(derived, options, limit)
}

fn derive(derived: Derived, options: &Options, limit: usize) -> Ready {
    let bulk = || captured("bulk", Derived::Runs(Kind::Tcp4, 1, 64, FULL), options, limit);
    let made = |trace| Ready { trace, origin: "derived", flows: 0, window: 0 };
    match derived {
        Derived::Runs(kind, flows, run, size) => made(traffic::runs(kind, flows, run, size, limit)),
        Derived::Web => made(traffic::web(400, limit)),
        Derived::Imix => made(traffic::imix(1000, limit)),
        Derived::Reordered => {
            let Ready { mut trace, origin, .. } = bulk();
            traffic::reorder(&mut trace, 3);
            Ready { trace, origin: derived_from(origin), flows: 0, window: 0 }
        }
        Derived::Lossy => {
            let Ready { mut trace, origin, .. } = bulk();
            traffic::lose(&mut trace);
            Ready { trace, origin: derived_from(origin), flows: 0, window: 0 }
        }
        Derived::Many(flows, window) => {
            let flows = if options.quick { flows / 100 } else { flows };
            let timed = if options.quick { 500 } else { 50_000.min(flows) };
            let window = window.min(timed);
            let trace = traffic::spread(flows, timed, window, 4);
            Ready { trace, origin: "derived", flows: flows as usize, window: window as usize }
        }
    }
}

fn derived_from(origin: &str) -> &'static str {
    if origin == "captured" { "derived from a capture" } else { "derived" }
}

/// Something to cut: large packets of just below 64 KiB.
#[derive(Debug, Clone)]
pub struct Load {
    pub name: String,
    pub what: String,
    pub kind: Kind,
    /// Payload bytes of a segment, and segments of a large packet, all full.
    pub size: usize,
    pub segments: usize,
}

/// All there are.
pub fn loads(options: &Options) -> Vec<Load> {
    let load = |name: String, kind: Kind, protocol: &str, size: usize| Load {
        name,
        what: format!("{protocol}, {size} B"),
        kind,
        size,
        // Fewer than a burst, so that there is a buffer for each.
        segments: (64_240 / size).min(44),
    };
    let mut loads: Vec<Load> =
        SIZES.map(|size| load(format!("send-{size}"), Kind::Tcp4, "TCP over IPv4", size)).into();
    loads.push(load("send-ipv6".into(), Kind::Tcp6, "TCP over IPv6", 1428));
    loads.push(load("send-udp".into(), Kind::Udp4, "UDP over IPv4", 1472));
    loads.retain(|load| options.asks_for(&load.name));
    loads
}
