//! The key exchange X25519MLKEM768 (draft-ietf-tls-ecdhe-mlkem, code point 0x11EC): ML-KEM-768 (FIPS 203) and X25519
//! (RFC 7748) together. The keys of a connection stay secret as long as one of the two holds.
//!
//! ```text
//! share of the client   ML-KEM-768 encapsulation key, 1184 octets | X25519 public key, 32
//! share of the server   ML-KEM-768 ciphertext, 1088 octets        | X25519 public key, 32
//! secret                ML-KEM-768 shared key, 32 octets          | X25519 shared secret, 32
//! ```

use ml_kem::ml_kem_768::{Ciphertext, DecapsulationKey, EncapsulationKey};
use ml_kem::{B32, Decapsulate, Key, KeyExport, KeyInit, Seed};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::ring::kx_group::X25519;
use rustls::crypto::{ActiveKeyExchange, CompletedKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::ffdhe_groups::FfdheGroup;
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};
use zeroize::Zeroizing;

/// Octets of an ML-KEM-768 encapsulation key (FIPS 203, table 3).
const ENCAPSULATION_KEY_BYTES: usize = 1_184;
/// Octets of an ML-KEM-768 ciphertext (FIPS 203, table 3).
const CIPHERTEXT_BYTES: usize = 1_088;
/// Octets of an X25519 public key (RFC 7748, section 6.1).
const X25519_BYTES: usize = 32;

/// The group for rustls. Random numbers come from ring's [`SystemRandom`].
#[derive(Debug)]
pub(super) struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    /// Makes both key pairs of the client.
    ///
    /// # Errors
    ///
    /// The system gives no random numbers.
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut seed = Zeroizing::new(Seed::default());
        fill(&mut seed)?;
        let post_quantum = DecapsulationKey::new(&seed);
        let classical = X25519.start()?;
        let share = joined(&post_quantum.encapsulation_key().to_bytes(), classical.pub_key());
        Ok(Box::new(Started { post_quantum, classical, share }))
    }

    /// Answers the share of a client: share of the server, and secret.
    ///
    /// # Errors
    ///
    /// A share of another length; an encapsulation key with a coefficient that is not reduced (FIPS 203, section 7.2);
    /// an X25519 key that makes the secret zero (RFC 7748, section 6.1). The system gives no random numbers.
    fn start_and_complete(&self, client: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let (key, point) = split(client, ENCAPSULATION_KEY_BYTES)?;
        let key = Key::<EncapsulationKey>::try_from(key).map_err(|_| invalid())?;
        let key = EncapsulationKey::new(&key).map_err(|_| invalid())?;
        let classical = X25519.start_and_complete(point)?;
        let mut message = Zeroizing::new(B32::default());
        fill(&mut message)?;
        let (ciphertext, shared) = key.encapsulate_deterministic(&message);
        let shared = Zeroizing::new(shared);
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key: joined(&ciphertext, &classical.pub_key),
            secret: joined(&shared, classical.secret.secret_bytes()).into(),
        })
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}

/// Key pairs of a client whose server has not answered yet.
struct Started {
    post_quantum: DecapsulationKey,
    classical: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl ActiveKeyExchange for Started {
    /// The secret, from the share of the server. A ciphertext that was changed gives another secret (FIPS 203,
    /// section 6.3), with which the handshake fails.
    ///
    /// # Errors
    ///
    /// A share of another length; an X25519 key that makes the secret zero (RFC 7748, section 6.1).
    fn complete(self: Box<Self>, server: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, point) = split(server, CIPHERTEXT_BYTES)?;
        let ciphertext = Ciphertext::try_from(ciphertext).map_err(|_| invalid())?;
        let classical = self.classical.complete(point)?;
        let shared = Zeroizing::new(self.post_quantum.decapsulate(&ciphertext));
        Ok(joined(&shared, classical.secret_bytes()).into())
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn ffdhe_group(&self) -> Option<FfdheGroup<'static>> {
        None
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// The parts of a share of `first` octets of ML-KEM-768 and an X25519 key.
fn split(share: &[u8], first: usize) -> Result<(&[u8], &[u8]), Error> {
    match share.split_at_checked(first) {
        Some(parts) if parts.1.len() == X25519_BYTES => Ok(parts),
        _ => Err(invalid()),
    }
}

/// Both parts, ML-KEM-768 first, in memory of exactly this size: no part of a secret stays in memory that was too small.
fn joined(post_quantum: &[u8], classical: &[u8]) -> Vec<u8> {
    [post_quantum, classical].concat()
}

fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    SystemRandom::new().fill(bytes).map_err(|_| Error::FailedToGetRandomBytes)
}

fn invalid() -> Error {
    PeerMisbehaved::InvalidKeyShare.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shake::digest::{ExtendableOutput, Update, XofReader};
    use shake::{Shake128, Shake128Reader};

    const CLIENT_BYTES: usize = 1_216;
    const SERVER_BYTES: usize = 1_120;

    fn client() -> Box<dyn ActiveKeyExchange> {
        X25519MlKem768.start().unwrap()
    }

    fn is_refused<T>(result: &Result<T, Error>) -> bool {
        matches!(result, Err(Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare)))
    }

    #[test]
    fn both_ends_agree_on_a_secret() {
        let mut secrets = Vec::new();
        for _ in 0..3 {
            let client = client();
            assert_eq!(client.pub_key().len(), CLIENT_BYTES);
            let server = X25519MlKem768.start_and_complete(client.pub_key()).unwrap();
            assert_eq!(server.pub_key.len(), SERVER_BYTES);
            let secret = client.complete(&server.pub_key).unwrap();
            assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
            assert_eq!(secret.secret_bytes().len(), 64);
            secrets.extend(secret.secret_bytes().chunks(32).map(<[u8]>::to_vec));
        }
        secrets.sort();
        secrets.dedup();
        assert_eq!(secrets.len(), 6, "both halves of each handshake are new");
    }

