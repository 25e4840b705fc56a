//! Agreement on what both ends support, or the reason why there is none.

use super::field::{Fields, Frame, Tag};
use super::text::Text;
use super::{Hello, MessageError, Suite, Welcome};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Display;

/// The receiver's choice among what the sender supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// The highest version that both support.
    pub version: u16,
    /// The first of the receiver's suites that the sender supports.
    pub suite: Suite,
}

/// Why the receiver refuses the transfer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refuse {
    /// The kind of reason.
    pub code: RefuseCode,
    /// For the user at the other end.
    pub text: Text,
}

/// Kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefuseCode {
    /// No version in common.
    Version,
    /// No suite in common.
    Suite,
    /// A kind of error correction that the receiver does not support.
    Fec,
    /// The receiver lacks resources: memory, lanes, connections.
    Resources,
    /// As many transfers run as may at once. Senders ask again.
    Busy,
    /// Any other, including those of later versions.
    Other(u16),
}

/// A welcome that contradicts the hello: the receiver has a bug, or is impersonated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WelcomeError {
    /// Not one of those that were offered.
    #[error("the receiver chose version {0}, which was not offered")]
    Version(u16),
    /// Not one of those that were offered.
    #[error("the receiver chose suite {0}, which was not offered")]
    Suite(Suite),
    /// One address for each lane is needed.
    #[error("the receiver gave {given} addresses for {wanted} lanes")]
    Lanes {
        /// Addresses.
        given: usize,
        /// Lanes of the hello.
        wanted: usize,
    },
}

const CODE: Tag = (1, "code");
const TEXT: Tag = (2, "text");

impl Hello {
    /// The choice of a receiver with these `versions`, `suites` in order of preference and kinds of
    /// error correction.
    ///
    /// # Errors
    ///
    /// If there is nothing in common: the message for the sender, with both lists, and for the
    /// local user.
    pub fn agree(
        &self,
        versions: &[u16],
        suites: &[Suite],
        fec_kinds: &[u8],
    ) -> Result<Agreed, Refuse> {
        let common = versions.iter().filter(|version| self.versions.contains(version));
        let version = *common.max().ok_or_else(|| {
            none_in_common(RefuseCode::Version, "protocol version", &self.versions, versions)
        })?;
        let known = |suite: &&Suite| !matches!(suite, Suite::Other(_));
        let common = suites.iter().filter(known).find(|suite| self.suites.contains(suite));
        let suite = *common
            .ok_or_else(|| none_in_common(RefuseCode::Suite, "suite", &self.suites, suites))?;
        if !fec_kinds.contains(&self.fec.kind) {
            let wanted = [self.fec.kind];
            return Err(none_in_common(
                RefuseCode::Fec,
                "kind of error correction",
                &wanted,
                fec_kinds,
            ));
        }
        Ok(Agreed { version, suite })
    }
}

impl Welcome {
    /// Checks that this is a valid answer to `hello`: only what was offered can be chosen.
    ///
    /// # Errors
    ///
    /// The contradiction.
    pub fn check(&self, hello: &Hello) -> Result<(), WelcomeError> {
        let (given, wanted) = (self.lanes.len(), hello.lanes.len());
        if !hello.versions.contains(&self.version) {
            Err(WelcomeError::Version(self.version))
        } else if !hello.suites.contains(&self.suite) {
            Err(WelcomeError::Suite(self.suite))
        } else if given != wanted {
            Err(WelcomeError::Lanes { given, wanted })
        } else {
            Ok(())
        }
    }
}

fn none_in_common<T: Display>(
    code: RefuseCode,
    what: &str,
    sender: &[T],
    receiver: &[T],
) -> Refuse {
    let text = format!(
        "no {what} in common: the sender has {}; the receiver has {}",
        listed(sender),
        listed(receiver)
    );
    Refuse { code, text: Text::from(text.as_str()) }
}

fn listed<T: Display>(list: &[T]) -> String {
    let mut text = String::new();
    for element in list {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&element.to_string());
    }
    if text.is_empty() { String::from("none") } else { text }
}

impl Refuse {
    pub(super) fn write(&self, frame: &mut Frame<'_>) {
        frame.number(CODE.0, self.code.number());
        frame.bytes(TEXT.0, self.text.as_str().as_bytes());
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Self, MessageError> {
        Ok(Self { code: RefuseCode::of(fields.number(CODE)?), text: fields.text(TEXT)? })
    }
}

impl RefuseCode {
    const fn number(self) -> u16 {
        match self {
            Self::Version => 1,
            Self::Suite => 2,
            Self::Fec => 3,
            Self::Resources => 4,
            Self::Busy => 5,
            Self::Other(number) => number,
        }
    }

    const fn of(number: u16) -> Self {
        match number {
            1 => Self::Version,
            2 => Self::Suite,
            3 => Self::Fec,
            4 => Self::Resources,
            5 => Self::Busy,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hello;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use core::net::SocketAddr;

    #[test]
    fn the_receiver_chooses_among_what_the_sender_has() {
        let ours = [Suite::ChaCha20Poly1305, Suite::Aes128Gcm];
        let mut hello = hello();
        hello.versions = vec![3, 1, 2];
        let agreed = hello.agree(&[1, 2, 4], &ours, &[0]);
        assert_eq!(agreed, Ok(Agreed { version: 2, suite: Suite::ChaCha20Poly1305 }));
        hello.suites = vec![Suite::Other(9), Suite::Aes128Gcm];
        assert_eq!(hello.agree(&[1], &ours, &[0]).map(|agreed| agreed.suite), Ok(Suite::Aes128Gcm));
    }

    #[test]
    fn nothing_in_common_is_said_with_both_lists() {
        let mut hello = hello();
        hello.suites = vec![Suite::None, Suite::Other(9)];
        hello.fec.kind = 2;
        hello.fec.k = 1;
        let text = |refuse: Result<Agreed, Refuse>| refuse.map_err(|refuse| refuse.to_string());
        assert_eq!(
            text(hello.agree(&[7, 8], &[], &[])).unwrap_err(),
            "no protocol version in common: the sender has 1; the receiver has 7, 8"
        );
        // A suite that neither end knows is not common, even if both name it.
        assert_eq!(
            text(hello.agree(&[1], &[Suite::Aes128Gcm, Suite::Other(9)], &[])).unwrap_err(),
            "no suite in common: the sender has none, unknown (9); the receiver has aes-128-gcm, \
             unknown (9)"
        );
        assert_eq!(
            text(hello.agree(&[1], &[Suite::None], &[0, 1])).unwrap_err(),
            "no kind of error correction in common: the sender has 2; the receiver has 0, 1"
        );
    }

    #[test]
    fn what_was_not_offered_cannot_be_chosen() {
        let hello = hello();
        let address: SocketAddr = "192.0.2.1:4000".parse().unwrap();
        let lanes: Vec<SocketAddr> = vec![address; hello.lanes.len()];
        let suite = hello.suites[0];
        let good = Welcome { version: 1, suite, connection: 0, window_chunks: 1, lanes };
        assert_eq!(good.check(&hello), Ok(()));
        let with = |change: fn(&mut Welcome)| {
            let mut welcome = good.clone();
            change(&mut welcome);
            welcome.check(&hello)
        };
        assert_eq!(with(|welcome| welcome.version = 0), Err(WelcomeError::Version(0)));
        let none = Err(WelcomeError::Suite(Suite::None));
        assert_eq!(with(|welcome| welcome.suite = Suite::None), none);
        assert!(with(|welcome| welcome.lanes.truncate(1)).is_err());
    }
}
