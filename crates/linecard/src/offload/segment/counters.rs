//! Counters of the segmenter.

use super::{Class, Written};
use crate::offload::counters::counters;

counters! {
    /// Counters of a segmenting stage: the paper's four packet classes.
    #[derive(Copy, PartialEq, Eq)]
    Counters {
        /// Large packets taken.
        packets_in: u64,
        /// Bytes of frames taken.
        bytes_in: u64,
        /// Bytes of frames produced.
        bytes_out: u64,
        /// Packets that came out as one (single segment message).
        ssm: u64,
        /// First segments (beginning of message).
        bom: u64,
        /// Segments in between (continuation of message).
        com: u64,
        /// Last segments (end of message).
        eom: u64,
        /// Packets that could not be segmented and passed unchanged.
        refused: u64,
    }
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
}
