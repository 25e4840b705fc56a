//! Presets of known media streams: packet interval, packet length and headers.
//!
//! ST 2022-6 carries the whole SDI signal: a frame is total width × total height × 20 bits, divided
//! into pieces of 1,376 octets, evenly spaced over the frame's time. ST 2110-20 carries the active
//! picture only; a *gapped* sender pauses in the blanking lines (ST 2110-21, narrow), a *linear*
//! one does not. ST 2110-30 carries audio in packets of 1 ms or 125 µs.

/// Picoseconds per second.
const SECOND_PS: u128 = 1_000_000_000_000;

/// A preset stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Its name: `st2022-6:1080i59.94`.
    pub name: &'static str,
    /// Picoseconds between packets of a frame.
    pub period_ps: u64,
    /// Additional picoseconds between the last packet of a frame and the first one of the next.
    pub gap_ps: u64,
    /// Bytes of the UDP payload, RTP header included.
    pub payload_len: usize,
    /// Headers before the payload.
    pub headers: Headers,
}

/// The headers written before the payload of each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headers {
    /// RTP payload type.
    pub payload_type: u8,
    /// RTP clock rate in Hz.
    pub clock_hz: u32,
    /// Packets per frame, at least 1; the last one carries the marker bit.
    pub frame_packets: u32,
    /// The two words of the ST 2022-6 payload header with frame number 0; `None` for other streams.
    pub st2022_6: Option<[u32; 2]>,
}

/// All presets.
pub const PRESETS: [Preset; 24] = [
    st2022_6("st2022-6:1080i59.94", [30_000, 1_001], 4_497, [0x20, 0x17]),
    st2022_6("st2022-6:1080i60", [30, 1], 4_497, [0x20, 0x16]),
    st2022_6("st2022-6:1080i50", [25, 1], 5_397, [0x20, 0x18]),
    st2022_6("st2022-6:1080p29.97", [30_000, 1_001], 4_497, [0x21, 0x17]),
    st2022_6("st2022-6:1080p30", [30, 1], 4_497, [0x21, 0x16]),
    st2022_6("st2022-6:1080p25", [25, 1], 5_397, [0x21, 0x18]),
    st2022_6("st2022-6:1080p60", [60, 1], 4_497, [0x21, 0x10]),
    st2022_6("st2022-6:1080p59.94", [60_000, 1_001], 4_497, [0x21, 0x11]),
    st2022_6("st2022-6:1080p50", [50, 1], 5_397, [0x21, 0x12]),
    st2022_6("st2022-6:720p59.94", [60_000, 1_001], 2_249, [0x30, 0x11]),
    st2022_6("st2022-6:720p60", [60, 1], 2_249, [0x30, 0x10]),
    st2022_6("st2022-6:720p50", [50, 1], 2_699, [0x30, 0x12]),
    linear("st2110-20:1080p59.94", [60_000, 1_001], 4_320),
    linear("st2110-20:1080p60", [60, 1], 4_320),
    linear("st2110-20:1080p50", [50, 1], 4_320),
    linear("st2110-20:720p59.94", [60_000, 1_001], 1_920),
    linear("st2110-20:2160p59.94", [60_000, 1_001], 17_280),
    gapped("st2110-20:1080p59.94-gapped", [60_000, 1_001], 4_320, [1_080, 1_125]),
    gapped("st2110-20:1080p50-gapped", [50, 1], 4_320, [1_080, 1_125]),
    gapped("st2110-20:720p59.94-gapped", [60_000, 1_001], 1_920, [720, 750]),
    sound("st2110-30:1ms-2ch", 48, 2),
    sound("st2110-30:1ms-8ch", 48, 8),
    sound("st2110-30:125us-2ch", 6, 2),
    sound("st2110-30:125us-8ch", 6, 8),
];

impl Preset {
    /// The preset with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }
}

impl Headers {
    /// Writes the headers of packet `sequence`, due `offset_ps` after the first one, into the first
    /// bytes of a payload.
    pub fn write(&self, sequence: u64, offset_ps: u128, payload: &mut [u8; 20]) {
        let frame = sequence / u64::from(self.frame_packets.max(1));
        let is_last = sequence.wrapping_add(1).is_multiple_of(self.frame_packets.max(1).into());
        // RFC 3550, 5.1: version 2; marker and payload type; sequence number and time stamp wrap.
        payload[0] = 0x80;
        payload[1] = u8::from(is_last) << 7 | self.payload_type & 0x7F;
        payload[2..4].copy_from_slice(&(sequence as u16).to_be_bytes());
        let ticks = offset_ps.wrapping_mul(self.clock_hz.into()) / SECOND_PS;
        payload[4..8].copy_from_slice(&(ticks as u32).to_be_bytes());
        payload[8..12].copy_from_slice(&SSRC.to_be_bytes());
        if let Some([first, second]) = self.st2022_6 {
            // ST 2022-6, 6.3: frame number modulo 256.
            let first = first | u32::from(frame as u8) << 16;
            payload[12..16].copy_from_slice(&first.to_be_bytes());
            payload[16..20].copy_from_slice(&second.to_be_bytes());
        }
    }
}

/// "LCJ1", like the probe's magic number; any value will do.
const SSRC: u32 = 0x4C43_4A31;