    /// The secret is that of ML-KEM-768 before that of X25519, computed here from the parts.
    #[test]
    fn shares_and_secret_are_joined_as_the_draft_says() {
        let key = DecapsulationKey::new(&Seed::from([7; 64]));
        let classical = X25519.start().unwrap();
        let share = joined(&key.encapsulation_key().to_bytes(), classical.pub_key());
        let server = X25519MlKem768.start_and_complete(&share).unwrap();
        let (ciphertext, point) = server.pub_key.split_at(1_088);
        let shared = key.decapsulate_slice(ciphertext).unwrap();
        let classical = classical.complete(point).unwrap();
        assert_eq!(server.secret.secret_bytes()[..32], shared[..]);
        assert_eq!(server.secret.secret_bytes()[32..], *classical.secret_bytes());
    }

    #[test]
    fn shares_of_another_length_are_refused() {
        let right = client().pub_key().to_vec();
        let answer = X25519MlKem768.start_and_complete(&right).unwrap().pub_key;
        let longer = |share: &[u8]| [share, &[9; 1_300]].concat();
        let (from_client, from_server) = (longer(&right), longer(&answer));
        for length in 0..CLIENT_BYTES + 1_300 {
            let result = X25519MlKem768.start_and_complete(&from_client[..length]);
            assert_eq!(is_refused(&result), length != CLIENT_BYTES, "{length}");
        }
        for length in (0..1_100).step_by(11).chain(1_100..1_300) {
            let result = client().complete(&from_server[..length]);
            assert_eq!(is_refused(&result), length != SERVER_BYTES, "{length}");
        }
    }

    /// The modulus check of FIPS 203, section 7.2, for each of the 768 coefficients of 12 bits.
    #[test]
    fn keys_beyond_the_modulus_are_refused() {
        let right = client().pub_key().to_vec();
        for at in 0..768 {
            for (value, refused) in [(0, false), (3_328, false), (3_329, true), (4_095, true)] {
                let mut share = right.clone();
                let pair = &mut share[at / 2 * 3..][..3];
                match at % 2 {
                    0 => {
                        pair[0] = value as u8;
                        pair[1] = pair[1] & 0xF0 | (value >> 8) as u8;
                    }
                    _ => {
                        pair[1] = pair[1] & 0x0F | (value << 4) as u8;
                        pair[2] = (value >> 4) as u8;
                    }
                }
                let result = X25519MlKem768.start_and_complete(&share);
                assert_eq!(is_refused(&result), refused, "coefficient {at} = {value}");
            }
        }
    }

    /// Points of small order, with which the secret of X25519 would be zero (RFC 7748, section 6.1).
    #[test]
    fn a_secret_of_zeros_is_refused() {
        let modulus = |low: u8| {
            let mut point = [0xFF; 32];
            (point[0], point[31]) = (low, 0x7F);
            point
        };
        let mut one = [0; 32];
        one[0] = 1;
        for point in [[0; 32], one, modulus(0xEC), modulus(0xED), modulus(0xEE)] {
            let mut share = client().pub_key().to_vec();
            let answer = X25519MlKem768.start_and_complete(&share).unwrap().pub_key;
            share[ENCAPSULATION_KEY_BYTES..].copy_from_slice(&point);
            assert!(is_refused(&X25519MlKem768.start_and_complete(&share)), "{point:?}");
            let answer = joined(&answer[..CIPHERTEXT_BYTES], &point);
            assert!(is_refused(&client().complete(&answer)), "{point:?}");
        }
    }

    #[test]
    fn a_changed_ciphertext_gives_another_secret() {
        for bit in (0..CIPHERTEXT_BYTES * 8).step_by(61) {
            let client = client();
            let server = X25519MlKem768.start_and_complete(client.pub_key()).unwrap();
            let mut changed = server.pub_key;
            changed[bit / 8] ^= 1 << (bit % 8);
            let secret = client.complete(&changed).unwrap();
            let (here, there) = (secret.secret_bytes(), server.secret.secret_bytes());
            assert_ne!(here[..32], there[..32], "bit {bit}");
            assert_eq!(here[32..], there[32..]);
        }
    }

    fn next<const BYTES: usize>(source: &mut Shake128Reader) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        source.read(&mut bytes);
        bytes
    }

    /// The first 100 vectors of ML-KEM-768 that the Go project accumulates into one hash (crypto/mlkem, method of
    /// c2sp.org/CCTV/ML-KEM): keys, encapsulation, decapsulation, and decapsulation of noise.
    #[test]
    fn ml_kem_equals_the_test_vectors() {
        let mut source = Shake128::default().finalize_xof();
        let mut all = Shake128::default();
        for _ in 0..100 {
            let key = DecapsulationKey::new(&next::<64>(&mut source).into());
            let public = key.encapsulation_key().to_bytes();
            all.update(&public);
            let message = next::<32>(&mut source).into();
            let (ciphertext, shared) =
                EncapsulationKey::new(&public).unwrap().encapsulate_deterministic(&message);
            all.update(&ciphertext);
            all.update(&shared);
            assert_eq!(key.decapsulate(&ciphertext), shared);
            all.update(&key.decapsulate(&next::<CIPHERTEXT_BYTES>(&mut source).into()));
        }
        let hash: String =
            next::<32>(&mut all.finalize_xof()).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hash, "1114b1b6699ed191734fa339376afa7e285c9e6acf6ff0177d346696ce564415");
    }
}
