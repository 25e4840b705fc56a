//! Lanes between sockets of this host.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod namespace;
mod tcp;
mod udp;

use linecard::rng::Rng;
use linecard_transfer_net::lane::{At, Datagrams, Lane, LaneError, LocalEnd, ReceiveBuffer};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant as Clock};

/// No test waits longer for the kernel.
const PATIENCE: Duration = Duration::from_secs(10);

/// Any free port of the loopback interface.
fn loopback() -> At {
    At { local: LocalEnd::Address(Ipv4Addr::LOCALHOST.into()), port: 0 }
}

/// `bytes` random bytes.
fn random(bytes: usize) -> Vec<u8> {
    let mut random = vec![0; bytes];
    Rng::new(bytes as u64).fill(&mut random);
    random
}

/// Current buffers of a lane.
fn take(lane: &mut dyn Lane, received: &mut ReceiveBuffer) -> Vec<Vec<u8>> {
    let count = lane.receive(received).unwrap();
    let all: Vec<_> = received.datagrams().map(|datagram| datagram.bytes.to_vec()).collect();
    assert_eq!(all.len(), count);
    all
}

/// Receives until there are `count` datagrams, or nothing more comes.
fn take_all(lane: &mut dyn Lane, count: usize) -> Vec<Vec<u8>> {
    let (mut received, mut all) = (ReceiveBuffer::new(), Vec::new());
    let start = Clock::now();
    while all.len() < count && start.elapsed() < PATIENCE {
        all.extend(take(lane, &mut received));
    }
    all
}

/// Sends all of `datagrams` while `far` receives.
fn through(near: &mut dyn Lane, far: &mut dyn Lane, datagrams: &Datagrams<'_>) -> Vec<Vec<u8>> {
    let (mut received, mut all) = (ReceiveBuffer::new(), Vec::new());
    let (start, mut sent) = (Clock::now(), 0);
    while sent < datagrams.count() || !near.is_flushed() {
        assert!(start.elapsed() < PATIENCE, "{sent} of {} are sent", datagrams.count());
        sent += near.send(&datagrams.after(sent)).unwrap();
        near.flush().unwrap();
        all.extend(take(far, &mut received));
    }
    all
}

/// Asks `step` until it says failure.
fn failure(mut step: impl FnMut() -> Result<usize, LaneError>) -> LaneError {
    let start = Clock::now();
    while start.elapsed() < PATIENCE {
        if let Err(failure) = step() {
            return failure;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("no failure within {PATIENCE:?}");
}
