//! One capture, merged and taken apart by the command, in a folder of its own.

use crate::support::linecard;
use linecard_io::capture::{Reader, Record};
use linecard_io::convert::{METADATA_OPTION, SegmentMetadata};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Long enough for packets of most real captures to meet.
const HOLD: &str = "10s";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Checksum {
    Verify,
    Trust,
}

/// An input, and what was made of it.
#[derive(Debug)]
pub(crate) struct Conversion {
    pub(crate) input: PathBuf,
    pub(crate) checksum: Checksum,
    /// Packets merged into another.
    pub(crate) merged: usize,
    files: [PathBuf; 2],
    _folder: TempDir,
}

/// An entry of a capture, to be compared.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    is_packet: bool,
    data: Vec<u8>,
    options: Vec<u8>,
    ticks: u64,
    interface: u32,
    original_len: u32,
}

impl Conversion {
    /// Converts; none when the input is not a capture. Packets that do not come back as they were
    /// fail the test.
    pub(crate) fn make(input: &Path, checksum: Checksum) -> Option<Self> {
        let bytes = fs::read(input).unwrap();
        Reader::new(&bytes[..]).ok()?;
        let folder = tempfile::tempdir().unwrap();
        let is_pcap = bytes[0] != 0x0a;
        let back = if is_pcap { "back.pcap" } else { "back.pcapng" };
        let files = ["merged.pcapng", back].map(|name| folder.path().join(name));
        let policy = match checksum {
            Checksum::Verify => "verify",
            Checksum::Trust => "trust",
        };
        let options = ["--hold", HOLD, "--checksum", policy];
        command("coalesce", input, &files[0], &options);
        command("segment", &files[0], &files[1], &[]);
        let [merged, back] = [&files[0], &files[1]].map(|file| fs::read(file).unwrap());
        let (was, is) = (entries(&bytes), entries(&back));
        assert_eq!(was.len(), is.len(), "{}: entries", input.display());
        for (number, (was, is)) in was.iter().zip(&is).enumerate() {
            // Sections and interfaces may say other lengths.
            assert!(!was.is_packet || was == is, "{}: entry {}", input.display(), number + 1);
        }
        let packets = |of: &[Entry]| of.iter().filter(|entry| entry.is_packet).count();
        let merged = packets(&was) - packets(&entries(&merged));
        Some(Self { input: input.into(), checksum, merged, files, _folder: folder })
    }

    pub(crate) fn name(&self) -> String {
        self.input.file_name().unwrap().to_string_lossy().into_owned()
    }

    pub(crate) fn merged_file(&self) -> &Path {
        &self.files[0]
    }

    pub(crate) fn back_file(&self) -> &Path {
        &self.files[1]
    }

    /// For each packet of the merged capture the packets of the input that it was made of, all
    /// by number from 0: a merged packet stands where its first one was, and says how far behind
    /// the others were.
    pub(crate) fn origins(&self) -> Vec<Vec<usize>> {
        let bytes = fs::read(self.merged_file()).unwrap();
        let (mut gone, mut next, mut origins) = (BTreeSet::<u64>::new(), 0, Vec::new());
        let (mut reader, mut record) = (Reader::new(&bytes[..]).unwrap(), Record::default());
        // Formats that are changed on the way begin with a section and an interface of their own.
        let input = fs::read(&self.input).unwrap();
        let mut to_skip = if input[0] == 0x0a { 0 } else { 2 };
        while let Ok(true) = reader.read(&mut record) {
            if to_skip > 0 {
                to_skip -= 1;
                continue;
            }
            while gone.remove(&next) {
                next += 1;
            }
            let mut numbers = vec![next];
            if let Some(metadata) = record.option(METADATA_OPTION).and_then(SegmentMetadata::decode)
            {
                for step in metadata.steps {
                    numbers.push(numbers[numbers.len() - 1] + step.entries);
                }
                gone.extend(&numbers[1..]);
            }
            if record.is_packet() {
                origins.push(numbers);
            }
            next += 1;
        }
        packets_only(&input, origins)
    }
}

/// From numbers of entries to numbers of packets.
fn packets_only(input: &[u8], origins: Vec<Vec<u64>>) -> Vec<Vec<usize>> {
    let mut packets = 0;
    let number_of: Vec<usize> = entries(input)
        .iter()
        .map(|entry| {
            packets += usize::from(entry.is_packet);
            packets.saturating_sub(1)
        })
        .collect();
    let convert = |entry: u64| number_of[entry as usize];
    origins.into_iter().map(|of| of.into_iter().map(convert).collect()).collect()
}

/// Everything in a capture, up to where it is damaged.
fn entries(bytes: &[u8]) -> Vec<Entry> {
    let (mut reader, mut record) = (Reader::new(bytes).unwrap(), Record::default());
    let mut entries = Vec::new();
    while let Ok(true) = reader.read(&mut record) {
        entries.push(Entry {
            is_packet: record.is_packet(),
            data: record.data().to_vec(),
            options: record.options().to_vec(),
            ticks: record.ticks(),
            interface: record.interface(),
            original_len: record.original_len(),
        });
    }
    entries
}

/// Damage and unknown link types are not failures here: the output has all there is.
fn command(name: &str, input: &Path, output: &Path, options: &[&str]) {
    let run = linecard().arg(name).args([input, output]).args(options).output().unwrap();
    assert!(
        matches!(run.status.code(), Some(0 | 3 | 4)),
        "{name} {}: {}",
        input.display(),
        String::from_utf8_lossy(&run.stderr)
    );
}

/// Captures in which merged packets are cut by other sizes than they were merged of.
pub(crate) fn cuts_of_merged(captures: &[PathBuf]) -> Vec<(String, TempDir)> {
    let mut cuts = Vec::new();
    for input in captures {
        let name = input.file_name().unwrap().to_string_lossy().into_owned();
        // Every checksum of this one is partial, before and after.
        if name == "tcp4-offload.pcap" {
            continue;
        }
        for options in [["--mss", "700"], ["--mtu", "1280"]] {
            let folder = tempfile::tempdir().unwrap();
            let [merged, cut] =
                ["merged.pcapng", "cut.pcapng"].map(|name| folder.path().join(name));
            command("coalesce", input, &merged, &[]);
            command("segment", &merged, &cut, &options);
            cuts.push((format!("{name} {}", options.join(" ")), folder));
        }
    }
    cuts
}
