//! Advice that follows from the figures, in plain words.

use linecard::offload::coalesce::{Counters as Merging, Refusal};
use linecard_io::attach::{AttachStats, Deployment, PortKind, PortSpec, Settings};
use linecard_io::engine::ThreadTime;
use linecard_tun::{Counters, interface};

/// Packets from which on a share of them says something.
const MANY: u64 = 100;
/// The same for wrong checksums: connections do not get far with them.
const WRONG: u64 = 10;
/// Mean bytes of packets that were merged before: twice the size of jumbo frames is rare otherwise.
const LARGE: u64 = 4_000;

/// The advice, if there is any. Packets that found no room once the threads were told to stop, with the statistics of
/// `at_stop`, say nothing.
pub(super) fn of(account: &AttachStats, at_stop: &AttachStats, settings: &Settings) -> Vec<String> {
    let (mut near, mut far) = (AttachStats::total(&account.near), AttachStats::total(&account.far));
    near.dropped.ring_full = AttachStats::total(&at_stop.near).dropped.ring_full;
    far.dropped.ring_full = AttachStats::total(&at_stop.far).dropped.ring_full;
    let ingress = AttachStats::merged(&account.ingress);
    let ports = [(&settings.near, &near), (&settings.far, &far)];
    let of_near =
        account.near_threads.iter().fold(ThreadTime::default(), |sum, time| sum.plus(*time));
    // The far port has a thread of its own only there.
    let is_near = |spec| settings.deployment != Deployment::Dedicated || spec == &settings.near;
    let thread = |spec| if is_near(spec) { of_near } else { ThreadTime::default() };
    let mut hints: Vec<String> = ports
        .into_iter()
        .zip(ports.into_iter().rev())
        .flat_map(|(port, other)| [full(port.0, port.1, thread(port.0)), no_buffer(port, other)])
        .flatten()
        .collect();
    hints.extend(other_link(&settings.far, &far));
    hints.extend(other_link(&settings.near, &near));
    hints.extend(rings(account));
    hints.extend(checksums(&settings.near, &ingress));
    hints.extend(large(&settings.near, &ingress));
    hints.extend(ports.into_iter().filter_map(|(port, counters)| too_long(port, counters)));
    hints.extend(answers(settings));
    hints
}

/// More buffers would not help: the size of the ring is fixed.
fn full(spec: &PortSpec, counters: &Counters, thread: ThreadTime) -> Option<String> {
    let lost = counters.dropped.ring_full;
    let what = match spec.device() {
        Some(_) => format!(
            "the kernel dropped {lost} packets of the host for {spec}, which were not read in time"
        ),
        None => format!("{spec} had no room for {lost} packets that the kernel had received"),
    };
    // A device that was just brought up drops the first packets until its carrier is noticed.
    let least = if spec.device().is_some() { MANY } else { 1 };
    let seconds = |ns| ns as f64 / 1e9;
    let (waited, busy) = (seconds(thread.wait_ns), seconds(thread.wait_ns + thread.run_ns));
    (lost >= least).then(|| match thread.is_waiting() {
        true => format!(
            "{what}: in {waited:.1} of the {busy:.1} s in which its thread had work, others had its core. \
             Give it a core of its own (`--cores`), or real-time scheduling (`--scheduling realtime`)."
        ),
        false => format!(
            "{what}: they came in bursts, or faster than its thread took them. If that is always busy, \
             another worker (`--workers`, with `--deployment shared` where the interface has one queue) with a \
             core of its own (`--cores`) helps; more `--buffers` does not."
        ),
    })
}

/// Buffers run out because packets wait for room at the other port, where more buffers would only make
/// the queue longer, or because many flows hold them.
fn no_buffer(
    (spec, counters): (&PortSpec, &Counters),
    (other, others): (&PortSpec, &Counters),
) -> Option<String> {
    let often = counters.no_buffer > 0 && counters.no_buffer * 100 > counters.received;
    let (no_buffer, blocked) = (counters.no_buffer, others.blocked);
    let waited = format!(
        "{spec} had no free buffer {no_buffer} times, and its packets waited in the kernel"
    );
    often.then(|| match blocked {
        0 => format!("{waited}: more `--buffers`, or a shorter `--hold`, helps."),
        _ => format!(
            "{waited}, since {other} took packets more slowly than they came: it had no room {blocked} \
             times. More `--buffers` would only add delay; a core of its own (`--cores`), or offloads \
             where they are off, helps."
        ),
    })
}

