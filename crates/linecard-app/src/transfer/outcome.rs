//! Common parts of the outcomes of both ends.

use super::error::TransferError;
use crate::Error;
use linecard_report::{BitRate, ByteCount, Item, Nanoseconds, Seconds};
use linecard_transfer_net::file::Failures;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// The label of a failure to remove something.
const REMOVAL: &str = "removal";

/// A file's byte is copied between the kernel and a chunk, and hashed.
const BY_FILES: f64 = 2.0 + 1.0;
/// A packet's byte is copied between its chunk and its packet, encrypted or decrypted in place, and copied by the kernel.
const BY_PACKETS: f64 = 2.0 + 2.0 + 2.0;

/// Files that were not transferred and are listed one by one; others are only counted.
pub const MAX_LISTED: usize = 10;

/// The transferred data.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Transferred {
    /// complete
    pub complete: bool,
    /// because
    pub error: Option<String>,
    /// bytes
    pub bytes: ByteCount,
    /// of which were there before
    pub had_bytes: Option<ByteCount>,
    /// in
    pub seconds: Seconds,
    /// goodput
    pub goodput_bits_per_second: BitRate,
    /// files and folders
    pub objects: Option<u64>,
    /// files there already
    pub unchanged: Option<u64>,
    /// not transferred
    pub failed: Option<u64>,
    /// removed at the receiver
    pub removed: Option<u64>,
    /// not removed there
    pub unremoved: Option<u64>,
}

impl Transferred {
    /// A transfer that ended early.
    pub(super) fn part(error: &Error, done_bytes: u64, had_bytes: u64, elapsed: Duration) -> Self {
        Self {
            complete: false,
            error: Some(error.to_string()),
            ..Self::of_bytes(done_bytes, had_bytes, elapsed)
        }
    }

    pub(super) fn of_bytes(bytes: u64, had_bytes: u64, elapsed: Duration) -> Self {
        Self {
            complete: true,
            error: None,
            bytes: ByteCount(bytes),
            had_bytes: (had_bytes > 0).then_some(ByteCount(had_bytes)),
            seconds: Seconds(elapsed.as_secs_f64()),
            goodput_bits_per_second: BitRate(bits_per_second(
                bytes.saturating_sub(had_bytes),
                elapsed,
            )),
            objects: None,
            unchanged: None,
            failed: None,
            removed: None,
            unremoved: None,
        }
    }

    /// The same with its files.
    pub(super) fn with_files(self, objects: u64, unchanged: u64, failures: &Failures) -> Self {
        let failed = (failures.count() > 0).then_some(failures.count());
        Self {
            complete: failed.is_none(),
            error: failed.map(|failed| TransferError::Incomplete { failed, objects }.to_string()),
            objects: Some(objects),
            unchanged: (unchanged > 0).then_some(unchanged),
            failed,
            ..self
        }
    }

    /// The same with what was removed at the receiver.
    pub(super) fn with_removed(self, removed: u64, unremoved: &Failures) -> Self {
        let unremoved = (unremoved.count() > 0).then_some(unremoved.count());
        Self {
            complete: self.complete && unremoved.is_none(),
            error: self.error.or(unremoved.map(|_| TransferError::Unremoved.to_string())),
            removed: (removed > 0).then_some(removed),
            unremoved,
            ..self
        }
    }

    /// Refuses a transfer of which some files are missing, or of which some were to be removed and are not.
    pub(super) fn check(&self) -> Result<(), Error> {
        match (self.failed, self.objects, self.unremoved) {
            (Some(failed), Some(objects), _) => {
                Err(TransferError::Incomplete { failed, objects }.into())
            }
            (_, Some(_), Some(_)) => Err(TransferError::Unremoved.into()),
            _ => Ok(()),
        }
    }

    /// A line for each of the first files that are missing.
    pub(super) fn missing(&self, failures: &[Item<String>]) -> Vec<String> {
        let of = |is_removal: bool, what: &str, count: Option<u64>| {
            let of = failures.iter().filter(|item| (item.label == REMOVAL) == is_removal);
            let lines = of.map(|item| format!("not {what}: {}", item.value));
            let count = count.unwrap_or(0) as usize;
            listed(lines, count, |more| format!("and {more} more were not {what}"))
        };
        let mut lines = of(false, "transferred", self.failed);
        lines.extend(of(true, "removed", self.unremoved));
        lines
    }
}

/// The first of `count` lines, and how many more there are.
pub(super) fn listed(
    lines: impl Iterator<Item = String>,
    count: usize,
    more: impl Fn(usize) -> String,
) -> Vec<String> {
    let mut lines: Vec<String> = lines.take(MAX_LISTED).collect();
    let rest = count.saturating_sub(lines.len());
    lines.extend((rest > 0).then(|| more(rest)));
    lines
}

/// Those that were not transferred, and those that were to be removed and are not.
pub(super) fn failures(failed: &Failures, unremoved: &Failures) -> Vec<Item<String>> {
    let item = |label: &str, why: &String| Item { label: label.to_owned(), value: why.clone() };
    let failed = failed.first().iter().map(|why| item("file", why));
    failed.chain(unremoved.first().iter().map(|why| item(REMOVAL, why))).collect()
}

pub(super) fn bits_per_second(bytes: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// How often each byte of files was read from or written to memory at this end, by the passes of the code over it; of
/// `moved` bytes, `in_packets` went in packets, those that were sent again included. An estimate: holes are scanned
/// and not written, and encoding of repair is not in it.
pub(super) fn memory_crossings(moved: u64, in_packets: u64) -> Option<f64> {
    let share = in_packets as f64 / moved as f64;
    (moved > 0).then_some(BY_FILES + BY_PACKETS * share)
}

pub(super) fn nanoseconds(time: Duration) -> Nanoseconds {
    Nanoseconds(time.as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_sent_again_cross_memory_again() {
        assert_eq!(memory_crossings(0, 0), None);
        assert_eq!(memory_crossings(1_000, 1_000), Some(9.0));
        assert_eq!(memory_crossings(1_000, 1_500), Some(12.0));
    }

    /// Of those that one message asks to remove, only the first has a text: the others were not counted.
    #[test]
    fn those_without_a_text_are_counted() {
        let missing = |texts: usize, count: u64| {
            let mut unremoved = Failures::default();
            (0..texts).for_each(|number| unremoved.add(number.to_string()));
            unremoved.add_more(count - texts as u64);
            let all = Transferred::of_bytes(0, 0, Duration::ZERO).with_removed(0, &unremoved);
            all.missing(&failures(&Failures::default(), &unremoved))
        };
        assert_eq!(missing(1, 1), ["not removed: 0"]);
        assert_eq!(missing(1, 2), ["not removed: 0", "and 1 more were not removed"]);
        assert_eq!(missing(1, 12)[1..], ["and 11 more were not removed"]);
        let lines = missing(12, 12);
        assert_eq!((lines.len(), &lines[10][..]), (11, "and 2 more were not removed"));
    }
}
