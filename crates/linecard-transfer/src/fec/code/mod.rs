//! Encoder and decoder of a scheme.

use super::cauchy::{Losses, Weights, factor, repair_point};
use super::kernel::{Kernel, Product, ROWS_AT_ONCE};
use super::{MAX_GROUP, Scheme};
use alloc::vec::Vec;
use core::hint::black_box;

/// Encoder and decoder of one scheme, its factors prepared. Neither allocates per group.
///
/// ```
/// use linecard_transfer::fec::{Code, Piece, RepairPacket, Scheme};
/// let code = Code::new(Scheme::reed_solomon(3, 2)?);
/// let (mut first, mut second) = ([0; 4], [0; 4]);
/// code.encode(&[b"lost", b"here", b"too"], &mut [&mut first, &mut second])?;
///
/// let (mut lost, mut too) = ([0; 4], [0; 3]);
/// let mut data = [Piece::Missing(&mut lost), Piece::Present(b"here"), Piece::Missing(&mut too)];
/// let repair = [RepairPacket { row: 1, bytes: &second }, RepairPacket { row: 0, bytes: &first }];
/// assert_eq!(code.repair(&mut data, &repair)?, 2);
/// assert_eq!((&lost, &too), (b"lost", b"too"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Code {
    scheme: Scheme,
    kernel: Kernel,
    /// The factor of each data packet of a group in each repair packet.
    factors: Vec<u8>,
}

/// A data packet of a group with losses.
#[derive(Debug)]
pub enum Piece<'a> {
    /// It arrived.
    Present(&'a [u8]),
    /// It is lost: the buffer for it, as long as the packet.
    Missing(&'a mut [u8]),
}

/// A repair packet that arrived.
#[derive(Debug, Clone, Copy)]
pub struct RepairPacket<'a> {
    /// Which of the group's repair packets, from 0.
    pub row: usize,
    /// Its bytes, as many as the group's longest packet has.
    pub bytes: &'a [u8],
}

/// Why a group was neither encoded nor repaired. No buffer has been written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// More data packets than a group has.
    #[error("data packet {index} of a group: {scheme} has {}, from 0", scheme.data_packets())]
    NoSuchData {
        /// The greatest index.
        index: usize,
        /// The scheme in use.
        scheme: Scheme,
    },
    /// The number of buffers differs from the scheme's number of repair packets.
    #[error("{count} buffers for repair packets: give {} for {scheme}", scheme.repair_packets())]
    RepairCount {
        /// Buffers given.
        count: usize,
        /// The scheme in use.
        scheme: Scheme,
    },
    /// Repair packets of different lengths.
    #[error(
        "repair packets of {len} and {other} bytes in one group: all have the longest's length"
    )]
    RepairLengths {
        /// Bytes of the first.
        len: usize,
        /// Bytes of another.
        other: usize,
    },
    /// A data packet that is longer than its group's repair packets.
    #[error("data packet of {len} bytes beside repair packets of {limit}: it may not be longer")]
    TooLong {
        /// Bytes of the data packet.
        len: usize,
        /// Bytes of the repair packets.
        limit: usize,
    },
    /// A repair packet that the scheme does not have.
    #[error("repair packet {row} of a group: {scheme} has {}, from 0", scheme.repair_packets())]
    NoSuchRow {
        /// The row given.
        row: usize,
        /// The scheme in use.
        scheme: Scheme,
    },
    /// A repair packet was given twice.
    #[error("repair packet {row} is given twice: drop duplicates before")]
    RowTwice {
        /// The row given.
        row: usize,
    },
    /// More data packets are lost than repair packets are given.
    #[error("{missing} data packets are lost and {repair} repair packets are there: ask again")]
    NotEnough {
        /// Data packets lost.
        missing: usize,
        /// Repair packets there.
        repair: usize,
    },
    /// Packets of length 0.
    #[error("data of {len} bytes in packets of 0 bytes: give the packets' size")]
    EmptyPackets {
        /// Bytes of data.
        len: usize,
    },
}

impl Code {
    /// The code of a scheme, with the fastest kernel on this CPU.
    #[must_use]
    pub fn new(scheme: Scheme) -> Self {
        Self::with_kernel(scheme, Kernel::best())
    }

