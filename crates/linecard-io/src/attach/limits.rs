//! Refuses workers for which a port has no queues, or no memory, before any of them opens its ports.

use super::AttachError;
use super::settings::{PortKind, PortSpec};
use crate::port::vhost::MAX_PAIRS;
use linecard_tun::interface;
use std::fs;
use std::path::Path;

/// Queues of a TUN or TAP device: `MAX_TAP_QUEUES` of the kernel.
const DEVICE_QUEUES: usize = 256;
/// Bytes of a buffer in memory before a packet uses it (measured: two pages).
const BUFFER: u64 = 8_192;
/// Bytes of a packet socket's receive ring.
const PACKET_RING: u64 = 16 << 20;
/// Bytes of an AF_XDP frame, and frames of a queue beside the spare ones, at least.
const FRAME: u64 = 2_048;
const RING_FRAMES: u64 = 2 * (2_048 + 1_024);

/// Checks the ports of workers that each have their own.
pub(super) fn check(
    ports: [&PortSpec; 2],
    workers: usize,
    buffers: usize,
) -> Result<(), AttachError> {
    for port in ports {
        if let Some(most) = queues(port).filter(|most| *most < workers) {
            return Err(AttachError::Queues { port: Box::new(port.clone()), most, workers });
        }
    }
    let [near, far] = ports;
    let buffers_64 = buffers as u64;
    let one = memory(near, false, buffers_64) + memory(far, true, buffers_64);
    let (needed, available) = (one.saturating_mul(workers as u64), available());
    match available.filter(|available| *available < needed) {
        Some(available) => Err(AttachError::Memory { workers, buffers, needed, available }),
        None => Ok(()),
    }
}

/// The most workers that can each have a queue, if it is known; opening says what is wrong with an interface.
fn queues(port: &PortSpec) -> Option<usize> {
    match &port.kind {
        PortKind::Xdp(name) => interface::receive_queues(name).ok().flatten(),
        PortKind::Tap(_) | PortKind::Tun(_) => Some(DEVICE_QUEUES),
        PortKind::Vhost(_) => Some(port.queues.unwrap_or(MAX_PAIRS)),
        PortKind::Packet(_) | PortKind::File(_) => None,
    }
}

/// The least memory of a port in bytes.
fn memory(port: &PortSpec, is_far: bool, buffers: u64) -> u64 {
    match port.kind {
        // Large packets are received by calls, without a ring.
        PortKind::Packet(_) if port.offloads.unwrap_or(is_far) => buffers * BUFFER,
        PortKind::File(_) if is_far => 0,
        PortKind::Xdp(_) => (RING_FRAMES + buffers) * FRAME,
        PortKind::Packet(_) => PACKET_RING + buffers * BUFFER,
        PortKind::Tap(_) | PortKind::Tun(_) | PortKind::Vhost(_) | PortKind::File(_) => {
            buffers * BUFFER
        }
    }
}

/// Bytes of memory that this process can have without swapping, where the kernel says so.
fn available() -> Option<u64> {
    [of_host(), of_group()].into_iter().flatten().min()
}

/// Of all programs: `MemAvailable`.
fn of_host() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// Of a service or a container, by its control group (version 2).
fn of_group() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = Path::new("/sys/fs/cgroup").join(group);
    let bytes = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    Some(bytes("memory.max")?.saturating_sub(bytes("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> PortSpec {
        text.parse().expect("a port")
    }

    #[test]
    fn workers_without_a_queue_are_refused_with_the_number_to_take() {
        let said = |near: &str, far: &str, workers| {
            check([&spec(near), &spec(far)], workers, 128).expect_err("refused").to_string()
        };
        let text = said("packet:lo", "tap:a", 257);
        assert!(
            text.starts_with("tap:a has at most 256 queues, and each of 257 workers"),
            "{text}"
        );
        assert!(said("vhost:a,queues=1", "tap:a", 2).contains("most 1 queue, and each"));
        assert!(said("vhost:a", "tap:a", 65).contains("`--workers 64`"));
        assert!(check([&spec("packet:lo"), &spec("tap:a")], 4, 128).is_ok());
    }

    #[test]
    fn workers_without_memory_are_refused_before_they_take_it() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
        assert_eq!(memory(&spec("packet:a"), false, 1), PACKET_RING + BUFFER);
        assert_eq!(memory(&spec("packet:a"), true, 1), BUFFER);
        assert_eq!(
            (memory(&spec("file:a"), true, 1), memory(&spec("file:a"), false, 1)),
            (0, BUFFER)
        );
        let error = check([&spec("packet:a"), &spec("packet:b")], 60_000, 1 << 20);
        let text = error.expect_err("refused").to_string();
        assert!(text.contains("fewer `--workers`"), "{text}");
    }
}
