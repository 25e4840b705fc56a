//! Everything that happens before the first packet: control channel, agreement, lanes.

use super::lanes::Lanes;
use super::path::Path;
use super::reading::HARD_LINKS;
use super::{SendError, SendOptions};
use crate::control::{Access, Control, ControlError};
use crate::end::agree::{FEC_KINDS, scheme_to_message};
use crate::end::{Endpoint, SealedSocket, challenges};
use crate::file::{Input, Source as Files};
use crate::lane::{LocalEnd, MAX_DATAGRAM_BYTES, Own, Peer, Spec};
use linecard_transfer::control::{
    Hello, LaneKind, LaneOffer, Message, RefuseCode, VERSIONS, Welcome,
};
use linecard_transfer::fec::Repair;
use linecard_transfer::lane::LaneSettings;
use linecard_transfer::send::{SendSettings, Sender};
use linecard_transfer::store::Source;
use linecard_transfer::wire::{MAX_LANES, OVERHEAD_BYTES};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};
use std::{process, thread};

/// Memory of this end for chunks in flight, if two for each lane are less: 100 ms of 80 Gbit/s.
const MEMORY_BYTES: u64 = 1 << 30;
/// The first version in which links that lead out are announced.
const LINKS_OUT: u16 = 7;
/// Interfaces of the receiver that are asked for beside those that lanes lead to anyway.
const SPARES: usize = 3;
/// Payloads that are tried, largest first: jumbo frames, pages, and what every path carries.
const PAYLOADS: [usize; 3] = [8_896, 4_096, 1_408];
/// How far ahead of its schedule a lane sends, in ns: fewer and larger calls, and at 200 Mbit/s no more than
/// 12 KB at once.
const QUANTUM_NS: u64 = 500_000;
/// How long to wait before a connection is tried again that was cut before the receiver has answered: one to which many
/// connect at once ends the oldest handshakes.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
];
/// Lost time that a lane of known rate catches up, in ns: the limit of bytes in flight bounds a burst.
const CATCH_UP_NS: u64 = 20_000_000;
/// Headers around a datagram on Ethernet: UDP, IPv4 or IPv6, and the frame's own.
const FRAMING_V4: u32 = 8 + 20 + 14;
const FRAMING_V6: u32 = 8 + 40 + 14;

/// Resources of a sender.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) endpoint: Endpoint,
    pub(super) lanes: Lanes,
    pub(super) sender: Sender,
    pub(super) source: Source,
    pub(super) payload_bytes: u32,
    /// Of messages.
    pub(super) version: u16,
}

/// Connects to a receiver that knows all that sending `files` takes.
pub(super) fn open(options: &SendOptions, files: &Files) -> Result<Opened, SendError> {
    // Input errors are found before the receiver is contacted.
    options.lanes.iter().try_for_each(Spec::check)?;
    let deadline = Instant::now() + options.patience;
    // A guess at a pairing code may count although its answer was lost.
    let pauses: &[Duration] = if options.access.pairing().is_some() { &[] } else { &PAUSES };
    for pause in pauses {
        match connect(options, files, deadline) {
            Err(SendError::Control(ControlError::ClosedEarly)) if !options.stop.is_stopped() => {
                // Those that were cut together do not come back together.
                thread::sleep(*pause * (8 + process::id() % 8) / 8);
            }
            result => return result,
        }
    }
    connect(options, files, deadline)
}

