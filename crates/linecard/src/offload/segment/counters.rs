//! Counters of the segmenter.

use super::{Class, Written};

/// Counters of a segmenting stage: the paper's four packet classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Large packets taken.
    pub packets_in: u64,
    /// Bytes of frames taken.
    pub bytes_in: u64,
    /// Bytes of frames produced.
    pub bytes_out: u64,
    /// Packets that came out as one (single segment message).
    pub ssm: u64,
    /// First segments (beginning of message).
    pub bom: u64,
    /// Segments in between (continuation of message).
    pub com: u64,
    /// Last segments (end of message).
    pub eom: u64,
    /// Packets that could not be segmented and passed unchanged.
    pub refused: u64,
}

impl Counters {
    /// Segments produced.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.ssm + self.bom + self.com + self.eom
    }

    /// Counts a packet taken.
    pub fn received(&mut self, bytes: usize) {
        self.packets_in += 1;
        self.bytes_in += bytes as u64;
    }

    /// Counts a segment produced.
    pub fn count(&mut self, written: Written) {
        self.bytes_out += written.len as u64;
        match written.class {
            Class::Ssm => self.ssm += 1,
            Class::Bom => self.bom += 1,
            Class::Com => self.com += 1,
            Class::Eom => self.eom += 1,
        }
    }

    /// Adds the counters of `other`.
    pub fn add(&mut self, other: &Self) {
        self.packets_in += other.packets_in;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.ssm += other.ssm;
        self.bom += other.bom;
        self.com += other.com;
        self.eom += other.eom;
        self.refused += other.refused;
    }
}
