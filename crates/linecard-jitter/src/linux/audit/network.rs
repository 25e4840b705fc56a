//! The interface, and the path of packets from it to a socket.

use super::{Check, Host, Observed, Remedy, Unreadable};
use crate::linux::setting::{Form, Setting, coalescing_number};

/// Packets per second of the paper's stream: ST 2022-6, 1080i59.94.
const PACKETS_PER_S: i64 = 134_775;
/// Bytes that the kernel charges to a socket's buffer for a packet of 1,428 bytes.
const BYTES_PER_PACKET: i64 = 2_304;
/// How long a sink may pause: twenty ticks at 1,000 Hz.
const AWAY_MS: i64 = 20;

const SCALING: &str = "networking/scaling.rst";
const NAPI: &str = "networking/napi.rst";

pub(super) const CHECKS: [Check; 9] = [
    Check {
        id: "coalescing",
        reads: "ethtool -c",
        cause: "the adapter gathers packets before it interrupts: gaps as long as its timer, 100 µs in \
                the paper, which hide all else",
        source: "paper, section IV-E, figure 11",
        remedy: Remedy::Live,
        risk: "an interrupt for each packet: more load",
        weight: 100,
        toggle: None,
        look: coalescing,
    },
    Check {
        id: "napi-defer",
        reads: "/sys/class/net/*/gro_flush_timeout, napi_defer_hard_irqs",
        cause: "the kernel polls by a timer instead of interrupts: gaps as long as the timer",
        source: NAPI,
        remedy: Remedy::Live,
        risk: "an interrupt for each packet: more load",
        weight: 98,
        toggle: Some("napi-defer"),
        look: napi_defer,
    },
    Check {
        id: "rps",
        reads: "/sys/class/net/*/queues/rx-*/rps_cpus",
        cause: "packets are handed to another core: an interrupt between cores, and one more queue",
        source: SCALING,
        remedy: Remedy::Live,
        risk: "one core does all the work of a queue",
        weight: 65,
        toggle: Some("rps"),
        look: rps,
    },
    Check {
        id: "threaded-napi",
        reads: "/sys/class/net/*/threaded",
        cause: "packets are polled by a thread, which the scheduler may keep waiting",
        source: NAPI,
        remedy: Remedy::Live,
        risk: "on a core with nothing else to do a thread can also be the better way",
        weight: 50,
        toggle: Some("threaded-napi"),
        look: threaded,
    },
    Check {
        id: "busy-poll",
        reads: "/proc/sys/net/core/busy_read, busy_poll",
        cause: "a sink that blocks waits for interrupt, softirq and scheduler; one that polls the queue \
                does not",
        source: "paper, section IV-D; sysctl/net.rst",
        remedy: Remedy::Program,
        risk: "its core is busy all the time",
        weight: 20,
        toggle: Some("busy-poll"),
        look: busy_poll,
    },
    Check {
        id: "socket-buffer",
        reads: "/proc/sys/net/core/rmem_max, rmem_default",
        cause: "a sink that is away for a moment loses packets, which look like gaps",
        source: "sysctl/net.rst",
        remedy: Remedy::Live,
        risk: "memory",
        weight: 55,
        toggle: None,
        look: socket_buffer,
    },
    Check {
        id: "gro",
        reads: "ethtool -k",
        cause: "packets of one poll are handed on together; TCP's are merged",
        source: NAPI,
        remedy: Remedy::Nothing,
        risk: "",
        weight: 15,
        toggle: None,
        look: gro,
    },
    Check {
        id: "xps",
        reads: "/sys/class/net/*/queues/tx-*/xps_cpus",
        cause: "matters to a sender: which queue a core's packets take",
        source: SCALING,
        remedy: Remedy::Nothing,
        risk: "",
        weight: 8,
        toggle: None,
        look: xps,
    },
    Check {
        id: "numa-of-interface",
        reads: "/sys/class/net/*/device/numa_node",
        cause: "packets cross from one memory to another",
        source: "paper, section II-A",
        remedy: Remedy::Hardware,
        risk: "choose a core of the adapter's node with --core",
        weight: 58,
        toggle: None,
        look: numa,
    },
];

/// The result when there is no interface.
macro_rules! interface {
    ($host:expr) => {
        match $host.interface() {
            Ok(name) => name,
            Err(why) => return Ok(Observed::absent(why)),
        }
    };
}

fn coalescing(host: &Host) -> Result<Observed, Unreadable> {
    let name = interface!(host);
    let setting = Setting::coalescing(name);
    let state = match setting.read() {
        Ok(state) => state.to_string(),
        Err(error) if error.is_gone() => return Ok(Observed::absent(format!("{name} has none"))),
        Err(error) => return Err(error.into()),
    };
    let number = |key| coalescing_number(&state, key).unwrap_or(0);
    let wanted = ["adaptive-rx", "rx-usecs", "tx-usecs"];
    let set: Vec<String> = wanted
        .iter()
        .filter(|key| number(key) > 0)
        .map(|key| format!("{key} {}", number(key)))
        .collect();
    if set.is_empty() {
        return Ok(Observed::good(format!("{name} interrupts at once")));
    }
    let line = format!("ethtool -C {name} adaptive-rx off rx-usecs 0 tx-usecs 0");
    let values: Vec<String> =
        wanted.iter().filter(|key| number(key) > 0).map(|key| format!("{key}=0")).collect();
    Ok(Observed::advice(set.join(", "), line).change(setting, values.join(" ")))
}

