//! A transfer over several lanes as the simulation takes it, and what follows from it before it runs.

use super::Config;
use linecard_transfer::control::Mode;
use linecard_transfer::fec::{Repair, Scheme};
use linecard_transfer::lane::{Congestion, LaneSettings};
use linecard_transfer::layout::{Layout, LayoutError};
use linecard_transfer::receive::MAX_WINDOW;
use linecard_transfer::send::SendSettings;
use linecard_transfer::sim::{DeviceSettings, Faults, LinkSettings, Settings};
use linecard_transfer::wire::OVERHEAD_BYTES;

/// Allowed in flight beyond 1.25 round-trip times, in ns of the rate: hosts in virtual time are never
/// late, acknowledgments wait for 32 packets at most.
const SLACK_NS: u64 = 2_000_000;

/// Packets of a run, repair included: some ten seconds.
pub const MAX_PACKETS: u64 = 10_000_000;

/// Memory of a receiver for chunks, as with `linecard recv` without `--memory`.
const MEMORY_BYTES: u64 = 512 << 20;

/// A transfer over several lanes, in the units of the simulation: see [`super::Config`].
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Of each lane, in bit/s, framing included; 1 to 64.
    pub rates_bits_per_second: Vec<u64>,
    /// How chunks are spread.
    pub mode: Mode,
    /// Repair of lost packets.
    pub fec: Repair,
    /// Chunks to send.
    pub chunks: u64,
    /// Of them at once.
    pub under_way: u32,
    /// Of each.
    pub chunk_bytes: u32,
    /// Data of a packet.
    pub payload_bytes: u32,
    /// On the line, beside data, header and seal.
    pub framing_bytes: u32,
    /// Of a lane, one way.
    pub delay_ns: u64,
    /// How a lane finds its rate, if it does not know it.
    pub congestion: Option<Congestion>,
    /// Queue of a lane that has to find its rate.
    pub queue_ns: u64,
    /// Time that the sender's host spends on starting a chunk on a lane.
    pub begin_ns: u64,
    /// Devices that all packets pass.
    pub device: Option<Passed>,
    /// Faults of each lane.
    pub faults: Faults,
    /// Of everything that is random.
    pub seed: u64,
}

/// A device that all packets pass, there and back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passed {
    /// Of the link of each lane to it, in bit/s.
    pub link_bits_per_second: u64,
    /// Of that link, one way.
    pub delay_ns: u64,
    /// That it computes for all lanes, in bit/s.
    pub rate_bits_per_second: u64,
    /// From a packet's last bit in to its first bit out.
    pub time_ns: u64,
}

impl Default for Spec {
    fn default() -> Self {
        Config::default().unchecked()
    }
}

/// The name of a mode, for people.
#[must_use]
pub const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Stable => "stable",
        Mode::LowLatency => "low latency",
        Mode::Auto => "auto",
    }
}

impl Spec {
    /// Packets of a run without loss, repair included.
    ///
    /// # Errors
    ///
    /// Chunks that cannot be divided.
    pub fn packets(&self) -> Result<u64, LayoutError> {
        let layout = Layout::new(self.chunk_bytes, self.payload_bytes, self.fec.scheme())?;
        Ok(self.chunks * u64::from(layout.slots()))
    }