fn connect(options: &SendOptions, files: &Files, deadline: Instant) -> Result<Opened, SendError> {
    let mut control = Control::connect(options.peer, &options.name, &options.access, deadline)?;
    let (local, peer) = control.addresses();
    let own = Own::now();
    let (specs, spares) = specs(options, (local.ip(), peer.ip()), &own);
    if specs.len() > MAX_LANES {
        return Err(SendError::Lanes(specs.len()));
    }
    let payload_bytes = match options.payload_bytes {
        Some(bytes) => bytes,
        // Found lanes follow the first: those that carry less are reported, and those that are left out do not count.
        None => payload(if options.lanes.is_empty() { &specs[..1] } else { &specs }, peer, &own),
    };
    let sources: Vec<Option<IpAddr>> =
        specs.iter().map(|spec| own.source(spec, peer.ip())).collect();
    let fec = repair(options.fec, &specs);
    let least = least_version(options, files);
    let hello = Hello {
        versions: VERSIONS.into_iter().filter(|version| *version >= least.0).collect(),
        suites: control.suites().to_vec(),
        fec_kinds: FEC_KINDS.to_vec(),
        fec: scheme_to_message(fec.scheme()),
        chunk_bytes: u32::try_from(options.chunk_bytes.bytes()).unwrap_or(u32::MAX),
        payload_bytes,
        lanes: specs.iter().map(offer).collect(),
        spares,
        mode: options.mode,
        sources: hello_sources(local.ip(), &sources),
        dry_run: options.dry_run,
        delete: options.delete,
        links_out: files.has_links_out(),
    };
    control.send(&Message::Hello(hello.clone()))?;
    let welcome = welcome(&mut control, options, least.1)?;
    welcome.check(&hello)?;
    control.pack(welcome.version);
    let receiver = Peer { ip: peer.ip(), is_plain: matches!(options.access, Access::Open) };
    let ends = specs.into_iter().zip(sources).zip(&welcome.lanes);
    let path =
        |((spec, source), named): ((_, _), &_)| Path::open(spec, source, (receiver, *named), &own);
    let paths: Vec<Path> = ends.map(path).collect();
    let paths = if options.lanes.is_empty() { leading_paths(paths, spares) } else { paths };
    if paths.iter().all(|path| path.problem.is_some()) {
        let problems = paths.into_iter().filter_map(|path| path.problem);
        return Err(SendError::NoLane(problems.collect()));
    }
    let mut sockets = Vec::with_capacity(paths.len());
    let mut opened = Vec::with_capacity(paths.len());
    for (number, mut path) in paths.into_iter().enumerate() {
        let keys = control.lane(welcome.suite, welcome.connection, number as u16)?;
        let mut socket = SealedSocket::new(path.take_lane(), keys);
        socket.limit_bursts(burst_bytes(path.spec.rate_bits_per_second));
        sockets.push(socket);
        opened.push(path);
    }
    let settings = SendSettings {
        connection: welcome.connection,
        payload_bytes,
        fec,
        mode: options.mode,
        window_end: welcome.window_chunks,
        memory_bytes: memory_bytes(options.chunk_bytes.bytes(), opened.len()),
        ..SendSettings::default()
    };
    let lanes = lane_settings(&opened, payload_bytes);
    let sender = Sender::new(settings, &lanes, challenges()?);
    let (source, version) = (Source::new(payload_bytes, fec.scheme()), welcome.version);
    let endpoint = Endpoint::new(control, sockets, payload_bytes);
    Ok(Opened { endpoint, lanes: Lanes::new(opened), sender, source, payload_bytes, version })
}

/// The addresses of this end, as the receiver is told: of the control connection, and of each lane.
fn hello_sources(local: IpAddr, sources: &[Option<IpAddr>]) -> Vec<IpAddr> {
    let unknown = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let sources = sources.iter().map(|source| source.unwrap_or(unknown));
    std::iter::once(local).chain(sources).collect()
}

/// Bytes of chunks that this end keeps until they are whole at the other, which may have room for more.
pub(super) fn memory_bytes(chunk_bytes: u64, lanes: usize) -> u64 {
    MEMORY_BYTES.max(2 * lanes as u64 * chunk_bytes)
}

/// The lanes that the user wants, with the rate that holds where none is said. The first of those that are found is that
/// of the control connection, and the only one if a rate is given, which may be that of a bottleneck. The last of them, so
/// many, are spare ones: from the same address to other interfaces of the receiver.
fn specs(options: &SendOptions, (local, peer): (IpAddr, IpAddr), own: &Own) -> (Vec<Spec>, usize) {
    let mut specs = options.lanes.clone();
    let is_found = specs.is_empty() && options.rate_bits_per_second.is_none();
    // Within one host, all interfaces lead to the same place.
    let spares = if is_found && !own.has(peer) { SPARES } else { 0 };
    if specs.is_empty() {
        let others = if is_found { own.beside(&[(local, peer)], peer) } else { Vec::new() };
        let addresses = std::iter::once(local).chain(others).take(MAX_LANES - spares);
        let addresses = addresses.chain(std::iter::repeat_n(local, spares));
        specs.extend(addresses.map(|ip| Spec::new(LaneKind::Udp, ip)));
    }
    for spec in &mut specs {
        spec.rate_bits_per_second = spec.rate_bits_per_second.or(options.rate_bits_per_second);
    }
    (specs, spares)
}

/// Repair that these lanes can need.
fn repair(asked: Repair, specs: &[Spec]) -> Repair {
    let loses_nothing = specs.iter().all(|spec| spec.kind == LaneKind::Tcp);
    if asked == Repair::Auto && loses_nothing { Repair::default() } else { asked }
}

