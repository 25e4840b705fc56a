//! The lines of a journal: a checksum, and words.
//!
//! An incomplete line was written by a process that was killed while writing, hence before it
//! changed anything: it is ignored. Only the last line can be incomplete; other damage is reported.

use super::process::Owner;
use crate::linux::setting::{Setting, State, escape, unescape};

/// Maximum changes per journal: enough for each arm of the longest A/B run.
pub(super) const MAX_RECORDS: usize = 4_096;
/// Maximum bytes of a journal: its records with values and paths of maximum length.
pub(super) const MAX_BYTES: u64 = 64 << 20;
const VERSION: &str = "1";

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The first line.
    Head {
        /// The boot.
        boot: String,
        /// The process.
        owner: Owner,
    },
    /// A setting is about to be changed.
    Change {
        /// The setting.
        setting: Setting,
        /// Its value before.
        old: State,
        /// Its value after.
        new: State,
    },
}

impl Record {
    /// Formats the line, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        let body = match self {
            Self::Head { boot, owner } => {
                let Owner { process, started } = owner;
                format!("journal {VERSION} {} {process} {started}", escape(boot.as_bytes()))
            }
            Self::Change { setting, old, new } => {
                let (old, new) = (escape(old.bytes()), escape(new.bytes()));
                format!("change {old} {new} {}", setting.words().join(" "))
            }
        };
        format!("{:016x} {body}\n", checksum(body.as_bytes()))
    }

    /// Parses a line without its end.
    fn of_line(line: &str) -> Option<Self> {
        let (sum, body) = line.split_once(' ')?;
        if sum != format!("{:016x}", checksum(body.as_bytes())) {
            return None;
        }
        let words: Vec<&str> = body.split(' ').collect();
        let text = |word: &str| String::from_utf8(unescape(word)?).ok();
        Some(match words.as_slice() {
            ["journal", VERSION, boot, process, started] => {
                let owner =
                    Owner { process: process.parse().ok()?, started: started.parse().ok()? };
                Self::Head { boot: text(boot)?, owner }
            }
            ["change", old, new, setting @ ..] => Self::Change {
                setting: Setting::of_words(setting)?,
                old: State::new(unescape(old)?),
                new: State::new(unescape(new)?),
            },
            _ => return None,
        })
    }
}

/// The contents of a journal.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// The boot it belongs to; `None` when not even the first line is complete.
    pub boot: Option<String>,
    /// Settings in the order of their first change, each with its original value.
    pub entries: Vec<Entry>,
    /// Number, from 1, of a damaged line that others follow.
    pub damaged: Option<usize>,
}

/// A setting that the journal has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The setting.
    pub setting: Setting,
    /// Value before the first change.
    pub old: State,
    /// All values it was changed to.
    pub ours: Vec<State>,
}

impl Entry {
    /// Whether it has a value that we left: the original one, or one of ours.
    pub(super) fn is_ours(&self, now: &State) -> bool {
        // The kernel may have moved an interrupt within its CPU set.
        let is_old =
            *now == self.old || self.setting.is_affinity() && self.setting.is_same(&self.old, now);
        is_old || self.ours.iter().any(|own| self.setting.is_same(own, now))
    }
}

/// Parses a journal. Never fails: what cannot be parsed is damage.
#[must_use]
pub fn read(bytes: &[u8]) -> Records {
    let mut records = Records::default();
    // Bytes after the last line end are an incomplete line.
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines: Vec<&[u8]> = bytes[..whole].split_inclusive(|byte| *byte == b'\n').collect();
    for (index, line) in lines.iter().enumerate() {
        let text = std::str::from_utf8(&line[..line.len() - 1]).ok();
        match text.and_then(Record::of_line) {
            Some(record) => records.add(record),
            None if index + 1 == lines.len() && whole == bytes.len() => {}
            None => records.damaged = records.damaged.or(Some(index + 1)),
        }
    }
    records
}

impl Records {
    fn add(&mut self, record: Record) {
        match record {
            Record::Head { boot, .. } => self.boot = Some(boot),
            Record::Change { setting, old, new } => {
                add_change(&mut self.entries, setting, (old, new));
            }
        }
    }
}

/// Records a change: the first one of a setting holds its original value.
pub(super) fn add_change(entries: &mut Vec<Entry>, setting: Setting, (old, new): (State, State)) {
    match entries.iter_mut().find(|entry| entry.setting == setting) {
        Some(entry) => entry.ours.push(new),
        None => entries.push(Entry { setting, old, ours: vec![new] }),
    }
}

/// 64-bit FNV-1a: detects truncated lines; the folder's permissions protect against malice.
fn checksum(bytes: &[u8]) -> u64 {
    let step = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::setting::Form;
    use linecard::rng::Rng;

    fn journal() -> (String, Vec<Record>) {
        let change = |path: &str, old: &str, new: &str| Record::Change {
            setting: Setting::file(path, Form::Plain),
            old: State::new(old),
            new: State::new(new),
        };
        let records = vec![
            Record::Head { boot: "boot".into(), owner: Owner { process: 1, started: 2 } },
            change("/a", "1\n", "2\n"),
            change("/b", "", "x y"),
            change("/a", "2\n", "3\n"),
        ];
        (records.iter().map(Record::line).collect(), records)
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let (text, records) = journal();
        for (line, record) in text.lines().zip(records) {
            assert_eq!(Record::of_line(line), Some(record));
        }
        let read = read(text.as_bytes());
        assert_eq!((read.boot.as_deref(), read.damaged), (Some("boot"), None));
        assert_eq!(read.entries.len(), 2);
        assert_eq!(read.entries[0].old, State::new("1\n"));
        assert_eq!(read.entries[0].ours, [State::new("2\n"), State::new("3\n")]);
    }

    #[test]
    fn a_cut_line_was_not_written() {
        let (text, _) = journal();
        for len in 0..text.len() {
            let whole = text[..len].matches('\n').count();
            let records = read(&text.as_bytes()[..len]);
            assert_eq!(records.damaged, None, "{len}");
            assert_eq!(records.boot.is_some(), whole > 0, "{len}");
            assert_eq!(records.entries.len(), [0, 0, 1, 2, 2, 2][whole], "{len}");
        }
    }

    #[test]
    fn damage_before_the_end_is_seen() {
        let (text, _) = journal();
        let last = text.trim_end().rfind('\n').unwrap();
        let mut rng = Rng::new(7);
        for _ in 0..500 {
            let mut bytes = text.clone().into_bytes();
            let at = rng.below(last as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            assert!(read(&bytes).damaged.is_some(), "byte {at}");
        }
        for len in 0..200 {
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            let _any = read(&bytes);
        }
    }
}