    /// The same for the simulation.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let known = self.congestion.is_none();
        let lane = LaneSettings {
            congestion: self.congestion.unwrap_or_default(),
            framing_bytes: self.framing_bytes,
            datagram_bytes: self.payload_bytes + OVERHEAD_BYTES as u32,
            quantum_ns: 0,
            slack_ns: SLACK_NS,
            ..LaneSettings::default()
        };
        let link = LinkSettings {
            framing_bytes: self.framing_bytes,
            delay_ns: self.delay_ns,
            faults: self.faults,
            ..LinkSettings::default()
        };
        let of_rate = |&rate_bits_per_second: &u64| {
            let lane = LaneSettings {
                rate_bits_per_second: if known { rate_bits_per_second } else { 0 },
                ..lane
            };
            let queue_bytes = (!known).then(|| self.queue_bytes(rate_bits_per_second));
            (lane, LinkSettings { rate_bits_per_second, queue_bytes, ..link.clone() })
        };
        let send = SendSettings {
            payload_bytes: self.payload_bytes,
            mode: self.mode,
            fec: self.fec,
            under_way: self.under_way,
            ..SendSettings::default()
        };
        let (chunk, fec) = (u64::from(self.chunk_bytes), self.fec.scheme());
        let [data, repair] = [fec.data_packets(), fec.repair_packets()].map(|count| count as u64);
        let memory = chunk + (chunk * repair).div_ceil(data.max(1));
        // Two for each lane in any case: with 64 lanes, a receiver has to be given more memory.
        let window =
            (MEMORY_BYTES / memory).max(2 * self.rates_bits_per_second.len() as u64) as u32;
        Settings {
            lanes: self.rates_bits_per_second.iter().map(of_rate).collect(),
            window: window.min(MAX_WINDOW),
            send,
            chunks: self.chunks as u32,
            chunk_bytes: self.chunk_bytes,
            last_bytes: self.chunk_bytes,
            begin_ns: self.begin_ns,
            device: self.device_settings(),
            seed: self.seed,
            ..Settings::default()
        }
    }

    fn queue_bytes(&self, rate_bits_per_second: u64) -> u64 {
        let bytes = u128::from(rate_bits_per_second) * u128::from(self.queue_ns) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    fn device_settings(&self) -> Option<DeviceSettings> {
        let device = self.device?;
        let link = LinkSettings {
            rate_bits_per_second: device.link_bits_per_second,
            framing_bytes: self.framing_bytes,
            delay_ns: device.delay_ns,
            ..LinkSettings::default()
        };
        Some(DeviceSettings {
            link,
            rate_bits_per_second: device.rate_bits_per_second,
            time_ns: device.time_ns,
        })
    }

    /// Time of a full packet through the devices of both ends, if nothing is before it, in ns.
    #[must_use]
    pub fn device_trips_ns(&self) -> Option<u64> {
        let bytes = self.payload_bytes + OVERHEAD_BYTES as u32;
        Some(2 * self.device_settings()?.round_trip_ns(bytes))
    }

    /// Rate of all lanes together, framing included, in bit/s.
    #[must_use]
    pub fn line_bits_per_second(&self) -> f64 {
        self.rates_bits_per_second.iter().map(|rate| *rate as f64).sum()
    }

    /// The framing bound: the rate of data if packets leave without a gap, in bit/s.
    ///
    /// # Errors
    ///
    /// Chunks that cannot be divided.
    pub fn framing_bound_bits_per_second(&self) -> Result<f64, LayoutError> {
        self.bound_bits_per_second(Scheme::NONE)
    }

    /// The same when repair is sent too, as far as it is sent in any case.
    ///
    /// # Errors
    ///
    /// Chunks that cannot be divided.
    pub fn repair_bound_bits_per_second(&self) -> Result<f64, LayoutError> {
        self.bound_bits_per_second(match self.fec {
            Repair::Fixed(scheme) => scheme,
            Repair::Auto => Scheme::NONE,
        })
    }

    fn bound_bits_per_second(&self, fec: Scheme) -> Result<f64, LayoutError> {
        let layout = Layout::new(self.chunk_bytes, self.payload_bytes, fec)?;
        let repair: u64 = (0..layout.groups())
            .map(|group| u64::from(layout.repair() * layout.repair_bytes(group)))
            .sum();
        let data = u64::from(self.chunk_bytes);
        let beside = OVERHEAD_BYTES as u64 + u64::from(self.framing_bytes);
        let line = data + repair + u64::from(layout.slots()) * beside;
        Ok(self.line_bits_per_second() * data as f64 / line as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lanes that find their rates carry what each of them has, the slow one too.
    #[test]
    fn lanes_of_different_rates_carry_what_each_has() {
        let rates_bits_per_second = vec![200_000_000, 200_000_000, 200_000_000, 50_000_000];
        for congestion in [None, Some(Congestion::Bbr)] {
            let spec = Spec {
                rates_bits_per_second: rates_bits_per_second.clone(),
                congestion,
                chunks: 24,
                payload_bytes: 1_408,
                queue_ns: 50_000_000,
                ..Spec::default()
            };
            let outcome = linecard_transfer::sim::run(&spec.settings()).expect("it completes");
            let bound = spec.framing_bound_bits_per_second().expect("a layout");
            let share = outcome.goodput_bits_per_second() / bound;
            assert!((0.95..=1.0).contains(&share), "{congestion:?}: {share}");
            let bytes: Vec<u64> = outcome.lanes.iter().map(|lane| lane.line_bytes).collect();
            let slow = bytes[3] as f64 / bytes[0] as f64;
            assert!((0.2..0.32).contains(&slow), "{bytes:?}");
        }
    }

    #[test]
    fn bounds_are_what_framing_and_repair_leave() {
        let bound = Spec::default().framing_bound_bits_per_second().expect("a layout");
        assert!((bound - 80e9 * 4_096.0 / 4_174.0).abs() < 1.0, "{bound}");
        // 103 groups of at most 40: 4199 packets for 4096.
        let fec = Repair::Fixed(Scheme::xor(40).expect("a scheme"));
        let repaired =
            Spec { fec, ..Spec::default() }.repair_bound_bits_per_second().expect("a layout");
        assert!((repaired / bound - 4_096.0 / 4_199.0).abs() < 1e-9, "{repaired}");
    }
}