/// Found lanes: the first is used in any case, and others if they lead to the receiver by an interface of their own at one
/// of both ends.
fn leading_paths(mut paths: Vec<Path>, spares: usize) -> Vec<Path> {
    let usual = paths.len() - spares;
    for at in 1..paths.len() {
        let (before, path) = paths.split_at_mut(at);
        path[0].is_spare = at >= usual;
        // An older receiver gives the address of another lane.
        let is_double =
            at >= usual && before.iter().any(|other| other.peer.ip() == path[0].peer.ip());
        path[0].leave_out_if_elsewhere(is_double);
    }
    paths
}

fn offer(spec: &Spec) -> LaneOffer {
    LaneOffer { kind: spec.kind, rate_bits_per_second: spec.rate_bits_per_second.unwrap_or(0) }
}

/// The largest payload that all lanes carry, as far as this host knows.
fn payload(specs: &[Spec], peer: SocketAddr, own: &Own) -> u32 {
    let mut longest = usize::MAX;
    for spec in specs.iter().filter(|spec| spec.kind == LaneKind::Udp) {
        // To an address of the other family nothing can be asked: what every path carries will do.
        let known = spec.connect(peer).map(|lane| lane.max_datagram());
        longest = longest.min(known.unwrap_or(PAYLOADS[2] + OVERHEAD_BYTES));
        // The receiver may answer at an address that is reached by another interface.
        longest = longest.min(own.interface_datagram(spec, peer).unwrap_or(usize::MAX));
    }
    let fitting = PAYLOADS.into_iter().find(|payload| payload + OVERHEAD_BYTES <= longest);
    fitting.unwrap_or(longest.saturating_sub(OVERHEAD_BYTES)) as u32
}

/// The oldest version that has all that is asked for, and the option that an older one does not know.
fn least_version(options: &SendOptions, files: &Files) -> (u16, Option<&'static str>) {
    match options.input {
        Input::Probe(_) => (3, Some("--probe")),
        _ if files.has_links_out() => (LINKS_OUT, Some("--links-out")),
        _ if files.has_links() => (HARD_LINKS, Some("--hard-links")),
        _ if options.dry_run => (2, Some("--dry-run")),
        _ if options.delete => (2, Some("--delete")),
        _ => (1, None),
    }
}

/// The answer of the receiver; `newest` is the option that an older one does not know.
fn welcome(
    control: &mut Control,
    options: &SendOptions,
    newest: Option<&'static str>,
) -> Result<Welcome, SendError> {
    match control.wait_for_message(options.patience)? {
        Some(Message::Welcome(welcome)) => Ok(welcome),
        Some(Message::Refuse(refuse)) => match (refuse.code, newest) {
            (RefuseCode::Version, Some(facility)) => Err(SendError::Older(facility)),
            _ => Err(refuse.into()),
        },
        Some(_) => Err(SendError::Unexpected("another message than welcome")),
        None => Err(SendError::NoWelcome(options.patience)),
    }
}

/// Bytes of one call: what the lane carries in [`QUANTUM_NS`], if its rate is known.
fn burst_bytes(rate_bits_per_second: Option<u64>) -> usize {
    let bytes = |rate_bits_per_second: u64| {
        u128::from(rate_bits_per_second) * u128::from(QUANTUM_NS) / 8_000_000_000
    };
    let known = rate_bits_per_second.map(|rate_bits_per_second| {
        usize::try_from(bytes(rate_bits_per_second)).unwrap_or(usize::MAX)
    });
    known.unwrap_or(MAX_DATAGRAM_BYTES).min(MAX_DATAGRAM_BYTES)
}

pub(super) fn lane_settings(paths: &[Path], payload_bytes: u32) -> Vec<LaneSettings> {
    let own = LaneSettings::default();
    let groups: Vec<&String> = paths.iter().filter_map(|path| path.spec.shared.as_ref()).collect();
    let number = |group: &String| groups.iter().position(|other| *other == group);
    paths
        .iter()
        .map(|Path { spec, is_proven, .. }| {
            let v6 = matches!(spec.local, LocalEnd::Address(IpAddr::V6(_)));
            LaneSettings {
                rate_bits_per_second: spec.rate_bits_per_second.unwrap_or(0),
                congestion: spec.congestion,
                framing_bytes: if v6 { FRAMING_V6 } else { FRAMING_V4 },
                datagram_bytes: payload_bytes + OVERHEAD_BYTES as u32,
                stream: spec.kind == LaneKind::Tcp,
                quantum_ns: QUANTUM_NS,
                catch_up_ns: spec.rate_bits_per_second.map_or(own.catch_up_ns, |_| CATCH_UP_NS),
                shared: spec.shared.as_ref().and_then(number).map_or(0, |at| at as u32 + 1),
                unproven: !is_proven,
                ..own
            }
        })
        .collect()
}