fn other_link(spec: &PortSpec, counters: &Counters) -> Option<String> {
    let lost = counters.dropped.other_link;
    (lost > 0).then(|| {
        format!(
            "{spec} could not send {lost} packets of another link type (tap devices have Ethernet \
             frames, tun devices IP packets): split the capture by its interfaces."
        )
    })
}

fn rings(account: &AttachStats) -> Option<String> {
    let lost: u64 = account.spread.dropped.iter().sum();
    (lost > 0).then(|| {
        format!(
            "Workers' rings had no room for {lost} packets: more `--workers`, or a larger `--ring` if \
             they come in bursts."
        )
    })
}

/// Senders in the same machine leave checksums to hardware that is not there.
fn checksums(near: &PortSpec, ingress: &Merging) -> Option<String> {
    let refused = &ingress.refused;
    let wrong = refused.of(Refusal::Checksum) + refused.of(Refusal::PartialChecksum);
    if wrong < WRONG || wrong * 20 < ingress.packets_in {
        return None;
    }
    let peer = if near.interface().is_some() {
        " The other end of a veth leaves checksums open: `ethtool -K PEER tx off`, where PEER is that \
         end."
    } else {
        " A capture that was taken on a sender has checksums that its hardware was to compute: \
         `--checksum trust` merges them."
    };
    Some(format!("{wrong} packets did not merge, since their checksums are wrong or open.{peer}"))
}

/// The packets were merged before they arrived.
fn large(near: &PortSpec, ingress: &Merging) -> Option<String> {
    let is_large = ingress.packets_in >= MANY && ingress.bytes_in / ingress.packets_in > LARGE;
    let is_alone = ingress.merged * 20 < ingress.packets_in;
    let name = near.interface().unwrap_or("DEV");
    (is_large && is_alone).then(|| {
        format!(
            "Hardly anything merged: packets already come large, {} bytes on average. Somebody merges \
             before, or a sender in this machine leaves cutting to its interface: `ethtool -K {name} \
             gro off lro off`, and `ethtool -K PEER tso off gso off` there.",
            ingress.bytes_in / ingress.packets_in
        )
    })
}

/// The host was given a longer MTU than the port can send.
fn too_long(spec: &PortSpec, counters: &Counters) -> Option<String> {
    let (lost, name) = (counters.dropped.above_mtu, spec.interface()?);
    (lost > 0).then(|| {
        format!(
            "{spec} could not send {lost} packets, which are longer than the MTU of {name}: give the device \
             that they come from the same one (`ip link show {name}`, `ip link set DEV mtu BYTES`)."
        )
    })
}

