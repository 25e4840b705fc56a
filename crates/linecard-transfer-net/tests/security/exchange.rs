//! The key exchange of control connections: X25519MLKEM768, and no other.

use super::relay::{as_client_with, as_server_with, pass};
use super::{Meeting, NAME, listener, shared, soon};
use linecard_transfer_net::control::{Control, ControlError, provider};
use rustls::NamedGroup;
use rustls::crypto::ring::{default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::thread;

/// Number of X25519MLKEM768 among the groups of TLS (draft-ietf-tls-ecdhe-mlkem).
const HYBRID: [u8; 2] = [0x11, 0xEC];
/// Types of extensions (RFC 8446, section 4.2).
const SUPPORTED_GROUPS: u16 = 10;
const KEY_SHARE: u16 = 51;

/// An end that has the hybrid too, and prefers X25519.
fn preferring_x25519() -> CryptoProvider {
    let hybrid = provider().kx_groups;
    CryptoProvider { kx_groups: [vec![kx_group::X25519], hybrid].concat(), ..default_provider() }
}

/// Another program that connects: the outcome at the accepting end, and its key exchange.
fn accepting(provider: CryptoProvider) -> (Meeting, Option<NamedGroup>) {
    let (listener, address) = listener();
    thread::scope(|scope| {
        let accepted =
            scope.spawn(|| Control::accept(listener.accept().unwrap().0, &shared(1), soon()));
        let mut client = as_client_with(address, provider);
        while client.conn.is_handshaking() && client.conn.complete_io(&mut client.sock).is_ok() {}
        let group = client.conn.negotiated_key_exchange_group().map(SupportedKxGroup::name);
        let _gone = client.sock.shutdown(Shutdown::Write);
        (accepted.join().unwrap(), group)
    })
}

/// Another program that accepts: the outcome at the connecting end, and its key exchange.
fn connecting(provider: CryptoProvider) -> (Meeting, Option<NamedGroup>) {
    let (listener, address) = listener();
    thread::scope(|scope| {
        let connected = scope.spawn(|| Control::connect(address, NAME, &shared(1), soon()));
        let mut server = as_server_with(listener.accept().unwrap().0, provider);
        while server.conn.is_handshaking() && server.conn.complete_io(&mut server.sock).is_ok() {}
        let group = server.conn.negotiated_key_exchange_group().map(SupportedKxGroup::name);
        let _gone = server.sock.shutdown(Shutdown::Write);
        (connected.join().unwrap(), group)
    })
}

/// Both ends complete the handshake with the hybrid, whatever the other end prefers; it is then refused, as it cannot
/// prove the shared key.
#[test]
fn the_key_exchange_is_hybrid() {
    for outcome in [
        accepting(provider()),
        accepting(preferring_x25519()),
        connecting(provider()),
        connecting(preferring_x25519()),
    ] {
        assert_eq!(outcome.1, Some(NamedGroup::X25519MLKEM768));
        assert!(matches!(outcome.0, Err(ControlError::ClosedEarly)), "{:?}", outcome.0);
    }
}

#[test]
fn a_peer_with_elliptic_curves_only_is_refused_with_the_reason() {
    for (outcome, group) in [accepting(default_provider()), connecting(default_provider())] {
        let error = outcome.unwrap_err();
        assert!(matches!(error, ControlError::OtherKeyExchange), "{error}");
        let text = error.to_string();
        assert!(text.contains("X25519MLKEM768") && text.contains("update linecard"), "{text}");
        assert_eq!(group, None);
    }
}

/// Body of the extension `kind` in the extensions of a hello.
fn extension(mut extensions: &[u8], kind: u16) -> Option<&[u8]> {
    while let [high, low, length @ ..] = extensions {
        let (length, rest) = length.split_first_chunk().unwrap();
        let (body, rest) = rest.split_at(u16::from_be_bytes(*length).into());
        if u16::from_be_bytes([*high, *low]) == kind {
            return Some(body);
        }
        extensions = rest;
    }
    None
}

/// Behind a field whose length is in its first `width` octets.
fn behind(bytes: &[u8], width: usize) -> &[u8] {
    let length = bytes[..width].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    &bytes[width + length..]
}

/// The first octets that each end sends, the connecting one first.
fn hellos() -> [Vec<u8>; 2] {
    let sent = [(); 2].map(|()| Mutex::new(Vec::new()));
    for end in relayed(|end, _, bytes| sent[end].lock().unwrap().extend_from_slice(bytes)) {
        end.unwrap();
    }
    sent.map(|sent| sent.into_inner().unwrap())
}

/// Two ends that meet through a relay, which changes what end 0 (the connecting one) or end 1 sends.
fn relayed(change: impl Fn(usize, u64, &mut [u8]) + Sync) -> [Result<(), ControlError>; 2] {
    let (receiving, address) = listener();
    let (between, relay) = listener();
    let change = &change;
    thread::scope(|scope| {
        scope.spawn(move || {
            let left = between.accept().unwrap().0;
            let right = TcpStream::connect(address).unwrap();
            let back = (right.try_clone().unwrap(), left.try_clone().unwrap());
            scope.spawn(move || pass(back.0, back.1, |at, bytes| change(1, at, bytes)));
            pass(left, right, |at, bytes| change(0, at, bytes));
        });
        let accepted =
            scope.spawn(|| Control::accept(receiving.accept().unwrap().0, &shared(1), soon()));
        let connected = Control::connect(relay, NAME, &shared(1), soon());
        // Closed here: the relay ends when both ends have.
        [connected, accepted.join().unwrap()].map(|end| end.map(drop))
    })
}

/// On the wire: the client offers the hybrid and nothing else, and both shares have the lengths of the draft.
#[test]
fn nothing_but_the_hybrid_is_offered() {
    let [client, server] = hellos();
    // Heads of record and message, version, random number; then the session, and suites and compression of a client.
    let client = behind(behind(behind(&client[5 + 4 + 34..], 1), 2), 1);
    let client = &client[2..][..usize::from(u16::from_be_bytes([client[0], client[1]]))];
    assert_eq!(extension(client, SUPPORTED_GROUPS).unwrap(), [[0, 2], HYBRID].concat());
    let shares = extension(client, KEY_SHARE).unwrap();
    assert_eq!(shares[..6], [1_220_u16.to_be_bytes(), HYBRID, 1_216_u16.to_be_bytes()].concat());
    assert_eq!(shares.len(), 6 + 1_184 + 32);
    let server = &behind(&server[5 + 4 + 34..], 1)[3..];
    let server = &server[2..][..usize::from(u16::from_be_bytes([server[0], server[1]]))];
    let share = extension(server, KEY_SHARE).unwrap();
    assert_eq!(share[..4], [HYBRID, 1_120_u16.to_be_bytes()].concat());
    assert_eq!(share.len(), 4 + 1_088 + 32);
}

/// Places in the encapsulation key of the client, and in the ciphertext of the server.
#[test]
fn a_share_that_changes_on_the_way_ends_the_handshake() {
    for end in [0, 1] {
        for place in [300_u64, 600, 1_000] {
            let [connected, accepted] = relayed(|from, at, bytes| {
                let byte = place.checked_sub(at).and_then(|at| bytes.get_mut(at as usize));
                if let (true, Some(byte)) = (from == end, byte) {
                    *byte ^= 1;
                }
            });
            assert!(matches!(connected, Err(ControlError::Tls(_))), "{end} {place}: {connected:?}");
            assert!(accepted.is_err(), "{end} {place}: {accepted:?}");
        }
    }
}
