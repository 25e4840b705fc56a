//! Probes: a lane is used only when its other end has answered with a value that no other host could know.

use alloc::vec::Vec;

/// The body of a packet of kind `Probe` (path validation, RFC 9000, section 8.2).
///
/// The bytes behind the two numbers are padding: a challenge is as long as a full packet, so that a
/// path that is answered on carries full packets, and an answer is never longer than what it
/// answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probe {
    /// To be sent back, if there is one.
    pub challenge: Option<u64>,
    /// A challenge of the other end.
    pub response: Option<u64>,
}

const HAS_CHALLENGE: u8 = 1;
const HAS_RESPONSE: u8 = 2;

impl Probe {
    /// Bytes without padding.
    pub const BYTES: usize = 17;

    /// Appends the body to `out`, padded with zeros to `bytes`.
    pub fn write(&self, out: &mut Vec<u8>, bytes: usize) {
        let end = out.len() + bytes.max(Self::BYTES);
        out.push(
            u8::from(self.challenge.is_some()) * HAS_CHALLENGE
                + u8::from(self.response.is_some()) * HAS_RESPONSE,
        );
        out.extend(self.challenge.unwrap_or(0).to_be_bytes());
        out.extend(self.response.unwrap_or(0).to_be_bytes());
        out.resize(end, 0);
    }

    /// The probe that `body` begins with; none if it is too short for one.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<Self> {
        let bytes = body.first_chunk::<{ Self::BYTES }>()?;
        let number = |at: usize| {
            u64::from(super::be32(bytes, at)) << 32 | u64::from(super::be32(bytes, at + 4))
        };
        Some(Self {
            challenge: (bytes[0] & HAS_CHALLENGE != 0).then(|| number(1)),
            response: (bytes[0] & HAS_RESPONSE != 0).then(|| number(9)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_parsed_whatever_its_padding() {
        for (challenge, response) in
            [(None, None), (Some(7), None), (None, Some(u64::MAX)), (Some(0), Some(0))]
        {
            let probe = Probe { challenge, response };
            for bytes in [0, 17, 1_408] {
                let mut body = Vec::new();
                probe.write(&mut body, bytes);
                assert_eq!(body.len(), bytes.max(17));
                assert_eq!(Probe::parse(&body), Some(probe));
            }
        }
        assert_eq!(Probe::parse(&[0; 16]), None);
    }
}
