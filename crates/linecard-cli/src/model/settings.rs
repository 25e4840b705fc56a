//! A sending side as its scenario has it: typed values, and what they build.

use super::values::{mhz, scaled};
use linecard::packet::header::{Ipv4, Tcp};
use linecard_model::transmit::{BusPolicy, Design, DesignError, HeaderPath, Message, firmware};
use linecard_model::{Clock, Ps};

/// The longest message: 65,535 bytes with the headers of TCP.
pub(super) const MAX_SIZE: u64 = 65_495;
/// A whole period, in the millionths that phases count in.
const PERIOD: u64 = 1_000_000;

/// All that there is to decide.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) cores: usize,
    pub(crate) core_hz: u64,
    pub(crate) core_phase: u64,
    pub(crate) bubbles: u64,
    pub(crate) dma: DmaClock,
    pub(crate) dma_phase: u64,
    pub(crate) cycles_per_word: u64,
    pub(crate) bus_bits: u32,
    pub(crate) policy: BusPolicy,
    pub(crate) header: HeaderPath,
    pub(crate) line: Option<u64>,
    pub(crate) overhead: u64,
    pub(crate) sbi: usize,
    pub(crate) interrupt: Ps,
    pub(crate) protocol: Protocol,
    pub(crate) sizes: Vec<usize>,
    pub(crate) mtu: u16,
    pub(crate) messages: u64,
    pub(crate) firmware: String,
    pub(crate) patience: u64,
}

/// The DMA's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DmaClock {
    /// Its own.
    Hz(u64),
    /// So many millionths of the core's.
    OfCore(u64),
}

/// What messages are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
    /// The same sizes with TCP and with UDP, in turn.
    Mix,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            cores: 1,
            core_hz: 423_000_000,
            core_phase: 0,
            bubbles: 1,
            dma: DmaClock::Hz(2_115_000_000),
            dma_phase: 0,
            cycles_per_word: 1,
            bus_bits: 64,
            policy: BusPolicy::Hold,
            header: HeaderPath::Beside,
            line: Some(100_000_000_000),
            overhead: 20,
            sbi: 65_536,
            interrupt: Ps::ZERO,
            protocol: Protocol::Tcp,
            sizes: vec![64_000],
            mtu: 1500,
            messages: 16,
            firmware: "approach-2".to_owned(),
            patience: 1_000_000,
        }
    }
}

impl DmaClock {
    /// `2115` or, as a multiple of the core's clock, `5x`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some(times) = text.strip_suffix('x') else { return Ok(Self::Hz(mhz(text)?)) };
        let factor = scaled(times, 6).filter(|factor| (1_000..=1_000_000_000).contains(factor));
        factor.map(Self::OfCore).ok_or_else(|| {
            format!("\"{text}\" is no multiple of the core's clock: write 0.001x to 1000x")
        })
    }

    /// Cycles per second beside a core of so many.
    pub(super) fn hz(self, core_hz: u64) -> u64 {
        match self {
            Self::Hz(hz) => hz,
            Self::OfCore(factor) => {
                let hz = u128::from(core_hz) * u128::from(factor) / u128::from(PERIOD);
                u64::try_from(hz).unwrap_or(u64::MAX)
            }
        }
    }
}

impl Settings {
    /// What is built; the DMA's phase is moved by so many millionths of its period.
    pub(crate) fn design(&self, moved: u64) -> Result<Design, DesignError> {
        let design = Design {
            cores: self.cores,
            core: clock(self.core_hz, self.core_phase)?,
            bubbles: self.bubbles,
            dma: clock(self.dma.hz(self.core_hz), (self.dma_phase + moved) % PERIOD)?,
            cycles_per_word: self.cycles_per_word,
            bus_bits: self.bus_bits,
            policy: self.policy,
            header: self.header,
            sbi_bytes: self.sbi,
            mtu: self.mtu,
            line_bits_per_second: self.line,
            wire_overhead_bytes: self.overhead,
            interrupt: self.interrupt,
            patience: self.patience,
        };
        design.check().map(|()| design)
    }

    /// The DMA's phase moved by step `step` of `steps` through its period.
    pub(crate) fn moved(step: u64, steps: u64) -> u64 {
        step * PERIOD / steps.max(1)
    }

    /// The load: sizes in turn, each with an identification and sequence numbers of its own.
    pub(crate) fn load(&self) -> impl Iterator<Item = Vec<u8>> {
        let protocols: &[bool] = match self.protocol {
            Protocol::Tcp => &[false],
            Protocol::Udp => &[true],
            Protocol::Mix => &[false, true],
        };
        // Made once: what differs from message to message is the header.
        let kinds: Vec<(bool, Vec<u8>)> = protocols
            .iter()
            .flat_map(|&udp| self.sizes.iter().map(move |&size| (udp, size)))
            .map(|(udp, size)| (udp, firmware::example_message(udp, size)))
            .collect();
        let mtu = usize::from(self.mtu);
        let (mut next_id, mut next_seq) = (1_u16, 1_u32);
        (0..self.messages).zip((0..kinds.len()).cycle()).map(move |(_, kind)| {
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
            let room = mtu.saturating_sub(HEADERS).max(1);
            next_id = next_id.wrapping_add(payload.div_ceil(room) as u16);
            next_seq = next_seq.wrapping_add(payload as u32);
            bytes
        })
    }

    /// The load as messages that are ready from the beginning.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message> {
        // The example is what the model takes: nothing is left out.
        self.load().filter_map(|bytes| Message::new(bytes, Ps::ZERO).ok())
    }
}

/// Headers of a TCP message without options.
const HEADERS: usize = Ipv4::LEN + Tcp::LEN;
/// Its sequence number.
const SEQ: usize = Ipv4::LEN + 4;

/// A clock with a phase in millionths of its period.
pub(super) fn clock(hz: u64, phase: u64) -> Result<Clock, DesignError> {
    let period_ps = Ps::SECOND.0.checked_div(hz).unwrap_or(0);
    // Rounded down, it is below the period.
    let phase_ps = u128::from(period_ps) * u128::from(phase) / u128::from(PERIOD);
    Ok(Clock::new(hz, Ps(u64::try_from(phase_ps).unwrap_or(0)))?)
}