/// Period of `packets` packets in a frame of `rate[1] / rate[0]` seconds, rounded to nearest.
const fn period_ps(rate: [u32; 2], packets: u32) -> u64 {
    let parts = rate[0] as u128 * packets as u128;
    ((rate[1] as u128 * SECOND_PS + parts / 2) / parts) as u64
}

/// `codes` are FRAME and FRATE of ST 2022-6, 6.3.
const fn st2022_6(name: &'static str, rate: [u32; 2], packets: u32, codes: [u32; 2]) -> Preset {
    // F = 1: a video format field follows. Direct mapping; SAMPLE = 1: 4:2:2, 10 bit.
    let words = [1 << 27, codes[0] << 20 | codes[1] << 12 | 1 << 8];
    Preset {
        name,
        period_ps: period_ps(rate, packets),
        gap_ps: 0,
        payload_len: 1_376 + 20,
        headers: Headers {
            payload_type: 98,
            clock_hz: 27_000_000,
            frame_packets: packets,
            st2022_6: Some(words),
        },
    }
}

/// Packets of 1,200 bytes of pixels, which are 480 of 4:2:2 in 10 bits, behind 8 bytes of headers.
const fn linear(name: &'static str, rate: [u32; 2], packets: u32) -> Preset {
    let headers =
        Headers { payload_type: 96, clock_hz: 90_000, frame_packets: packets, st2022_6: None };
    let period_ps = period_ps(rate, packets);
    Preset { name, period_ps, gap_ps: 0, payload_len: 1_200 + 20, headers }
}

/// The same, sent only during the `lines[0]` active lines out of `lines[1]`.
const fn gapped(name: &'static str, rate: [u32; 2], packets: u32, lines: [u32; 2]) -> Preset {
    let whole = linear(name, rate, packets);
    let period_ps = whole.period_ps * lines[0] as u64 / lines[1] as u64;
    // The pause that completes the frame's time.
    let gap_ps = (whole.period_ps - period_ps) * packets as u64;
    Preset { period_ps, gap_ps, ..whole }
}

/// Linear samples of 24 bits at 48 kHz.
const fn sound(name: &'static str, samples: u32, channels: usize) -> Preset {
    Preset {
        name,
        period_ps: period_ps([48_000, samples], 1),
        gap_ps: 0,
        payload_len: 12 + samples as usize * channels * 3,
        headers: Headers { payload_type: 97, clock_hz: 48_000, frame_packets: 1, st2022_6: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::probe::MIN_LEN;

    #[test]
    fn periods_are_those_of_the_papers() {
        let period = |name| Preset::named(name).unwrap().period_ps;
        assert_eq!(period("st2022-6:1080i59.94"), 7_419_761);
        assert_eq!(period("st2022-6:1080i60"), 7_412_349);
        assert_eq!(period("st2022-6:1080i50"), 7_411_525);
        assert_eq!(period("st2022-6:1080p59.94"), 3_709_881);
        assert_eq!(period("st2110-30:125us-8ch"), 125_000_000);
        assert_eq!(Preset::named("st2022-6"), None);
    }

    /// ST 2022-6, 6.2: total width × total height × 20 bits in pieces of 1,376 octets.
    #[test]
    fn packets_of_a_frame_are_computed() {
        let sizes = [
            (["1080i59.94", "1080p59.94"], 2_200, 1_125),
            (["1080i50", "1080p25"], 2_640, 1_125),
            (["720p59.94", "720p60"], 1_650, 750),
            (["720p50", "720p50"], 1_980, 750),
        ];
        for (names, width, height) in sizes {
            let octets: u32 = width * height * 20 / 8;
            for name in names {
                let preset = Preset::named(&format!("st2022-6:{name}")).unwrap();
                assert_eq!(preset.headers.frame_packets, octets.div_ceil(1_376), "{name}");
            }
        }
    }

    #[test]
    fn names_are_there_once() {
        for preset in &PRESETS {
            assert_eq!(Preset::named(preset.name), Some(preset));
        }
    }

    #[test]
    fn a_gapped_frame_takes_its_time() {
        let [whole, gapped] = ["st2110-20:1080p50", "st2110-20:1080p50-gapped"]
            .map(|name| Preset::named(name).unwrap());
        assert_eq!(whole.period_ps * 4_320, gapped.period_ps * 4_320 + gapped.gap_ps);
        assert!(gapped.gap_ps > 20_000_000_000 * 39 / 1_000);
    }

    #[test]
    fn every_preset_has_room_for_a_probe() {
        assert!(PRESETS.iter().all(|preset| preset.payload_len >= MIN_LEN));
    }

    #[test]
    fn headers_are_rtp() {
        let mut payload = [0; 20];
        PRESETS[0].headers.write(4_496, 33_366_666_666, &mut payload);
        assert_eq!(payload[..4], [0x80, 0x80 | 98, 0x11, 0x90]);
        assert_eq!(payload[4..8], 900_899_u32.to_be_bytes());
        assert_eq!(payload[12..20], [0x08, 0, 0, 0, 0x02, 0x01, 0x71, 0]);
        PRESETS[0].headers.write(u64::MAX - 1, u128::MAX, &mut payload);
    }
}
