//! TLS 1.3 with raw public keys (RFC 7250) in place of certificates.

use super::access::{Access, Trust, Verdict};
use super::error::ControlError;
use super::hybrid::X25519MlKem768;
use crate::keys::{Fingerprint, Identity};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ClientHello, NoServerSessionStorage};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, OtherError, ServerConfig, SignatureScheme,
};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Which kind of access, as a protocol of ALPN (RFC 7301): an end that expects another one gets an error.
const ALPN_KEYS: &[u8] = b"linecard/1 keys";
const ALPN_PAIRING: &[u8] = b"linecard/1 pairing";
const ALPN_SHARED: &[u8] = b"linecard/1 shared";

/// Cryptography of control connections: ring's, and X25519MLKEM768 as the only key exchange, so that an attacker in
/// between has no weaker one to choose.
#[must_use]
pub fn provider() -> CryptoProvider {
    CryptoProvider { kx_groups: vec![&X25519MlKem768], ..ring::default_provider() }
}

/// The connecting end of a handshake.
pub(super) fn client(
    access: &Access,
    address: IpAddr,
    verifier: Arc<Verifier>,
) -> Result<Connection, Error> {
    let config = ClientConfig::builder_with_provider(Arc::clone(&verifier.provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match access {
        Access::Keys { identity, .. } => config.with_client_cert_resolver(Arc::new(
            AlwaysResolvesClientRawPublicKeys::new(identity.certified()),
        )),
        Access::Shared(_) | Access::Open => config.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    config.alpn_protocols = vec![alpn(access, access.pairing().is_some()).to_vec()];
    // No name is shown or checked: the key is.
    let server = ServerName::IpAddress(address.into());
    ClientConnection::new(Arc::new(config), server).map(Connection::Client)
}

/// Whether the connecting end has a code.
pub(super) fn wants_pairing(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut offered| offered.any(|protocol| protocol == ALPN_PAIRING))
}

/// The accepting end, which looks at keys, or `pairs` with an end that has a code.
pub(super) fn server(
    access: &Access,
    pairs: bool,
    verifier: Arc<Verifier>,
) -> Result<Arc<ServerConfig>, ControlError> {
    let config = ServerConfig::builder_with_provider(Arc::clone(&verifier.provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(ControlError::Tls)?;
    let (config, key) = match access {
        Access::Keys { identity, .. } => {
            (config.with_client_cert_verifier(verifier), identity.certified())
        }
        // Some key is needed for a handshake; what counts is the proof that follows.
        Access::Shared(_) | Access::Open => {
            (config.with_no_client_auth(), Identity::generate()?.certified())
        }
    };
    let key = AlwaysResolvesServerRawPublicKeys::new(key);
    let mut config = config.with_cert_resolver(Arc::new(key));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![alpn(access, pairs).to_vec()];
    Ok(Arc::new(config))
}

/// The key that the other end has shown in a handshake that is complete, so that it has it.
pub(super) fn peer(connection: &Connection) -> Option<Fingerprint> {
    let shown = connection.peer_certificates()?.first()?;
    Some(Fingerprint::of(shown))
}

const fn alpn(access: &Access, pairs: bool) -> &'static [u8] {
    match access {
        Access::Keys { .. } if pairs => ALPN_PAIRING,
        Access::Keys { .. } => ALPN_KEYS,
        Access::Shared(_) | Access::Open => ALPN_SHARED,
    }
}

/// Looks at the key of the other end. Whether that end has the key, rustls finds by its signature.
#[derive(Debug)]
pub(super) struct Verifier {
    provider: Arc<CryptoProvider>,
    /// None: any key will do, as something else follows that proves more.
    trust: Option<Trust>,
    /// Name of the other end.
    name: String,
    /// The key that it has shown.
    shown: OnceLock<Fingerprint>,
    /// Why that key was refused: what was found then, as lists of keys can change meanwhile.
    objection: Mutex<Option<ControlError>>,
}

impl Verifier {
    pub(super) fn new(access: &Access, pairs: bool, name: &str) -> Self {
        let trust = match access {
            Access::Keys { trust, .. } if !pairs => Some(trust.clone()),
            Access::Keys { .. } | Access::Shared(_) | Access::Open => None,
        };
        Self {
            provider: Arc::new(provider()),
            trust,
            name: name.to_owned(),
            shown: OnceLock::new(),
            objection: Mutex::new(None),
        }
    }

    /// Why the key that was shown was refused, told once; none if it was not, or none was shown.
    pub(super) fn objection(&self) -> Option<ControlError> {
        self.objection.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Writes down a key that is new, now that its owner has proved to have it.
    pub(super) fn remember(&self) -> Result<(), ControlError> {
        let (Some(trust), Some(found)) = (&self.trust, self.shown.get()) else { return Ok(()) };
        if !matches!(trust.verdict(&self.name, *found), Verdict::RightAndNew) {
            return Ok(());
        }
        let verdict = trust.remember(&self.name, *found)?;
        verdict.objection(&self.name, *found).map_or(Ok(()), Err)
    }

    /// For a key that is not right the handshake ends with the alert `access_denied`, and with
    /// `certificate_unknown` where that cannot be found out: so the other end gets the reason.
    fn look_at(&self, key: &CertificateDer<'_>) -> Result<(), Error> {
        let found = *self.shown.get_or_init(|| Fingerprint::of(key));
        let Some(trust) = &self.trust else { return Ok(()) };
        let Some(error) = trust.verdict(&self.name, found).objection(&self.name, found) else {
            return Ok(());
        };
        let refused = match error {
            ControlError::NoList(_) => CertificateError::Other(OtherError(Arc::new(fmt::Error))),
            _ => CertificateError::ApplicationVerificationFailure,
        };
        *self.objection.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        Err(refused.into())
    }
}

/// Signatures, the same for keys of either end: TLS 1.3 with raw keys, and nothing else.
macro_rules! signatures_of_raw_keys {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.2 is not spoken here".to_owned()))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            key: &CertificateDer<'_>,
            signature: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let key = SubjectPublicKeyInfoDer::from(key.as_ref());
            let algorithms = &self.provider.signature_verification_algorithms;
            verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.look_at(end_entity).map(|()| ServerCertVerified::assertion())
    }

    signatures_of_raw_keys!();
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.look_at(end_entity).map(|()| ClientCertVerified::assertion())
    }

    signatures_of_raw_keys!();
}