    /// The code of a scheme with this kernel.
    #[must_use]
    pub fn with_kernel(scheme: Scheme, kernel: Kernel) -> Self {
        let (data, rows) = (scheme.data_packets(), scheme.repair_packets());
        let factors = (0..data).flat_map(|index| {
            // Both are below 256, as the scheme says.
            (0..rows).map(move |row| factor(row as u8, index as u8))
        });
        Self { scheme, kernel, factors: factors.collect() }
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Computes all repair packets of a group: `data` are its packets in their order, fewer in a
    /// short group; `repair` are buffers as long as the longest of them, overwritten.
    ///
    /// # Errors
    ///
    /// [`CodeError::NoSuchData`], [`CodeError::RepairCount`], [`CodeError::RepairLengths`],
    /// [`CodeError::TooLong`].
    pub fn encode(&self, data: &[&[u8]], repair: &mut [&mut [u8]]) -> Result<(), CodeError> {
        self.add_all(0, data, repair, false)
    }

    /// [`Code::encode`] of data that lies in one piece: packets of `size` bytes (at least 1), the
    /// last may be shorter.
    ///
    /// # Errors
    ///
    /// As [`Code::encode`], and [`CodeError::EmptyPackets`].
    pub fn encode_run(
        &self,
        data: &[u8],
        size: usize,
        repair: &mut [&mut [u8]],
    ) -> Result<(), CodeError> {
        let count = self.packets_of(data.len(), size)?;
        read_in_order(data);
        let mut packets: [&[u8]; MAX_GROUP] = [&[]; MAX_GROUP];
        for (packet, bytes) in packets.iter_mut().zip(data.chunks(size)) {
            *packet = bytes;
        }
        self.encode(&packets[..count], repair)
    }

    /// Adds the packets from `index` on to repair packets that were zeros when the group began, for
    /// senders that process packets one by one. Each call reads and writes all of `repair`: with
    /// single packets a group takes three to four times as long as with [`Code::encode`], with four
    /// at a time less than twice.
    ///
    /// # Errors
    ///
    /// As [`Code::encode`].
    pub fn add(
        &self,
        index: usize,
        data: &[&[u8]],
        repair: &mut [&mut [u8]],
    ) -> Result<(), CodeError> {
        self.add_all(index, data, repair, true)
    }

    fn add_all(
        &self,
        first: usize,
        data: &[&[u8]],
        repair: &mut [&mut [u8]],
        adds: bool,
    ) -> Result<(), CodeError> {
        let (scheme, rows) = (self.scheme, self.scheme.repair_packets());
        self.check_data(first.saturating_add(data.len()))?;
        if repair.len() != rows {
            return Err(CodeError::RepairCount { count: repair.len(), scheme });
        }
        let Some(limit) = common_len(repair.iter().map(|bytes| bytes.len()))? else {
            return Ok(());
        };
        check_lens(data.iter().map(|bytes| bytes.len()), limit)?;
        let factors = &self.factors[first * rows..];
        self.kernel.compute(&Product { sources: data, factors, stride: rows, adds }, repair);
        Ok(())
    }

    /// Computes the missing packets of a group and returns their number. `data` are its packets in
    /// order, fewer in a short group; of `repair`, in any order, the first ones are used, as many
    /// as packets are missing.
    ///
    /// # Errors
    ///
    /// [`CodeError::NotEnough`] when more packets are missing than `repair` has;
    /// [`CodeError::NoSuchData`], [`CodeError::NoSuchRow`], [`CodeError::RowTwice`],
    /// [`CodeError::RepairLengths`], [`CodeError::TooLong`].
    pub fn repair(
        &self,
        data: &mut [Piece<'_>],
        repair: &[RepairPacket<'_>],
    ) -> Result<usize, CodeError> {
        self.check_data(data.len())?;
        let missing = data.iter().filter(|piece| matches!(piece, Piece::Missing(_))).count();
        if missing == 0 {
            return Ok(0);
        }
        let used =
            repair.get(..missing).ok_or(CodeError::NotEnough { missing, repair: repair.len() })?;
        self.check_repair(used)?;
        if let Some(limit) = common_len(used.iter().map(|packet| packet.bytes.len()))? {
            check_lens(data.iter().map(Piece::len), limit)?;
        }
        self.fill(data, used);
        Ok(missing)
    }

    /// [`Code::repair`] of data that lies in one piece: packets of `size` bytes (at least 1), the
    /// last may be shorter, of which those are missing whose index `is_missing` says so of.
    ///
    /// # Errors
    ///
    /// As [`Code::repair`], and [`CodeError::EmptyPackets`].
    pub fn repair_run(
        &self,
        data: &mut [u8],
        size: usize,
        is_missing: impl Fn(usize) -> bool,
        repair: &[RepairPacket<'_>],
    ) -> Result<usize, CodeError> {
        let count = self.packets_of(data.len(), size)?;
        let mut pieces = [const { Piece::Present(&[]) }; MAX_GROUP];
        for (index, (piece, bytes)) in pieces.iter_mut().zip(data.chunks_mut(size)).enumerate() {
            *piece = if is_missing(index) { Piece::Missing(bytes) } else { Piece::Present(bytes) };
        }
        self.repair(&mut pieces[..count], repair)
    }

    /// Writes the missing packets; arguments have been checked.
    fn fill(&self, data: &mut [Piece<'_>], repair: &[RepairPacket<'_>]) {
        let mut known = Known::default();
        let (mut lost, mut points) = (Points::default(), Points::default());
        for (index, piece) in (0..=u8::MAX).zip(data.iter()) {
            match piece {
                Piece::Present(bytes) => known.push(index, bytes),
                Piece::Missing(_) => lost.push(index),
            }
        }
        for packet in repair {
            let point = repair_point(packet.row as u8);
            known.push(point, packet.bytes);
            points.push(point);
        }
        let losses = Losses { lost: lost.all(), repair: points.all() };
        let weights = Weights::new(&losses, data.len());
        let holes = data.iter_mut().filter_map(|piece| match piece {
            Piece::Missing(bytes) => Some(&mut **bytes),
            Piece::Present(_) => None,
        });
        let mut holes = lost.all().iter().copied().zip(holes);
        loop {
            let mut rows: [&mut [u8]; ROWS_AT_ONCE] = Default::default();
            let mut of_rows = Points::default();
            for ((point, hole), row) in holes.by_ref().take(ROWS_AT_ONCE).zip(&mut rows) {
                *row = hole;
                of_rows.push(point);
            }
            if of_rows.all().is_empty() {
                return;
            }
            known.sum(self.kernel, &weights, of_rows.all(), &mut rows[..of_rows.count]);
        }
    }

    fn check_data(&self, end: usize) -> Result<(), CodeError> {
        let scheme = self.scheme;
        if end > scheme.data_packets() {
            return Err(CodeError::NoSuchData { index: end - 1, scheme });
        }
        Ok(())
    }

    fn check_repair(&self, packets: &[RepairPacket<'_>]) -> Result<(), CodeError> {
        let scheme = self.scheme;
        for (place, &RepairPacket { row, .. }) in packets.iter().enumerate() {
            if row >= scheme.repair_packets() {
                return Err(CodeError::NoSuchRow { row, scheme });
            }
            if packets[..place].iter().any(|other| other.row == row) {
                return Err(CodeError::RowTwice { row });
            }
        }
        Ok(())
    }

    /// Packets of `size` bytes that `len` bytes make.
    fn packets_of(&self, len: usize, size: usize) -> Result<usize, CodeError> {
        if size == 0 {
            return Err(CodeError::EmptyPackets { len });
        }
        let count = len.div_ceil(size);
        self.check_data(count).map(|()| count)
    }
}

impl Piece<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Present(bytes) => bytes.len(),
            Self::Missing(bytes) => bytes.len(),
        }
    }
}

/// Some points of a group, without allocation.
struct Points {
    points: [u8; MAX_GROUP],
    count: usize,
}

impl Points {
    fn push(&mut self, point: u8) {
        self.points[self.count] = point;
        self.count += 1;
    }

    fn all(&self) -> &[u8] {
        &self.points[..self.count]
    }
}

impl Default for Points {
    fn default() -> Self {
        Self { points: [0; MAX_GROUP], count: 0 }
    }
}

/// The packets from which others are computed.
struct Known<'a> {
    points: Points,
    bytes: [&'a [u8]; MAX_GROUP],
}

impl Default for Known<'_> {
    fn default() -> Self {
        Self { points: Points::default(), bytes: [&[]; MAX_GROUP] }
    }
}

impl<'a> Known<'a> {
    fn push(&mut self, point: u8, bytes: &'a [u8]) {
        self.bytes[self.points.count] = bytes;
        self.points.push(point);
    }