/// The kernel was to get the packets too, and takes them for its own. Where they are only recorded, that is as it should be.
fn answers(settings: &Settings) -> Option<String> {
    let near = &settings.near;
    let PortKind::Packet(name) = &near.kind else { return None };
    if !near.mirror || settings.far.file().is_some() {
        return None;
    }
    // An interface that is gone answers nothing.
    interface::has_ipv4(name).is_ok_and(|has| has).then(|| {
        format!(
            "{name} has an IP address, and by `mirror` the kernel got the packets too: it has answered \
             them, with resets where it knows no connection. Leave `mirror` out, or take the address away \
             (`ip addr flush dev {name}`), if nobody reaches this host by it."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::{merged, port};
    use super::*;

    /// The advice while it runs.
    fn of(account: &AttachStats, settings: &Settings) -> Vec<String> {
        super::of(account, account, settings)
    }

    fn settings(near: &str) -> Settings {
        let spec = |text: &str| text.parse().expect("a port");
        Settings::new(spec(near), spec("tap:b"))
    }

    #[test]
    fn nothing_to_do_nothing_to_say() {
        let account = AttachStats {
            near: vec![port(1_000, 10, 0)],
            ingress: vec![merged(1_000, 10, 7, 0)],
            ..AttachStats::default()
        };
        assert_eq!(of(&account, &settings("xdp:a")), [""; 0]);
        assert_eq!(of(&AttachStats::default(), &settings("packet:lc-none")), [""; 0]);
    }

    #[test]
    fn every_trouble_has_its_remedy() {
        let mut account = AttachStats {
            near: vec![port(1_000, 10, 7)],
            ingress: vec![merged(1_000, 1, 7, 0)],
            ..AttachStats::default()
        };
        account.near[0].no_buffer = 11;
        account.ingress[0].coalesce.bytes_in = 40_000_000;
        account.spread.dropped = vec![1, 2];
        let hints = of(&account, &settings("xdp:a"));
        let parts = ["--workers", "--buffers", "--ring", "ethtool -K a gro off"];
        assert_eq!(hints.len(), parts.len(), "{hints:#?}");
        for (hint, part) in hints.iter().zip(parts) {
            assert!(hint.contains(part), "{part}: {hint}");
        }
    }

    #[test]
    fn a_device_that_is_read_too_late_loses_packets_of_the_host() {
        let account = AttachStats { far: vec![port(10, 1_000, 100)], ..AttachStats::default() };
        let hints = of(&account, &settings("xdp:a"));
        let start = "the kernel dropped 100 packets of the host for tap:b, which";
        assert!(hints.len() == 1 && hints[0].starts_with(start), "{hints:?}");
    }

    #[test]
    fn packets_longer_than_the_mtu_are_said() {
        let mut account = AttachStats { near: vec![port(1_000, 10, 0)], ..AttachStats::default() };
        account.near[0].dropped.above_mtu = 20;
        let hints = of(&account, &settings("packet:a"));
        assert!(hints.len() == 1 && hints[0].contains("20 packets, which are longer"), "{hints:?}");
    }

    #[test]
    fn packets_that_come_while_it_ends_need_no_advice() {
        let at_stop = AttachStats { near: vec![port(1_000, 10, 0)], ..AttachStats::default() };
        let account = AttachStats { near: vec![port(1_000, 10, 7)], ..AttachStats::default() };
        assert_eq!(super::of(&account, &at_stop, &settings("xdp:a")), [""; 0]);
        assert_eq!(super::of(&account, &account, &settings("xdp:a")).len(), 1);
    }

    #[test]
    fn a_thread_that_waited_for_its_core_needs_one() {
        let mut account = AttachStats { near: vec![port(1_000, 10, 7)], ..AttachStats::default() };
        for (wait_ns, remedy) in
            [(0, "--workers"), (2_000_000_000, "of the 3.0 s"), (10, "--workers")]
        {
            account.near_threads = vec![ThreadTime { run_ns: 1_000_000_000, wait_ns }];
            let hints = of(&account, &settings("xdp:a"));
            assert!(hints.len() == 1 && hints[0].contains(remedy), "{wait_ns}: {hints:?}");
        }
    }

    #[test]
    fn more_buffers_are_not_the_remedy_for_a_slow_port() {
        let mut account = AttachStats { near: vec![port(1_000, 10, 0)], ..AttachStats::default() };
        account.near[0].no_buffer = 11;
        let hints = of(&account, &settings("xdp:a"));
        assert!(hints.len() == 1 && hints[0].contains(": more `--buffers`"), "{hints:?}");
        account.far = vec![port(10, 1_000, 0)];
        account.far[0].blocked = 3;
        let hints = of(&account, &settings("xdp:a"));
        let says = |what| hints.iter().any(|hint: &String| hint.contains(what));
        assert!(hints.len() == 1 && says("tap:b took packets more slowly"), "{hints:?}");
        assert!(says("would only add delay"), "{hints:?}");
    }

    #[test]
    fn the_kernel_answers_where_it_has_an_address_and_the_packets() {
        // Every namespace has this one, though not always up or with an address.
        let has = interface::has_ipv4("lo").is_ok_and(|has| has);
        let hints = of(&AttachStats::default(), &settings("packet:lo,mirror"));
        assert_eq!(hints.len(), usize::from(has), "{hints:?}");
        // The kernel answers beside a recorder.
        let recorded = Settings {
            far: "file:m.pcap".parse().expect("a port"),
            ..settings("packet:lo,mirror")
        };
        assert_eq!(of(&AttachStats::default(), &recorded), [""; 0]);
        assert_eq!(of(&AttachStats::default(), &settings("packet:lo")), [""; 0]);
    }
}
