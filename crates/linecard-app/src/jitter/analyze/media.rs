//! The format of a stream by its packets, and levels of buffers.

use super::outcome::ListedFlow;
use linecard_jitter::media::facts::{self, Facts, Spread};
use linecard_jitter::media::figures::Figures;
use linecard_jitter::media::flow::Kind;
use linecard_jitter::media::st2022_6::Scan;
use linecard_jitter::media::st2110::raster::{self, NoWidth};
use linecard_jitter::media::st2110::sound;
use linecard_report::Value;
use schemars::JsonSchema;
use serde::Serialize;

/// Levels shown one by one.
const SHOWN_LEVELS: usize = 4;
/// Levels in JSON: a stream that fits no schedule has as many as packets.
const MAX_LEVELS: usize = 1_000;

/// The format of an ST 2110 stream, as far as packets show it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Media {
    /// picture
    pub picture: Option<Picture>,
    /// sampling
    pub sampling: Option<Sampling>,
    /// frames per second
    pub rate: Option<f64>,
    /// packets of a frame
    pub unit_packets: Option<CountRange>,
    /// octets of a packet
    pub packet_octets: Option<CountRange>,
    /// TRO of first packets
    pub offset: Option<TimeSpread>,
    /// TRO, default
    pub default_offset: Option<Offset>,
    /// behind time stamps
    pub behind: Option<TimeSpread>,
    /// channels
    pub channels: Option<Channels>,
    /// damaged ANC data
    pub damaged: Option<u64>,
    #[serde(skip)]
    has_fields: bool,
}

/// Pixels and lines, and how lines are sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Picture {
    /// Pixels of a line, where the headers show them.
    pub width: Option<u32>,
    /// Lines of a frame.
    pub height: u32,
    /// "progressive", "interlaced" or "psf".
    pub scan: &'static str,
    /// Why the width is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_width: Option<&'static str>,
}

/// Components and bits of a pixel: one value of each, or more where octets per pixel leave them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sampling {
    /// Names of ST 2110-20.
    pub names: Vec<&'static str>,
    /// Bits of a component of each.
    pub depths: Vec<u8>,
}

/// The least and the most of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CountRange {
    /// The least.
    pub min: u64,
    /// The most.
    pub max: u64,
}

/// The least, the mean and the most of some times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TimeSpread {
    /// The least.
    pub min_ns: f64,
    /// The mean.
    pub mean_ns: f64,
    /// The most.
    pub max_ns: f64,
    /// How many times these are.
    pub count: u64,
}

/// The default of an offset, to the nanosecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Offset {
    /// In nanoseconds.
    pub ns: u64,
}

/// Channels and bits of a sample: one value of each, or more where packets leave them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Channels {
    /// Channels.
    pub counts: Vec<u32>,
    /// Bits of a sample for each.
    pub bits: Vec<u8>,
    #[serde(skip)]
    is_am824: bool,
}

/// How many packets met each level of a buffer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Levels {
    /// Levels from the lowest on, each with its packets.
    pub levels: Vec<(i64, u64)>,
    /// Packets that met another level, where there are more than 1,000: those above are the most frequent then.
    pub others: u64,
    /// The lowest and the highest.
    #[serde(skip)]
    ends: (i64, i64),
}

impl Media {
    /// The facts of a stream of ST 2110; `None` for others.
    pub(super) fn new(figures: &Figures) -> Option<Self> {
        let facts = &figures.facts;
        facts.packet_octets?;
        let count = |(min, max): (u64, u64)| CountRange { min, max };
        let is_sound = matches!(figures.kind, Kind::Audio | Kind::Am824);
        let default_offset = figures.vrx.and_then(|vrx| vrx.default_offset_ns);
        Some(Self {
            picture: facts.picture.map(Picture::new),
            sampling: facts.picture.and_then(Sampling::new),
            rate: facts.rate.map(|rate| f64::from(rate.frames) / f64::from(rate.seconds)),
            unit_packets: facts.unit_packets.map(count),
            packet_octets: facts.packet_octets.map(|(min, max)| count((min.into(), max.into()))),
            offset: facts.offsets.map(TimeSpread::new),
            default_offset: default_offset.map(|ns| Offset { ns }),
            behind: facts.behind.map(TimeSpread::new),
            channels: is_sound.then(|| Channels::new(figures)).flatten(),
            damaged: facts.damaged,
            has_fields: facts.has_fields,
        })
    }

    pub(super) fn label(&self, key: &str) -> Option<String> {
        let label = match key {
            "rate" if self.has_fields => "fields per second",
            "unit_packets" if self.has_fields => "packets of a field",
            _ => return None,
        };
        Some(label.to_owned())
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        match key {
            "picture" => self.picture.as_ref().map(Picture::text),
            "sampling" => self.sampling.as_ref().map(Sampling::text),
            "unit_packets" => self.unit_packets.map(CountRange::text),
            "packet_octets" => {
                self.packet_octets.map(|range| format!("{} (UDP payload)", range.text()))
            }
            "offset" => self.offset.map(TimeSpread::text),
            "default_offset" => {
                self.default_offset.map(|Offset { ns }| format!("{:.3} µs", ns as f64 / 1_000.0))
            }
            "behind" => self.behind.map(TimeSpread::text),
            "channels" => self.channels.as_ref().map(Channels::text),
            _ => None,
        }
    }
}

