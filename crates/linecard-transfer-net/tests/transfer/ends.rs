//! Both ends, ready to run.

use linecard::rng::Rng;
use linecard_transfer::control::Mode;
use linecard_transfer::fec::Repair;
use linecard_transfer_net::control::Access;
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::file::{Choice, ChunkBytes, Input};
use linecard_transfer_net::keys::SharedKey;
use linecard_transfer_net::receive::{ReceiveError, ReceiveOptions, Received, receive};
use linecard_transfer_net::send::{SendError, SendOptions, Sent, send};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Options of both ends, with a key that both have.
pub(crate) fn options(from: &Path, to: &Path) -> (SendOptions, ReceiveOptions, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let access = Access::Shared(SharedKey::new(&[7; 32]));
    let send = SendOptions {
        dry_run: false,
        delete: false,
        max_delete: None,
        input: Input::Paths(vec![from.into()]),
        choice: Choice::default(),
        peer: listener.local_addr().expect("it listens"),
        name: "test".into(),
        access: access.clone(),
        lanes: Vec::new(),
        rate_bits_per_second: None,
        mode: Mode::Auto,
        fec: Repair::default(),
        chunk_bytes: ChunkBytes::new(1 << 20).expect("a power of two"),
        payload_bytes: None,
        cores: Cores::default(),
        patience: Duration::from_secs(20),
        stop: Arc::default(),
    };
    let receive = ReceiveOptions {
        folder: Some(to.into()),
        bucket: None,
        overwrite: false,
        allow_delete: false,
        allow_links_out: false,
        access,
        lanes: Vec::new(),
        at_once: None,
        memory_bytes: 64 << 20,
        cores: Cores::default(),
        patience: Duration::from_secs(20),
        stop: Arc::default(),
    };
    (send, receive, listener)
}

/// Runs both.
pub(crate) fn run(
    send_options: &SendOptions,
    receive_options: &ReceiveOptions,
    listener: &TcpListener,
) -> (Result<Sent, SendError>, Result<Received, ReceiveError>) {
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(receive_options, listener, &mut |_| {}));
        let sent = send(send_options, &mut |_| {});
        let got = received(receiving, receive_options, &sent);
        (sent, got)
    })
}

/// The end of the receiver. One whose sender failed before its transfer began waits for another: it is stopped, at once
/// where no lane can be used, and otherwise after longer than it may take to end by itself.
pub(crate) fn received(
    receiving: ScopedJoinHandle<'_, Result<Received, ReceiveError>>,
    options: &ReceiveOptions,
    sent: &Result<Sent, SendError>,
) -> Result<Received, ReceiveError> {
    let end = Instant::now() + 2 * options.patience;
    while sent.is_err() && !receiving.is_finished() {
        if matches!(sent, Err(SendError::NoLane(_))) || Instant::now() > end {
            options.stop.stop();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    receiving.join().expect("the receiver does not panic")
}

/// Both ends at a port of its own, with their errors as text.
pub(crate) fn run_as_text(
    send: &SendOptions,
    receive: &ReceiveOptions,
) -> (Result<Sent, String>, Result<Received, String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let send = SendOptions { peer: listener.local_addr().expect("it listens"), ..send.clone() };
    let (sent, got) = run(&send, receive, &listener);
    (sent.map_err(|error| error.to_string()), got.map_err(|error| error.to_string()))
}

/// Bytes that no compression makes shorter.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    Rng::new(bytes as u64 + 1).fill(&mut content);
    content
}
