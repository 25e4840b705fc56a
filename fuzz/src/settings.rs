//! The journal of changed settings: any lines, with checksums that are right or as they are. What is read and written
//! again is the same, and a part of a journal never has another value to restore.

use crate::draw::Draw;
use linecard_jitter::linux::journal::record::{Entry, Record, Records, read};
use linecard_jitter::linux::setting::{Form, Setting, State};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Input: whether values follow or lines, and those with their checksums; where the journal is cut off (2 bytes), lines.
pub fn settings(data: &[u8]) {
    let [mode, high, low, text @ ..] = data else { return };
    if mode & 2 != 0 {
        return values(&mut Draw::new(&data[1..]));
    }
    let lines = text.split_inclusive(|byte| *byte == b'\n');
    let bytes: Vec<u8> = match mode & 1 {
        0 => lines.flat_map(<[u8]>::to_vec).collect(),
        _ => lines.flat_map(summed).collect(),
    };
    let records = read(&bytes);
    let written: String = records.entries.iter().flat_map(lines_of).collect();
    let again = read(written.as_bytes());
    assert_eq!(again, Records { boot: None, entries: records.entries.clone(), damaged: None });

    let cut = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
    let part = read(&bytes[..cut]);
    assert!(part.entries.len() <= records.entries.len());
    for (part, whole) in part.entries.iter().zip(&records.entries) {
        assert_eq!((&part.setting, &part.old), (&whole.setting, &whole.old));
        assert!(whole.ours.starts_with(&part.ours));
    }
    if let Some(line) = part.damaged {
        assert_eq!(records.damaged, Some(line), "damage that is not at the cut");
    }
}

/// Changes of any settings to any values are read as they were written.
fn values(draw: &mut Draw<'_>) {
    let mut entries = Vec::new();
    let mut written = String::new();
    while !draw.is_done() && entries.len() < 16 {
        let kind = draw.below(4);
        let mut bytes = || {
            let len = draw.below(24);
            draw.take(len)
        };
        let (name, old, new) = (bytes(), State::new(bytes()), State::new(bytes()));
        let text = String::from_utf8_lossy(&name).into_owned();
        let setting = match kind {
            0 => Setting::coalescing(text),
            1 => Setting::feature("eth0", text),
            2 => Setting::stamps(text),
            _ => Setting::file(OsString::from_vec([b"/", &name[..]].concat()), Form::Choice),
        };
        if entries.iter().all(|entry: &Entry| entry.setting != setting) {
            let ours = vec![new.clone()];
            entries.push(Entry { setting: setting.clone(), old: old.clone(), ours });
            written += &Record::Change { setting, old, new }.line();
        }
    }
    assert_eq!(read(written.as_bytes()), Records { boot: None, entries, damaged: None });
}

/// A line with its checksum, 64-bit FNV-1a, in front.
fn summed(line: &[u8]) -> Vec<u8> {
    let body = line.strip_suffix(b"\n").unwrap_or(line);
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for byte in body {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    [format!("{sum:016x} ").as_bytes(), line].concat()
}

/// The changes that lead to an entry.
fn lines_of(entry: &Entry) -> Vec<String> {
    let mut old = entry.old.clone();
    let line = |new: &_| {
        let setting = entry.setting.clone();
        let old = std::mem::replace(&mut old, Clone::clone(new));
        Record::Change { setting, old, new: Clone::clone(new) }.line()
    };
    entry.ours.iter().map(line).collect()
}