impl Picture {
    fn new(picture: facts::Picture) -> Self {
        let scan = match picture.scan {
            Scan::Interlaced if picture.is_segmented => "psf",
            Scan::Interlaced => "interlaced",
            Scan::Progressive => "progressive",
        };
        let no_width = picture.width.err().map(|why| match why {
            NoWidth::WholeLines => "no line is in two consecutive pieces",
            NoWidth::Contradictory => "pieces of lines have different octets per pixel",
        });
        Self { width: picture.width.ok(), height: picture.height, scan, no_width }
    }

    fn text(&self) -> String {
        let Self { height, scan, .. } = self;
        match (self.width, self.no_width) {
            (Some(width), _) => format!("{width} × {height}, {scan}"),
            (None, why) => {
                let why = why.unwrap_or("not in the headers");
                format!("{height} lines, {scan}; width and sampling not known: {why}")
            }
        }
    }
}

impl Sampling {
    fn new(picture: facts::Picture) -> Option<Self> {
        let all = || picture.samplings.iter();
        (!picture.samplings.is_empty()).then(|| Self {
            names: all().map(|raster::Sampling { name, .. }| *name).collect(),
            depths: all().map(|raster::Sampling { depth, .. }| *depth).collect(),
        })
    }

    fn text(&self) -> String {
        let one = |(name, depth): (&&str, &u8)| format!("{name}, {depth} bits");
        let all: Vec<String> = self.names.iter().zip(&self.depths).map(one).collect();
        all.join(", or ")
    }
}

impl CountRange {
    fn text(self) -> String {
        let [min, max] = [self.min, self.max].map(|count| Value::Count(count).to_string());
        if min == max { min } else { format!("{min} to {max}") }
    }
}

impl TimeSpread {
    fn new(spread: Spread) -> Self {
        let Spread { min_ns, mean_ns, max_ns, count } = spread;
        Self { min_ns, mean_ns, max_ns, count }
    }

    /// To the nanosecond: clocks are compared by it.
    fn text(self) -> String {
        let [min, mean, max] = [self.min_ns, self.mean_ns, self.max_ns].map(|ns| ns / 1_000.0);
        if self.min_ns == self.max_ns {
            return format!("{min:.3} µs");
        }
        format!("{min:.3} to {max:.3} µs, mean {mean:.3} µs")
    }
}

impl Channels {
    fn new(figures: &Figures) -> Option<Self> {
        let all = || figures.facts.channels.iter();
        (!figures.facts.channels.is_empty()).then(|| Self {
            counts: all().map(|sound::Channels { count, .. }| *count).collect(),
            bits: all().map(|sound::Channels { bits, .. }| *bits).collect(),
            is_am824: figures.kind == Kind::Am824,
        })
    }

    fn text(&self) -> String {
        if self.is_am824 {
            let counts = self.counts.first().copied().unwrap_or_default();
            return format!("{counts}, AES3 subframes of 32 bits (24 bits of data)");
        }
        let one = |(count, bits): (&u32, &u8)| format!("{count} of {bits} bits");
        let all: Vec<String> = self.counts.iter().zip(&self.bits).map(one).collect();
        all.join(", or ")
    }
}

impl Levels {
    pub(super) fn new(levels: impl Iterator<Item = (i64, u64)>) -> Option<Self> {
        let mut levels: Vec<(i64, u64)> = levels.collect();
        let ends = (levels.first()?.0, levels.last()?.0);
        let mut others = 0;
        if levels.len() > MAX_LEVELS {
            levels.sort_unstable_by_key(|(_, packets)| std::cmp::Reverse(*packets));
            others = levels.drain(MAX_LEVELS..).map(|(_, packets)| packets).sum();
            levels.sort_unstable();
        }
        Some(Self { levels, others, ends })
    }

    /// Some levels with their shares, or the range of many with the most frequent one.
    pub(super) fn text(&self) -> String {
        let all = self.others + self.levels.iter().map(|(_, packets)| packets).sum::<u64>();
        let share = |packets: u64| format!("{:.2} %", packets as f64 * 100.0 / all.max(1) as f64);
        let one = |(level, packets): &(i64, u64)| format!("{level}: {}", share(*packets));
        if self.levels.len() <= SHOWN_LEVELS {
            return self.levels.iter().map(one).collect::<Vec<String>>().join(", ");
        }
        let most = self.levels.iter().max_by_key(|(_, packets)| *packets);
        let ((low, high), Some(most)) = (self.ends, most) else { return String::new() };
        format!("{low} to {high}, most often {}", one(most))
    }
}

/// The kinds of ANC data packets.
pub(super) fn ancillary(facts: &Facts) -> Vec<ListedFlow> {
    let one = |(kind, packets): &(linecard_jitter::media::st2110::anc::Kind, u64)| {
        let name = kind.name().map(|name| format!(" ({name})")).unwrap_or_default();
        ListedFlow {
            label: format!("line {}", kind.line),
            value: format!(
                "DID {:#04x}, SDID {:#04x}{name}: {} of them",
                kind.did,
                kind.sdid,
                Value::Count(*packets)
            ),
        }
    };
    facts.ancillary.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_levels_are_bounded() {
        let most = |level| if level == 7 { 50 } else { 1 };
        let levels = Levels::new((-2_000..5_000).map(|level| (level, most(level)))).unwrap();
        let kept: u64 = levels.levels.iter().map(|(_, packets)| packets).sum();
        assert_eq!((levels.levels.len(), kept + levels.others), (MAX_LEVELS, 7_049));
        assert!(levels.levels.is_sorted() && levels.levels.contains(&(7, 50)));
        assert_eq!(levels.text(), "-2000 to 4999, most often 7: 0.71 %");
    }
}