    /// Computes up to [`ROWS_AT_ONCE`] packets, those at the points `lost`.
    fn sum(&self, kernel: Kernel, weights: &Weights, lost: &[u8], rows: &mut [&mut [u8]]) {
        let mut factors = [0; MAX_GROUP * ROWS_AT_ONCE];
        for (point, factors) in self.points.all().iter().zip(factors.chunks_mut(lost.len())) {
            for (lost, factor) in lost.iter().zip(factors) {
                *factor = weights.factor(*point, *lost);
            }
        }
        let sources = &self.bytes[..self.points.count];
        let product = Product { sources, factors: &factors, stride: lost.len(), adds: false };
        kernel.compute(&product, rows);
    }
}

/// Reads a byte of each cache line, one line after the other: the hardware then fetches the next ones early, as it does not
/// for columns over many packets. From memory, encoding is 1.3 to 1.6 times as fast as with prefetch instructions; where
/// the data is in a cache already, it is slower by 13 to 39 % (docs/results/fec.md).
fn read_in_order(data: &[u8]) {
    const LINE: usize = 64;
    black_box(data.iter().step_by(LINE).fold(0, |all, byte| all ^ byte));
}

/// The length of all, if there are any.
fn common_len(lens: impl Iterator<Item = usize>) -> Result<Option<usize>, CodeError> {
    let mut common = None;
    for other in lens {
        match common {
            Some(len) if len != other => return Err(CodeError::RepairLengths { len, other }),
            _ => common = Some(other),
        }
    }
    Ok(common)
}

fn check_lens(mut lens: impl Iterator<Item = usize>, limit: usize) -> Result<(), CodeError> {
    let long = lens.find(|len| *len > limit);
    long.map_or(Ok(()), |len| Err(CodeError::TooLong { len, limit }))
}

#[cfg(test)]
mod tests;
