//! A short code with which two ends recognise each other once.

use super::{Fingerprint, KeyError, SharedKey};
use core::fmt;
use core::str::FromStr;
use ring::rand::{SecureRandom, SystemRandom};
use spake2::{Ed25519Group, Identity, Password, Spake2};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Digits of a code.
const DIGITS: usize = 8;
/// Wrong codes after which the right one is no longer accepted.
pub const MAX_WRONG_CODES: u32 = 3;
/// How long a receiver accepts its code.
pub const CODE_LIFETIME: Duration = Duration::from_secs(600);
/// Bytes of the message that each end sends first.
pub(crate) const MESSAGE_BYTES: usize = 33;

/// Eight random digits. Hyphens and spaces between them do not count.
///
/// They are too few to be a key. In SPAKE2 each exchange tests one code, and nobody who reads or changes the traffic can
/// test another one afterwards; a receiver accepts [`MAX_WRONG_CODES`] wrong ones.
///
/// ```
/// use linecard_transfer_net::keys::PairingCode;
/// let code: PairingCode = "4821 6093".parse()?;
/// assert_eq!(code.to_string(), "4821-6093");
/// assert!("4821".parse::<PairingCode>().is_err());
/// # Ok::<(), linecard_transfer_net::keys::NoCode>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PairingCode([u8; DIGITS]);

/// A text is not a [`PairingCode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pairing code has eight digits, as 4821-6093: `linecard recv --pair` shows one")]
pub struct NoCode;

impl PairingCode {
    /// A new one.
    ///
    /// # Errors
    ///
    /// The system has no random numbers.
    pub fn fresh() -> Result<Self, KeyError> {
        let mut bytes = [0; 8];
        SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Library)?;
        // No code is more likely than another by more than one in 10^11.
        let mut rest = u64::from_ne_bytes(bytes);
        let digit = |_| {
            let digit = b'0' + (rest % 10) as u8;
            rest /= 10;
            digit
        };
        Ok(Self([(); DIGITS].map(digit)))
    }
}

impl FromStr for PairingCode {
    type Err = NoCode;

    fn from_str(text: &str) -> Result<Self, NoCode> {
        let digits = text.bytes().filter(|byte| !matches!(byte, b'-' | b' '));
        let digits: [u8; DIGITS] = digits.collect::<Vec<u8>>().try_into().map_err(|_| NoCode)?;
        if digits.iter().all(u8::is_ascii_digit) { Ok(Self(digits)) } else { Err(NoCode) }
    }
}

impl fmt::Display for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (front, back) = self.0.split_at(DIGITS / 2);
        let digits = |half: &[u8]| half.iter().copied().map(char::from).collect::<String>();
        write!(f, "{}-{}", digits(front), digits(back))
    }
}

impl fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingCode(…)")
    }
}

/// Records the key of the end that has typed the code, and whose address is the first argument, as one that may send.
pub type Remember = Box<dyn Fn(&str, Fingerprint) -> Result<(), KeyError> + Send + Sync>;

/// Why an end that has typed a code is not accepted.
#[derive(Debug)]
pub enum CodeRefused {
    /// It is another one; this many more wrong ones are accepted.
    Wrong {
        /// Attempts until the code is void.
        left: u32,
    },
    /// It has been used, has been tried too often, or is too old.
    Void,
    /// It is right, and the key of the other end cannot be recorded.
    Unrecorded(KeyError),
}

/// One end's part of a pairing.
#[derive(Clone)]
pub struct Pairing {
    code: PairingCode,
    /// Only where the code is shown.
    shown: Option<Arc<Mutex<Shown>>>,
}

struct Shown {
    /// When the code ends by itself.
    end: Instant,
    /// Wrong codes that are still accepted.
    left: u32,
    /// None if the code is void: whatever it holds is closed then.
    remember: Option<Remember>,
}

impl Pairing {
    /// Of the end that shows a code, for [`CODE_LIFETIME`] and one other end.
    #[must_use]
    pub fn shown(code: PairingCode, remember: Remember) -> Self {
        Self::until(Instant::now() + CODE_LIFETIME, code, remember)
    }

    fn until(end: Instant, code: PairingCode, remember: Remember) -> Self {
        let shown = Shown { end, left: MAX_WRONG_CODES, remember: Some(remember) };
        Self { code, shown: Some(Arc::new(Mutex::new(shown))) }
    }

    /// Of the end at which it is typed. The key of the other end goes where its trust has known ones.
    #[must_use]
    pub const fn typed(code: PairingCode) -> Self {
        Self { code, shown: None }
    }

    /// The code.
    #[must_use]
    pub const fn code(&self) -> PairingCode {
        self.code
    }

    /// Takes an attempt, and records the key of the other end if `is_right`: nobody else can use the code then. Attempts
    /// at the same time wait for each other, so that there are never more than the code allows.
    pub(crate) fn attempt(
        &self,
        is_right: bool,
        name: &str,
        key: Fingerprint,
    ) -> Result<(), CodeRefused> {
        let Some(shown) = &self.shown else { return Err(CodeRefused::Void) };
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        if Instant::now() >= shown.end {
            shown.remember = None;
        }
        let Some(remember) = &shown.remember else { return Err(CodeRefused::Void) };
        if is_right {
            remember(name, key).map_err(CodeRefused::Unrecorded)?;
            shown.remember = None;
            return Ok(());
        }
        shown.left -= 1;
        if shown.left == 0 {
            shown.remember = None;
        }
        Err(CodeRefused::Wrong { left: shown.left })
    }
}

