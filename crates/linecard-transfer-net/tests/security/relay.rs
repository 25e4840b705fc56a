//! An attacker in between that forwards or changes data, or takes part in both handshakes.

use super::{authorizing, listener, shared, soon, until};
use linecard_transfer::control::Message;
use linecard_transfer_net::control::{Access, Control, ControlError, Trust, provider};
use linecard_transfer_net::keys::{Authorized, Fingerprint, Identity};
use ring::signature::Ed25519KeyPair;
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring::sign::any_eddsa_type};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    Error, ServerConfig, ServerConnection, SignatureScheme, StreamOwned,
};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const ALPN_SHARED: &[u8] = b"linecard/1 shared";
const ALPN_PAIRING: &[u8] = b"linecard/1 pairing";

/// The part of both verifiers that is about signatures.
macro_rules! believes_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

/// Believes everything.
#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    believes_signatures!();
}

impl ClientCertVerifier for Gullible {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    believes_signatures!();
}

pub(super) type Client = StreamOwned<ClientConnection, TcpStream>;

/// TLS with the peer that accepts at `address`.
fn as_client(address: SocketAddr) -> Client {
    as_client_with(address, provider())
}

/// The same with other key exchanges.
pub(super) fn as_client_with(address: SocketAddr, provider: CryptoProvider) -> Client {
    connected(address, ALPN_SHARED, provider)
}

/// The same for a pairing: it shows a key of its own.
pub(super) fn as_pairing_client(address: SocketAddr) -> Client {
    connected(address, ALPN_PAIRING, provider())
}

fn connected(address: SocketAddr, alpn: &[u8], provider: CryptoProvider) -> Client {
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible));
    let mut config = match alpn == ALPN_SHARED {
        true => config.with_no_client_auth(),
        false => {
            let (key, shown) = new_key();
            let key = Arc::new(CertifiedKey::new(vec![shown], key));
            config.with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)))
        }
    };
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::IpAddress(address.ip().into());
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

/// A new key and its public part as it is shown.
fn new_key() -> (Arc<dyn SigningKey>, CertificateDer<'static>) {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
    let key = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_ref())).unwrap();
    let public = CertificateDer::from(key.public_key().unwrap().to_vec());
    (key, public)
}

pub(super) type Server = StreamOwned<ServerConnection, TcpStream>;

/// TLS with the peer that has connected, which gets the certificate `shown` and signatures of
/// `key`.
fn showing(
    stream: TcpStream,
    alpn: &[u8],
    (key, shown): (Arc<dyn SigningKey>, CertificateDer<'static>),
    provider: CryptoProvider,
) -> Server {
    let key = Arc::new(CertifiedKey::new(vec![shown], key));
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match alpn == ALPN_SHARED {
        true => config.with_no_client_auth(),
        false => config.with_client_cert_verifier(Arc::new(Gullible)),
    };
    let mut config =
        config.with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    config.alpn_protocols = vec![alpn.to_vec()];
    StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

fn as_server(stream: TcpStream) -> Server {
    as_server_with(stream, provider())
}

/// The same with other key exchanges.
pub(super) fn as_server_with(stream: TcpStream, provider: CryptoProvider) -> Server {
    showing(stream, ALPN_SHARED, new_key(), provider)
}

pub(super) fn as_pairing_server(stream: TcpStream) -> Server {
    showing(stream, ALPN_PAIRING, new_key(), provider())
}

#[test]
fn a_key_that_is_shown_without_its_secret_part_is_refused() {
    let (receiving, address) = listener();
    let ((_, known), (own, _)) = (new_key(), new_key());
    let trust = Trust::Authorized(Authorized::Only(vec![Fingerprint::of(&known).into()]));
    let access = Access::Keys { identity: Identity::generate().unwrap(), trust, pairing: None };
    let at_sender = thread::scope(|scope| {
        scope.spawn(|| {
            let stream = receiving.accept().unwrap().0;
            let mut server = showing(stream, b"linecard/1 keys", (own, known), provider());
            server.read(&mut [0]).unwrap_err();
        });
        Control::connect(address, "impostor", &access, soon())
    });
    let bad = CertificateError::BadSignature;
    match at_sender {
        Err(ControlError::Tls(Error::InvalidCertificate(found))) => assert_eq!(found, bad),
        other => panic!("{other:?}"),
    }
}

#[test]
fn proofs_of_a_shared_key_cannot_be_passed_on() {
    let (receiving, receiver) = listener();
    let (between, relay) = listener();
    let (at_sender, at_receiver, openings) = thread::scope(|scope| {
        let accepted =
            scope.spawn(|| Control::accept(receiving.accept().unwrap().0, &shared(1), soon()));
        let relayed = scope.spawn(|| {
            let mut left = as_server(between.accept().unwrap().0);
            let mut right = as_client(receiver);
            let mut openings = [[0; 40]; 2];
            left.read_exact(&mut openings[0]).unwrap();
            right.write_all(&openings[0]).unwrap();
            right.read_exact(&mut openings[1]).unwrap();
            left.write_all(&openings[1]).unwrap();
            left.flush().unwrap();
            openings
        });
        let connected = Control::connect(relay, "receiver", &shared(1), soon());
        (connected, accepted.join().unwrap(), relayed.join().unwrap())
    });
    assert!(openings.iter().all(|opening| opening.starts_with(b"LINECARD")));
    assert_ne!(openings[0], openings[1], "nor sent back");
    assert!(matches!(at_sender, Err(ControlError::WrongSharedKey)), "{at_sender:?}");
    assert!(matches!(at_receiver, Err(ControlError::WrongSharedKey)), "{at_receiver:?}");
}

#[test]
fn an_own_proof_sent_back_proves_nothing() {
    let (between, mirror) = listener();
    let at_sender = thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = as_server(between.accept().unwrap().0);
            let mut opening = [0; 40];
            left.read_exact(&mut opening).unwrap();
            left.write_all(&opening).unwrap();
            left.flush().unwrap();
            // Until the other end is gone.
            let _end = left.read(&mut opening);
        });
        Control::connect(mirror, "mirror", &shared(1), soon())
    });
    assert!(matches!(at_sender, Err(ControlError::WrongSharedKey)), "{at_sender:?}");
}

