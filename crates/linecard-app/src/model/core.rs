//! Common configuration of a core with a DMA engine, for sending and receiving: clocks, and the
//! messages that are sent.

use super::error::ModelError;
use garde::Validate;
use linecard::packet::header::{Ipv4, Tcp};
use linecard_config::{Bytes, ConfigError, Frequency, Maybe, OneOrMany, Problem, scaled};
use linecard_model::transmit::{Design, DesignError, Message, firmware};
use linecard_model::{Clock, ClockError, Ps};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::fmt;
use std::str::FromStr;

/// The slowest clock.
pub const MIN_CLOCK: Frequency = Frequency::from_hz(Clock::MIN_HZ);
/// The fastest clock.
pub const MAX_CLOCK: Frequency = Frequency::from_hz(Clock::MAX_HZ);
/// The shortest packet that a load may be divided into, from the IP header on.
pub const MIN_MTU: Bytes = Bytes::new(Design::MIN_MTU as u64);
/// The longest packet.
pub const MAX_MTU: Bytes = Bytes::new(65_535);
/// Ethernet's header and check sequence around a packet.
pub const ETHERNET: Bytes = Bytes::new(18);
/// The shortest Ethernet frame, check sequence included.
pub const MIN_FRAME: Bytes = Bytes::new(MIN_MTU.get() + ETHERNET.get());
/// The longest.
pub const MAX_FRAME: Bytes = Bytes::new(MAX_MTU.get() + ETHERNET.get());
/// The most payload of a message: 65,535 bytes with the headers of TCP.
const MAX_SIZE: Bytes = Bytes::new(65_495);
/// A whole period or clock, in the millionths that phases and multiples count in.
pub const WHOLE: u64 = 1_000_000;
/// Multiples of the core's clock, in millionths.
const MULTIPLES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;

/// The DMA's clock: `2115` in MHz, or `5x`, a multiple of the core's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaClock {
    /// Its own, in Hz.
    Hz(u64),
    /// Millionths of the core's clock.
    OfCore(u64),
}

/// A text that is not a clock of a DMA.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DmaClockError {
    /// Not a frequency.
    #[error(transparent)]
    Unit(#[from] linecard_config::UnitError),
    /// A frequency that is too low or too high.
    #[error("{} (1 kHz to 100 GHz)", Problem::range(.0, &MIN_CLOCK, &MAX_CLOCK))]
    Range(Frequency),
    /// Not a multiple, or one that is too small or too large.
    #[error("\"{0}\" is not a multiple of the core's clock: write 0.001x to 1000x")]
    Multiple(String),
}

impl FromStr for DmaClock {
    type Err = DmaClockError;

    fn from_str(text: &str) -> Result<Self, DmaClockError> {
        if let Some(times) = text.strip_suffix('x') {
            let factor = scaled(times, 6).filter(|factor| MULTIPLES.contains(factor));
            let wrong = || DmaClockError::Multiple(text.to_owned());
            return factor.map(Self::OfCore).ok_or_else(wrong);
        }
        match text.parse::<Frequency>()? {
            clock if (MIN_CLOCK..=MAX_CLOCK).contains(&clock) => Ok(Self::Hz(clock.hz())),
            clock => Err(DmaClockError::Range(clock)),
        }
    }
}

impl fmt::Display for DmaClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Hz(hz) => write!(f, "{}", Frequency::from_hz(hz)),
            // Both count in millionths.
            Self::OfCore(factor) => write!(f, "{}x", Frequency::from_hz(factor)),
        }
    }
}

impl DmaClock {
    /// Cycles per second, relative to the core's.
    #[must_use]
    pub fn hz(self, core_hz: u64) -> u64 {
        match self {
            Self::Hz(hz) => hz,
            Self::OfCore(factor) => {
                let hz = u128::from(core_hz) * u128::from(factor) / u128::from(WHOLE);
                u64::try_from(hz).unwrap_or(u64::MAX)
            }
        }
    }
}

/// Messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// segments
    #[default]
    Tcp,
    /// fragments
    Udp,
    /// both in turn, each size with TCP and with UDP
    Mix,
}

/// The messages to send.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Load {
    /// the messages' protocol, and the packets that they are divided into
    pub protocol: Protocol,
    /// payload bytes of a message, or a list of up to 64 in turn
    #[default(OneOrMany(vec![Bytes::new(64_000)]))]
    #[garde(length(min = 1, max = 64), inner(range(min = Bytes::new(1), max = MAX_SIZE)))]
    pub size: OneOrMany<Bytes>,
    /// the longest packet, from the IP header on, in bytes
    #[default(Bytes::new(1_500))]
    #[garde(range(min = MIN_MTU, max = MAX_MTU))]
    pub mtu: Bytes,
    /// in place of the MTU: the longest Ethernet frame in bytes, check sequence included, which is 18 bytes more
    ///
    /// As testers count it (RFC 2544). Set line.overhead to 38, which is Ethernet with preamble and gap.
    #[garde(range(min = MIN_FRAME, max = MAX_FRAME))]
    #[schemars(extend("x-conflicts" = ["load.mtu"]))]
    pub frame: Maybe<Bytes>,
    /// number of messages, sent back to back
    #[default(16)]
    #[garde(range(min = 1, max = 1_000_000))]
    pub messages: u64,
}

