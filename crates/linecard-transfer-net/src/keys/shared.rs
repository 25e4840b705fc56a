//! A secret that both ends have.

use super::{KeyError, code, private};
use core::fmt;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::path::Path;

/// Bytes of a shared key: as many as the hash has that it goes into.
const KEY_BYTES: usize = 32;

/// 32 random bytes that both ends have in a file, as 64 hexadecimal digits or 43 letters of base64.
///
/// It has to be random, and not a password: what both prove could be used to try passwords.
#[derive(Clone)]
pub struct SharedKey(hmac::Key);

impl SharedKey {
    /// Writes a new one into a file that is not there yet.
    ///
    /// # Errors
    ///
    /// The file exists, or cannot be written.
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let (key, text) = Self::fresh()?;
        private::create(path, (text + "\n").as_bytes())?;
        Ok(key)
    }

    /// A new one, and its text, which [`parse`](Self::parse) reads.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn fresh() -> Result<(Self, String), KeyError> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Library)?;
        Ok((Self::new(&bytes), code::encode(&bytes, code::BASE16)))
    }

    /// The one in the file at `path`.
    ///
    /// # Errors
    ///
    /// No file, one that others can read, or other than 32 bytes in hexadecimal or base64.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let text = private::read(path)?;
        let what =
            "not a shared key, which is 32 random bytes as 64 hexadecimal digits, or in base64";
        Self::parse(&text).ok_or_else(|| KeyError::content(path, what))
    }

    /// The key of a text: 32 bytes in hexadecimal or base64. White space around it does not count.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let bytes = if text.len() == 2 * KEY_BYTES {
            code::decode(text, code::BASE16)
        } else {
            code::decode(text, code::BASE64)
        };
        let bytes: [u8; KEY_BYTES] = bytes?.try_into().ok()?;
        Some(Self::new(&bytes))
    }

    /// From its bytes, which have to be random.
    #[must_use]
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// Proof of possession of the key, without revealing it: HMAC-SHA256 of `statement`.
    pub(crate) fn proof(&self, statement: &[u8]) -> [u8; 32] {
        let mut proof = [0; 32];
        proof.copy_from_slice(hmac::sign(&self.0, statement).as_ref());
        proof
    }

    /// Whether `proof` is of this key and statement, in the same time whatever is wrong.
    pub(crate) fn proves(&self, statement: &[u8], proof: &[u8]) -> bool {
        hmac::verify(&self.0, statement, proof).is_ok()
    }
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_proves_what_it_says_and_nothing_else() {
        let [a, b] = [SharedKey::new(&[1; 32]), SharedKey::new(&[2; 32])];
        let proof = a.proof(b"client");
        assert!(a.proves(b"client", &proof));
        assert!(!a.proves(b"server", &proof) && !b.proves(b"client", &proof));
        assert!(!a.proves(b"client", &proof[..31]) && !a.proves(b"client", &[0; 32]));
    }

    #[test]
    fn short_keys_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let made = SharedKey::create(&folder.path().join("made")).unwrap();
        let loaded = SharedKey::load(&folder.path().join("made")).unwrap();
        assert_eq!(made.proof(b"x"), loaded.proof(b"x"));
        let cases = [
            ("hex", "ab".repeat(32), true),
            ("upper", "AB".repeat(32), true),
            ("base64", format!("{}=", "A".repeat(43)), true),
            ("short", "ab".repeat(31), false),
            ("long", "ab".repeat(33), false),
            ("base64 of 31", "A".repeat(42), false),
            ("password", "correct horse battery staple".to_owned(), false),
            ("empty", String::new(), false),
        ];
        for (name, text, good) in cases {
            let path = folder.path().join(name);
            private::create(&path, text.as_bytes()).unwrap();
            assert_eq!(SharedKey::load(&path).is_ok(), good, "{name}");
        }
        assert_eq!(format!("{made:?}"), "SharedKey(…)");
    }
}