fn napi_defer(host: &Host) -> Result<Observed, Unreadable> {
    let folder = format!("/sys/class/net/{}", interface!(host));
    let (timeout, defer) =
        (format!("{folder}/gro_flush_timeout"), format!("{folder}/napi_defer_hard_irqs"));
    let (ns, irqs) = (host.number(&timeout)?, host.number(&defer)?);
    if ns == 0 && irqs == 0 {
        return Ok(Observed::good("off"));
    }
    let found = format!("gro_flush_timeout {ns} ns, napi_defer_hard_irqs {irqs}");
    Ok(Observed::advice(found, "write 0 to both")
        .change(host.setting(&defer, Form::Plain), "0")
        .change(host.setting(&timeout, Form::Plain), "0"))
}

fn rps(host: &Host) -> Result<Observed, Unreadable> {
    let files = queue_files(host, interface!(host), ("rx-", "rps_cpus"))?;
    let set: Vec<&(String, String)> = files.iter().filter(|(_, text)| has_cpus(text)).collect();
    if set.is_empty() {
        return Ok(Observed::good(format!("off for {} queues", files.len())));
    }
    let seen =
        Observed::advice(format!("on for {} of {} queues", set.len(), files.len()), "write 0");
    Ok(set
        .into_iter()
        .fold(seen, |seen, (path, _)| seen.change(host.setting(path, Form::Mask), "0")))
}

fn threaded(host: &Host) -> Result<Observed, Unreadable> {
    let path = format!("/sys/class/net/{}/threaded", interface!(host));
    if !host.has(&path) {
        return Ok(Observed::absent("this kernel has none"));
    }
    Ok(match host.text(&path)?.as_str() {
        "0" => Observed::good("off: packets are polled in softirqs"),
        mode => Observed::advice(
            format!("on ({mode}): packets are polled by threads"),
            "write 0, or give the threads a core of their own",
        )
        .change(host.setting(&path, Form::Plain), "0"),
    })
}

fn busy_poll(host: &Host) -> Result<Observed, Unreadable> {
    let us =
        ["busy_read", "busy_poll"].map(|name| host.number(&format!("/proc/sys/net/core/{name}")));
    let [read, poll] = us;
    let (read, poll) = (read?, poll?);
    let found = format!("busy_read {read} µs, busy_poll {poll} µs");
    Ok(if read > 0 {
        Observed::good(found)
    } else {
        Observed::note(found).saying("a sink that must block can ask for it with SO_BUSY_POLL")
    })
}

fn socket_buffer(host: &Host) -> Result<Observed, Unreadable> {
    let path = "/proc/sys/net/core/rmem_max";
    let (most, default) = (host.number(path)?, host.number("/proc/sys/net/core/rmem_default")?);
    let need = PACKETS_PER_S * BYTES_PER_PACKET * AWAY_MS / 1_000;
    let found = format!("at most {most}, {default} unless asked for");
    if most >= need {
        return Ok(Observed::good(found));
    }
    let advice = format!(
        "{AWAY_MS} ms of a stream of {PACKETS_PER_S} packets/s are {need} bytes: allow them, and have the \
         sink ask with SO_RCVBUF"
    );
    Ok(Observed::advice(found, advice).change(host.setting(path, Form::Plain), need.to_string()))
}

fn gro(host: &Host) -> Result<Observed, Unreadable> {
    let name = interface!(host);
    match Setting::feature(name, "rx-gro").read() {
        Ok(state) => Ok(Observed::note(state.to_string())),
        Err(error) if error.is_gone() => Ok(Observed::absent(format!("{name} has none"))),
        Err(error) => Err(error.into()),
    }
}

fn xps(host: &Host) -> Result<Observed, Unreadable> {
    let files = queue_files(host, interface!(host), ("tx-", "xps_cpus"))?;
    let set = files.iter().filter(|(_, text)| has_cpus(text)).count();
    Ok(Observed::note(format!("on for {set} of {} queues", files.len())))
}

fn numa(host: &Host) -> Result<Observed, Unreadable> {
    let name = interface!(host);
    let path = format!("/sys/class/net/{name}/device/numa_node");
    if !host.has(&path) {
        return Ok(Observed::absent(format!("{name} has no place on a bus")));
    }
    let (node, core) = (host.number(&path)?, host.core());
    let own = host
        .entries(&format!("/sys/devices/system/cpu/cpu{core}"))
        .iter()
        .find_map(|entry| entry.strip_prefix("node")?.parse::<i64>().ok());
    Ok(match own {
        _ if node < 0 => Observed::good("one node"),
        Some(own) if own == node => Observed::good(format!("core and adapter are of node {node}")),
        Some(own) => Observed::advice(
            format!("core {core} is of node {own}, {name} of node {node}"),
            format!(
                "run the sink on a core of node {node}: /sys/devices/system/node/node{node}/cpulist"
            ),
        ),
        None => return Err(Unreadable(format!("/sys does not say the node of core {core}"))),
    })
}

/// A file of each queue, with its text. A file that cannot be read means that the queue lacks it.
fn queue_files(
    host: &Host,
    interface: &str,
    (kind, file): (&str, &str),
) -> Result<Vec<(String, String)>, Unreadable> {
    let folder = format!("/sys/class/net/{interface}/queues");
    let queues = host.entries(&folder);
    if queues.is_empty() {
        return Err(Unreadable(format!(
            "{folder} is not there: no such interface in this namespace"
        )));
    }
    let paths = queues
        .iter()
        .filter(|name| name.starts_with(kind))
        .map(|name| format!("{folder}/{name}/{file}"));
    Ok(paths.filter_map(|path| host.text(&path).ok().map(|text| (path, text))).collect())
}

fn has_cpus(mask: &str) -> bool {
    mask.chars().any(|c| !matches!(c, '0' | ','))
}