impl Load {
    /// The longest packet, as a design has it.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        mtu_of(self.mtu, self.frame)
    }

    /// Messages that are ready from the beginning: sizes in turn, each with an identification and sequence numbers of
    /// its own.
    pub fn messages(&self) -> impl Iterator<Item = Message> + use<> {
        let protocols: &[bool] = match self.protocol {
            Protocol::Tcp => &[false],
            Protocol::Udp => &[true],
            Protocol::Mix => &[false, true],
        };
        // Made once: what differs from message to message is the header.
        let kinds: Vec<(bool, Vec<u8>)> = protocols
            .iter()
            .flat_map(|&udp| self.size.iter().map(move |&size| (udp, size.get() as usize)))
            .map(|(udp, size)| (udp, firmware::example_message(udp, size)))
            .collect();
        let room = usize::from(self.mtu()).saturating_sub(HEADERS).max(1);
        let (mut next_id, mut next_seq) = (1_u16, 1_u32);
        let bytes = (0..self.messages).zip((0..kinds.len()).cycle()).map(move |(_, kind)| {
            let (udp, template) = &kinds[kind];
            let mut bytes = template.clone();
            bytes[Ipv4::ID..Ipv4::ID + 2].copy_from_slice(&next_id.to_be_bytes());
            if *udp {
                next_id = next_id.wrapping_add(1);
                return bytes;
            }
            bytes[SEQ..SEQ + 4].copy_from_slice(&next_seq.to_be_bytes());
            let payload = bytes.len() - HEADERS;
            // Each segment has an identification of its own.
            next_id = next_id.wrapping_add(payload.div_ceil(room) as u16);
            next_seq = next_seq.wrapping_add(payload as u32);
            bytes
        });
        // The example is what the model takes: nothing is left out.
        bytes.filter_map(|bytes| Message::new(bytes, Ps::ZERO).ok())
    }
}

/// The MTU, or that of a frame where one is given.
pub(super) fn mtu_of(mtu: Bytes, frame: Maybe<Bytes>) -> u16 {
    let packet = frame.0.map_or(mtu.get(), |frame| frame.get().saturating_sub(ETHERNET.get()));
    u16::try_from(packet).unwrap_or(u16::MAX)
}

/// Headers of a TCP message without options.
const HEADERS: usize = Ipv4::LEN + Tcp::LEN;
/// Its sequence number.
const SEQ: usize = Ipv4::LEN + 4;

/// A clock with a phase as a share of its period, moved by this many millionths of it.
pub(super) fn clock(hz: u64, phase: f64, moved: u64) -> Result<Clock, ClockError> {
    let period_ps = Ps::SECOND.0.checked_div(hz).unwrap_or(0);
    let millionths = ((phase * WHOLE as f64).round() as u64 + moved) % WHOLE;
    // Rounded down, it is below the period.
    let phase_ps = u128::from(period_ps) * u128::from(millionths) / u128::from(WHOLE);
    Clock::new(hz, Ps(u64::try_from(phase_ps).unwrap_or(0)))
}

/// Refuses an empty name of firmware.
pub(super) fn named(name: &str, (): &()) -> garde::Result {
    if name.is_empty() { Err(garde::Error::new("name a firmware")) } else { Ok(()) }
}

/// Refuses a parameter where values that are each in range do not fit, without names of the model's own.
pub(super) fn misfit(parameter: &str, error: DesignError) -> ConfigError {
    match error {
        DesignError::Range { value, min, max, .. } => {
            ConfigError::of_parameter(parameter, ModelError::Misfit { value, min, max })
        }
        error => ConfigError::of_parameter(parameter, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_a_dma_are_read_as_they_are_written() {
        for (text, clock) in [
            ("2115", DmaClock::Hz(2_115_000_000)),
            ("0.001", DmaClock::Hz(1_000)),
            ("5x", DmaClock::OfCore(5_000_000)),
            ("0.5x", DmaClock::OfCore(500_000)),
            ("1000x", DmaClock::OfCore(1_000_000_000)),
        ] {
            assert_eq!(text.parse(), Ok(clock));
            assert_eq!(clock.to_string(), text);
        }
        for wrong in ["0", "100001", "x", "0x", "1001x", "-1", "", "fast"] {
            assert!(wrong.parse::<DmaClock>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn phases_count_in_millionths_of_the_period() {
        let phase = |phase, moved| clock(1_000_000, phase, moved).map(|clock| clock.edge(0).0);
        assert_eq!([phase(0.0, 0), phase(0.25, 0)], [Ok(0), Ok(250_000)]);
        assert_eq!([phase(0.999_999, 0), phase(0.75, 500_000)], [Ok(999_999), Ok(250_000)]);
    }
}
