//! The picture of ST 2110-20, by the headers of its packets (RFC 4175, section 4.2): lines, pixels of a line, and octets
//! of a pixel.
//!
//! A header has the length of a piece of a line in octets and its place in pixels. Where a line is in several pieces,
//! the place of the next one less that of the one before is the pixels of the one before. Octets per pixel leave one
//! or two of the samplings and depths of ST 2110-20; a session description would name it.

use super::payload::{Segment, Video};

/// Lines, pixels and octets of pixels, packet by packet.
#[derive(Debug, Clone, Default)]
pub struct Raster {
    last_line: u16,
    has_odd_lines: bool,
    /// The number of the last packet, and its last piece of a line.
    last: Option<(i64, Segment)>,
    density: Density,
    /// The piece that begins farthest right.
    rightmost: (u16, u16),
}

/// Octets in some pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Density {
    /// No line was in two pieces so far.
    #[default]
    Unknown,
    Known {
        octets: u32,
        pixels: u32,
    },
    /// Two pieces differ.
    Contradictory,
}

/// Components of a pixel, and bits of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// The name of ST 2110-20, without the components where the octets do not show them.
    pub name: &'static str,
    /// Bits of a component.
    pub depth: u8,
}

/// Why the headers do not show the pixels of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoWidth {
    /// No line was in two consecutive pieces.
    WholeLines,
    /// Pieces of lines have different octets per pixel.
    Contradictory,
}

const fn sampling(name: &'static str, depth: u8) -> Sampling {
    Sampling { name, depth }
}

/// Samplings with eighths of an octet per pixel (ST 2110-20, section 6.2: pixel groups).
const SAMPLINGS: [(u32, &[Sampling]); 10] = [
    (8, &[sampling("KEY", 8)]),
    (10, &[sampling("KEY", 10)]),
    (12, &[sampling("KEY", 12)]),
    (16, &[sampling("YCbCr-4:2:2", 8), sampling("KEY", 16)]),
    (20, &[sampling("YCbCr-4:2:2", 10)]),
    (24, &[sampling("YCbCr-4:2:2", 12), sampling("4:4:4", 8)]),
    (30, &[sampling("4:4:4", 10)]),
    (32, &[sampling("YCbCr-4:2:2", 16)]),
    (36, &[sampling("4:4:4", 12)]),
    (48, &[sampling("4:4:4", 16)]),
];
/// The same where packets name every other line, because their pixel groups are two lines high.
const OF_LINE_PAIRS: [(u32, &[Sampling]); 4] = [
    (24, &[sampling("YCbCr-4:2:0", 8)]),
    (30, &[sampling("YCbCr-4:2:0", 10)]),
    (36, &[sampling("YCbCr-4:2:0", 12)]),
    (48, &[sampling("YCbCr-4:2:0", 16)]),
];

impl Raster {
    /// Takes the packet with this number.
    pub fn push(&mut self, number: i64, video: &Video) {
        let before = self.last.filter(|(last, _)| last.checked_add(1) == Some(number));
        let mut before = before.map(|(_, segment)| segment);
        for segment in video.segments() {
            if let Some(before) = before {
                self.density = self.density.and(&before, segment);
            }
            before = Some(*segment);
            self.last_line = self.last_line.max(segment.line);
            self.has_odd_lines |= segment.line % 2 == 1;
            self.rightmost = self.rightmost.max((segment.offset, segment.octets));
        }
        self.last = before.map(|segment| (number, segment));
    }

    /// Lines of a frame, or of each of its fields.
    #[must_use]
    pub fn lines(&self) -> u32 {
        u32::from(self.last_line) + if self.has_line_pairs() { 2 } else { 1 }
    }

    /// Whether packets name every other line only.
    fn has_line_pairs(&self) -> bool {
        self.last_line > 0 && !self.has_odd_lines
    }

    /// Pixels of a line.
    ///
    /// # Errors
    ///
    /// The headers do not show them.
    pub fn width(&self) -> Result<u32, NoWidth> {
        let (octets, pixels) = match self.density {
            Density::Unknown => return Err(NoWidth::WholeLines),
            Density::Contradictory => return Err(NoWidth::Contradictory),
            Density::Known { octets, pixels } => (octets, pixels),
        };
        let (offset, last) = self.rightmost;
        Ok(u32::from(offset) + u32::from(last) * pixels / octets.max(1))
    }

