//! From the handshake's secret to the keys of each epoch.

use core::fmt;
use linecard_transfer::control::Suite;
use ring::aead::{AES_128_GCM, Algorithm, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk};

/// Bytes of a secret: those of SHA-256.
const SECRET_BYTES: usize = 32;
/// Bytes of a nonce.
pub(super) const IV_BYTES: usize = 12;

/// The sending end: each direction of a lane has a secret of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The end that opened the control channel.
    FromClient,
    /// The end that accepted it.
    FromServer,
}

/// The secret from which the keys of a lane and direction are derived; forgotten with the
/// connection.
#[derive(Clone)]
pub struct LaneSecret([u8; SECRET_BYTES]);

impl LaneSecret {
    /// From random bytes that only both ends have.
    #[must_use]
    pub const fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// The secret of the next epoch: the way there cannot be gone back (RFC 9001, section 6.1).
    pub(super) fn next(&self) -> Self {
        Self(expand(&self.0, b"linecard ku"))
    }

    /// Key and nonce of this epoch; none for suites that have none.
    pub(super) fn keys(&self, suite: Suite) -> Option<(LessSafeKey, [u8; IV_BYTES])> {
        let key = match suite {
            Suite::Aes128Gcm => key(&AES_128_GCM, &expand::<16>(&self.0, b"linecard key")),
            Suite::ChaCha20Poly1305 => {
                key(&CHACHA20_POLY1305, &expand::<32>(&self.0, b"linecard key"))
            }
            Suite::None | Suite::Other(_) => None,
        };
        key.map(|key| (key, expand(&self.0, b"linecard iv")))
    }
}

impl fmt::Debug for LaneSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LaneSecret(…)")
    }
}

impl Direction {
    /// Its number in the derivation of secrets.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::FromClient => 0,
            Self::FromServer => 1,
        }
    }

    /// The other one.
    #[must_use]
    pub const fn reverse(self) -> Self {
        match self {
            Self::FromClient => Self::FromServer,
            Self::FromServer => Self::FromClient,
        }
    }
}

fn key(algorithm: &'static Algorithm, bytes: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(algorithm, bytes).ok().map(LessSafeKey::new)
}

struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// HKDF-Expand-Label of RFC 8446, section 7.1, with SHA-256 and an empty context.
fn expand<const N: usize>(secret: &[u8; SECRET_BYTES], label: &[u8]) -> [u8; N] {
    const PREFIX: &[u8] = b"tls13 ";
    const { assert!(N <= 32, "one block of the hash: expanding cannot fail") };
    let length = (N as u16).to_be_bytes();
    let label_length = [(PREFIX.len() + label.len()) as u8];
    let info = [&length[..], &label_length, PREFIX, label, &[0]];
    let mut out = [0; N];
    let prk = Prk::new_less_safe(HKDF_SHA256, secret);
    // It fails for more than 255 blocks; should it ever, the secret must not be zeros.
    let filled = prk.expand(&info, Bytes(N)).and_then(|okm| okm.fill(&mut out));
    assert!(filled.is_ok(), "HKDF gives {N} bytes");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9001, appendix A.1: the client's initial secret, its key and its nonce.
    #[test]
    fn expanding_equals_the_test_vectors() {
        let secret: [u8; 32] = [
            0xc0, 0x0c, 0xf1, 0x51, 0xca, 0x5b, 0xe0, 0x75, 0xed, 0x0e, 0xbf, 0xb5, 0xc8, 0x03,
            0x23, 0xc4, 0x2d, 0x6b, 0x7d, 0xb6, 0x78, 0x81, 0x28, 0x9a, 0xf4, 0x00, 0x8f, 0x1f,
            0x6c, 0x35, 0x7a, 0xea,
        ];
        assert_eq!(
            expand::<16>(&secret, b"quic key"),
            0x1f36_9613_dd76_d546_7730_efcb_e3b1_a22d_u128.to_be_bytes()
        );
        let iv = [0xfa, 0x04, 0x4b, 0x2f, 0x42, 0xa3, 0xfd, 0x3b, 0x46, 0xfb, 0x25, 0x5c];
        assert_eq!(expand::<12>(&secret, b"quic iv"), iv);
    }

    #[test]
    fn epochs_and_uses_have_nothing_in_common() {
        let secret = LaneSecret::new([7; 32]);
        let next = secret.next();
        assert_ne!(secret.0, next.0);
        assert_ne!(next.0, next.next().0);
        assert_ne!(expand::<12>(&secret.0, b"linecard iv"), expand::<12>(&next.0, b"linecard iv"));
        assert!(secret.keys(Suite::None).is_none() && secret.keys(Suite::Other(7)).is_none());
        assert_eq!(format!("{secret:?}"), "LaneSecret(…)");
    }
}
