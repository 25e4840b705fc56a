//! Protection of a transfer, tested from outside: each test is named in
//! `docs/design/transfer-security.md`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod access;
mod channel;
mod exchange;
mod hard_links;
mod hostile;
mod lanes;
mod named;
mod pairing;
mod relay;
mod visitors;

use linecard_transfer::control::Mode;
use linecard_transfer::fec::Repair;
use linecard_transfer_net::control::{Access, Control, ControlError, Policy, Trust};
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::file::{Choice, ChunkBytes, Input};
use linecard_transfer_net::keys::{Authorized, Identity, KnownPeers, SharedKey};
use linecard_transfer_net::send::SendOptions;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Name of the accepting end at the connecting one.
const NAME: &str = "host:4100";

type Meeting = Result<Control, ControlError>;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Lets two ends meet: what the connecting and the accepting end have of it.
fn meet(connecting: &Access, accepting: &Access) -> (Meeting, Meeting) {
    let (listener, address) = listener();
    thread::scope(|scope| {
        let accepted =
            scope.spawn(|| Control::accept(listener.accept().unwrap().0, accepting, soon()));
        let connected = Control::connect(address, NAME, connecting, soon());
        (connected, accepted.join().unwrap())
    })
}

/// Two ends that have met.
fn met(connecting: &Access, accepting: &Access) -> (Control, Control) {
    let (connected, accepted) = meet(connecting, accepting);
    (connected.unwrap(), accepted.unwrap())
}

fn shared(byte: u8) -> Access {
    Access::Shared(SharedKey::new(&[byte; 32]))
}

/// An end that is known by `identity` and trusts those that are `authorized`.
fn authorizing(identity: &Identity, authorized: &[&Identity]) -> Access {
    let list = authorized.iter().map(|identity| identity.fingerprint().into()).collect();
    let trust = Trust::Authorized(Authorized::Only(list));
    Access::Keys { identity: identity.clone(), trust, pairing: None }
}

/// An end that knows others by the file at `path`.
fn knowing(identity: &Identity, path: &Path, policy: Policy) -> Access {
    let trust = Trust::Known(KnownPeers::load(path).unwrap(), policy);
    Access::Keys { identity: identity.clone(), trust, pairing: None }
}

/// A transfer of this many bytes of test data over one lane.
fn sending(bytes: u64, peer: SocketAddr, access: &Access) -> SendOptions {
    SendOptions {
        dry_run: false,
        delete: false,
        max_delete: None,
        input: Input::Test(bytes),
        choice: Choice::default(),
        peer,
        name: "test".into(),
        access: access.clone(),
        lanes: Vec::new(),
        rate_bits_per_second: None,
        mode: Mode::Auto,
        fec: Repair::default(),
        chunk_bytes: ChunkBytes::new(64 << 10).unwrap(),
        payload_bytes: None,
        cores: Cores::default(),
        patience: Duration::from_secs(10),
        stop: Arc::default(),
    }
}

/// Calls `attempt` until it gives something.
fn until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let end = soon();
    while Instant::now() < end {
        if let Some(result) = attempt() {
            return result;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing came within ten seconds");
}