/// Passes bytes on, through `change`, which is given their place in the stream.
pub(super) fn pass(mut from: TcpStream, mut to: TcpStream, change: impl Fn(u64, &mut [u8])) {
    let mut bytes = [0; 4_096];
    let mut place = 0;
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        change(place, &mut bytes[..count]);
        place += count as u64;
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _gone = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_byte_that_changes_on_the_way_ends_the_channel() {
    let [sender, receiver] = [(); 2].map(|()| Identity::generate().unwrap());
    let connecting = authorizing(&sender, &[&receiver]);
    let accepting = authorizing(&receiver, &[&sender]);
    // Places in the client's stream, before and behind the end of its handshake.
    for place in [60, 400, 700, 2_000, 3_000, u64::MAX] {
        let (receiving, address) = listener();
        let (between, relay) = listener();
        let outcome = thread::scope(|scope| {
            scope.spawn(|| {
                let left = between.accept().unwrap().0;
                let right = TcpStream::connect(address).unwrap();
                let back = (right.try_clone().unwrap(), left.try_clone().unwrap());
                thread::spawn(move || pass(back.0, back.1, |_, _| {}));
                pass(left, right, |at, bytes| {
                    if let Some(byte) =
                        place.checked_sub(at).and_then(|at| bytes.get_mut(at as usize))
                    {
                        *byte ^= 4;
                    }
                });
            });
            let accepted = scope.spawn(|| -> Result<Message, ControlError> {
                let mut control =
                    Control::accept(receiving.accept().unwrap().0, &accepting, soon())?;
                until(|| {
                    loop {
                        match control.receive() {
                            Ok(Some(Message::Finish)) => return Some(Ok(Message::Finish)),
                            Ok(Some(_)) => {}
                            Ok(None) => return None,
                            Err(error) => return Some(Err(error)),
                        }
                    }
                })
            });
            if let Ok(mut control) = Control::connect(relay, "receiver", &connecting, soon()) {
                for object in 0..200 {
                    control.send(&Message::Stored { object }).unwrap();
                }
                control.send(&Message::Finish).unwrap();
                control.flush().unwrap();
                // Until the other end has seen it.
                thread::sleep(Duration::from_millis(50));
            }
            accepted.join().unwrap()
        });
        match outcome {
            Ok(_) => assert_eq!(place, u64::MAX, "nothing was changed there"),
            Err(ControlError::Tls(_)) => assert_ne!(place, u64::MAX),
            Err(other) => panic!("byte {place}: {other}"),
        }
    }
}