    /// The samplings that have these octets per pixel; none where they are not known, or no sampling has them.
    #[must_use]
    pub fn samplings(&self) -> &'static [Sampling] {
        let Density::Known { octets, pixels } = self.density else { return &[] };
        let known = if self.has_line_pairs() { &OF_LINE_PAIRS[..] } else { &SAMPLINGS[..] };
        let found = known.iter().find(|(eighths, _)| octets * 8 == eighths * pixels);
        found.map_or(&[], |(_, samplings)| samplings)
    }
}

impl Density {
    /// With two pieces, one sent after the other.
    fn and(self, before: &Segment, next: &Segment) -> Self {
        let is_next = (before.line, before.second_field) == (next.line, next.second_field)
            && next.offset > before.offset
            && before.octets > 0;
        if !is_next {
            return self;
        }
        let (octets, pixels) = (u32::from(before.octets), u32::from(next.offset - before.offset));
        match self {
            Self::Unknown => Self::Known { octets, pixels },
            Self::Known { octets: o, pixels: p } if o * pixels != octets * p => Self::Contradictory,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A packet with these pieces: octets, line, offset.
    fn packet(pieces: &[(u16, u16, u16)]) -> Video {
        let mut payload = alloc::vec![0, 0];
        for (at, (octets, line, offset)) in pieces.iter().enumerate() {
            let more = if at + 1 < pieces.len() { 0x8000 } else { 0 };
            payload.extend([*octets, *line, *offset | more].iter().flat_map(|w| w.to_be_bytes()));
        }
        let octets: u16 = pieces.iter().map(|piece| piece.0).sum();
        Video::read(&payload, payload.len() + usize::from(octets)).unwrap()
    }

    fn raster(packets: &[Vec<(u16, u16, u16)>]) -> Raster {
        let mut raster = Raster::default();
        for (number, pieces) in packets.iter().enumerate() {
            raster.push(number as i64, &packet(pieces));
        }
        raster
    }

    #[test]
    fn hd_with_ten_bits() {
        let lines = (0..1_080_u16).flat_map(|line| (0..4).map(move |n| (1_200, line, 480 * n)));
        let found = raster(&lines.map(|piece| alloc::vec![piece]).collect::<Vec<_>>());
        assert_eq!((found.width(), found.lines()), (Ok(1_920), 1_080));
        assert_eq!(found.samplings(), [sampling("YCbCr-4:2:2", 10)]);
    }

    #[test]
    fn pieces_of_a_packet_count_too() {
        // 720 pixels of 3 octets: the second packet has the end of a line and the start of the next.
        let found = raster(&[
            alloc::vec![(1_200, 0, 0)],
            alloc::vec![(960, 0, 400), (240, 1, 0)],
            alloc::vec![(1_200, 1, 80)],
        ]);
        assert_eq!((found.width(), found.lines()), (Ok(720), 2));
        let both = [sampling("YCbCr-4:2:2", 12), sampling("4:4:4", 8)];
        assert_eq!(found.samplings(), both);
    }

    #[test]
    fn line_pairs_are_4_2_0() {
        let lines = (0..540_u16).flat_map(|n| (0..6).map(move |x| (1_200, 2 * n, 320 * x)));
        let found = raster(&lines.map(|piece| alloc::vec![piece]).collect::<Vec<_>>());
        assert_eq!((found.width(), found.lines()), (Ok(1_920), 1_080));
        assert_eq!(found.samplings(), [sampling("YCbCr-4:2:0", 10)]);
    }

    #[test]
    fn headers_that_do_not_show_the_width() {
        let whole = raster(&[alloc::vec![(1_200, 0, 0)], alloc::vec![(1_200, 1, 0)]]);
        assert_eq!((whole.width(), whole.samplings()), (Err(NoWidth::WholeLines), &[][..]));
        let odd = raster(&[
            alloc::vec![(1_200, 0, 0)],
            alloc::vec![(1_200, 0, 480)],
            alloc::vec![(1_200, 0, 900)],
        ]);
        assert_eq!(odd.width(), Err(NoWidth::Contradictory));
        // A lost packet between them says nothing.
        let mut lost = Raster::default();
        lost.push(1, &packet(&[(1_200, 0, 0)]));
        lost.push(3, &packet(&[(1_200, 0, 960)]));
        assert_eq!(lost.width(), Err(NoWidth::WholeLines));
    }
}
