//! The key that identifies this end.

use super::{Fingerprint, KeyError, code, private};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::path::Path;
use std::sync::Arc;

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";
/// Letters of a line in a file of RFC 7468.
const LINE_LETTERS: usize = 64;

/// An Ed25519 key, both parts.
///
/// ```no_run
/// use linecard_transfer_net::keys::Identity;
/// let identity = Identity::load_or_create("/home/me/.config/linecard/identity".as_ref())?;
/// println!("my fingerprint: {}", identity.fingerprint());
/// # Ok::<(), linecard_transfer_net::keys::KeyError>(())
/// ```
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl Identity {
    /// A new one that is nowhere written down.
    ///
    /// # Errors
    ///
    /// The system has no random bytes.
    pub fn generate() -> Result<Self, KeyError> {
        Self::of_pkcs8(&new_pkcs8()?)
    }

    /// The one in the file at `path`; if there is no file, a new one is made and written there.
    ///
    /// # Errors
    ///
    /// A file that others can read, or that holds something else.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyError> {
        if !path.exists() {
            // Another process may do the same just now: then its key is taken.
            let created = private::create(path, pem(&new_pkcs8()?).as_bytes());
            if !path.exists() {
                created?;
            }
        }
        Self::load(path)
    }

    /// The one in the file at `path`: PKCS #8 in PEM (RFC 5958, RFC 7468).
    ///
    /// # Errors
    ///
    /// No file, one that others can read, or one that holds something else.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let text = private::read(path)?;
        let what = "not an Ed25519 key (PKCS #8 in PEM); remove the file to have a new one created";
        let letters: String = text
            .split_once(BEGIN)
            .and_then(|(_, rest)| rest.split_once(END))
            .map(|(letters, _)| letters.split_whitespace().collect())
            .ok_or_else(|| KeyError::content(path, what))?;
        let pkcs8 = code::decode(&letters, code::BASE64);
        let pkcs8 = pkcs8.ok_or_else(|| KeyError::content(path, what))?;
        Self::of_pkcs8(&pkcs8).map_err(|_| KeyError::content(path, what))
    }

    /// Identity of this end.
    #[must_use]
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// As the handshake takes it: a raw public key (RFC 7250) in place of a certificate.
    pub(crate) fn certified(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }

    fn of_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from(pkcs8);
        let key = any_eddsa_type(&der).map_err(|_| KeyError::Library)?;
        let public = key.public_key().ok_or(KeyError::Library)?.to_vec();
        let fingerprint = Fingerprint::of(&public);
        let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public)], key));
        Ok(Self { key, fingerprint })
    }
}

impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

fn new_pkcs8() -> Result<Vec<u8>, KeyError> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    document.map(|document| document.as_ref().to_vec()).map_err(|_| KeyError::Library)
}

fn pem(pkcs8: &[u8]) -> String {
    let mut letters = code::encode(pkcs8, code::BASE64);
    while !letters.len().is_multiple_of(4) {
        letters.push('=');
    }
    let mut text = format!("{BEGIN}\n");
    for (at, letter) in letters.chars().enumerate() {
        if at > 0 && at % LINE_LETTERS == 0 {
            text.push('\n');
        }
        text.push(letter);
    }
    text + "\n" + END + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn an_identity_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("linecard/identity");
        let made = Identity::load_or_create(&path).unwrap();
        let loaded = Identity::load_or_create(&path).unwrap();
        assert_eq!(made.fingerprint(), loaded.fingerprint());
        assert_ne!(made.fingerprint(), Identity::generate().unwrap().fingerprint());
        assert!(!format!("{made:?}").contains("PRIVATE"));
    }

    #[test]
    fn files_without_a_key_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("empty", String::new()),
            ("open", BEGIN.to_owned()),
            ("letters", format!("{BEGIN}\n!!\n{END}\n")),
            ("noise", pem(&[7; 85])),
        ] {
            let path = folder.path().join(name);
            private::create(&path, content.as_bytes()).unwrap();
            let refused = Identity::load(&path).unwrap_err();
            assert!(refused.to_string().contains("not an Ed25519 key"), "{refused}");
        }
        let missing = Identity::load(&folder.path().join("missing")).unwrap_err();
        assert!(matches!(missing, KeyError::File { .. }));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    }
}