impl fmt::Debug for Pairing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pairing(…)")
    }
}

/// SPAKE2 (Abdalla and Pointcheval, CT-RSA 2005) in the group of Ed25519: from a code that both ends have to a key that
/// only they have, if it is the same code.
pub(crate) struct Exchange(Spake2<Ed25519Group>);

impl Exchange {
    /// Begins one, at the connecting end or at the other; with the message for the other end.
    pub(crate) fn start(code: PairingCode, connects: bool) -> (Self, [u8; MESSAGE_BYTES]) {
        let code = Password::new(code.0);
        let ends = [b"linecard sender".as_slice(), b"linecard receiver"].map(Identity::new);
        let (state, message) = if connects {
            Spake2::start_a(&code, &ends[0], &ends[1])
        } else {
            Spake2::start_b(&code, &ends[0], &ends[1])
        };
        let mut bytes = [0; MESSAGE_BYTES];
        bytes.copy_from_slice(&message);
        (Self(state), bytes)
    }

    /// The key, which still has to be proved; none if the message of the other end is malformed.
    pub(crate) fn finish(self, theirs: &[u8]) -> Option<SharedKey> {
        let key: [u8; 32] = self.0.finish(theirs).ok()?.try_into().ok()?;
        Some(SharedKey::new(&key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn codes_are_digits_in_two_groups() {
        let code = PairingCode::fresh().unwrap();
        assert_eq!(code.to_string().parse(), Ok(code));
        assert_eq!(code.to_string().len(), DIGITS + 1);
        for same in ["4821-6093", "48216093", " 4821 6093 ", "4-8-2-1-6-0-9-3"] {
            assert_eq!(same.parse::<PairingCode>().unwrap().to_string(), "4821-6093");
        }
        for wrong in ["", "4821", "4821-609", "4821-60933", "4821-609a", "４821-6093"] {
            assert_eq!(wrong.parse::<PairingCode>(), Err(NoCode), "{wrong}");
        }
        assert_eq!(format!("{code:?}"), "PairingCode(…)");
    }

    #[test]
    fn all_digits_are_as_likely() {
        let mut counts = [0_u32; 10];
        for _ in 0..2_000 {
            let code = PairingCode::fresh().unwrap();
            code.0.iter().for_each(|digit| counts[usize::from(digit - b'0')] += 1);
        }
        // 1,600 expected, standard deviation 38.
        assert!(counts.iter().all(|count| (1_350..1_850).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_same_code_gives_the_same_key_and_another_does_not() {
        let key = |a: &str, b: &str| {
            let (a, to_b) = Exchange::start(a.parse().unwrap(), true);
            let (b, to_a) = Exchange::start(b.parse().unwrap(), false);
            let (a, b) = (a.finish(&to_a).unwrap(), b.finish(&to_b).unwrap());
            b.proves(b"x", &a.proof(b"x"))
        };
        assert!(key("4821-6093", "48216093"));
        assert!(!key("4821-6093", "4821-6094"));
    }

    #[test]
    fn malformed_messages_give_no_key() {
        let start = || Exchange::start("4821-6093".parse().unwrap(), true);
        let own = start().1;
        for theirs in [&own[..], &[], &own[..32], &[0x42; 32], &[0xff; 33]] {
            assert!(start().0.finish(theirs).is_none(), "{theirs:?}");
        }
    }

    #[test]
    fn a_code_is_used_once_and_tried_three_times() {
        let remembered = Arc::new(AtomicU32::new(0));
        let pairing = |end: Instant| {
            let remembered = Arc::clone(&remembered);
            let remember: Remember = Box::new(move |_, _| {
                remembered.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            Pairing::until(end, PairingCode::fresh().unwrap(), remember)
        };
        let key = Fingerprint::of(b"a");
        let later = Instant::now() + CODE_LIFETIME;
        let once = pairing(later);
        let is_void =
            |pairing: &Pairing| matches!(pairing.attempt(true, "a", key), Err(CodeRefused::Void));
        assert!(once.attempt(true, "a", key).is_ok());
        assert!(is_void(&once));
        let guessed = pairing(later);
        for left in [2, 1, 0] {
            let refused = guessed.attempt(false, "a", key);
            assert!(matches!(refused, Err(CodeRefused::Wrong { left: more }) if more == left));
        }
        assert!(is_void(&guessed));
        let old = pairing(Instant::now());
        assert!(is_void(&old));
        assert_eq!(remembered.load(Ordering::Relaxed), 1);
    }

    /// Otherwise no end could pair any more.
    #[test]
    fn a_key_that_cannot_be_recorded_leaves_the_code() {
        let pairing =
            Pairing::shown(PairingCode::fresh().unwrap(), Box::new(|_, _| Err(KeyError::Library)));
        let key = Fingerprint::of(b"a");
        for _ in 0..2 {
            let refused = pairing.attempt(true, "a", key);
            assert!(matches!(refused, Err(CodeRefused::Unrecorded(_))));
        }
    }
}
