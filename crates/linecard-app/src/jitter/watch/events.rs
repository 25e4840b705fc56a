//! Events of streams as lines of JSON in a file whose length is bounded.

use super::lines::time;
use linecard_jitter::media::live::{Episode, Event};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// When a file is this long, it becomes the previous one, and a new one begins.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// A file of events, and the one before it, `FILE.1`.
#[derive(Debug)]
pub(super) struct EventFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    /// The last line could not be written, or not all of it.
    is_torn: bool,
}

/// A line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    utc: String,
    unix_ns: u64,
    stream: &'a str,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lasted_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before_socket_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_socket_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    causes: Option<&'a str>,
}

impl<'a> Line<'a> {
    fn new((stream, offset_ns): (&'a str, i64), event: &'static str, at_ns: u64) -> Self {
        Line {
            utc: time(at_ns, offset_ns),
            unix_ns: at_ns.saturating_add_signed(offset_ns),
            stream,
            event,
            packets: None,
            lasted_ns: None,
            number: None,
            before_socket_ns: None,
            in_socket_ns: None,
            causes: None,
        }
    }

    fn of(place: (&'a str, i64), event: &Event) -> Self {
        match event {
            Event::Late(episode) => Self::of_late(place, episode),
            Event::Silence { at_ns, .. } => Line::new(place, "silence", *at_ns),
            Event::Pause { ns, at_ns } => {
                Line { lasted_ns: Some(*ns), ..Line::new(place, "pause", *at_ns) }
            }
            Event::Restart { at_ns } => Line::new(place, "restart", *at_ns),
        }
    }

    fn of_late(place: (&'a str, i64), episode: &Episode) -> Self {
        let Episode { at_ns, lasted_ns, packets, worst } = episode;
        Line {
            packets: Some(*packets),
            lasted_ns: Some(*lasted_ns),
            number: Some(worst.number),
            before_socket_ns: Some(worst.delay.before_ns),
            in_socket_ns: Some(worst.delay.waited_ns),
            ..Line::new(place, "late", *at_ns)
        }
    }
}

impl EventFile {
    /// Appends to the file, which is created if it is missing.
    pub(super) fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        // A pipe that nobody reads would be waited for.
        if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
            let what = "it is not a file, and would be renamed at its limit";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let about = file.metadata()?;
        let mut bytes = about.len();
        // A full disk may have cut the last line of an earlier run.
        let mut last = [b'\n'];
        if bytes > 0 {
            file.read_exact_at(&mut last, bytes - 1)?;
        }
        if last != [b'\n'] {
            file.write_all(b"\n")?;
            bytes += 1;
        }
        Ok(Self { path: path.to_owned(), file, bytes, max_bytes, is_torn: false })
    }

    /// Writes an event of a stream, whose name comes with time of day minus monotonic time.
    pub(super) fn write(
        &mut self,
        place: (&str, i64),
        event: &Event,
        causes: Option<&str>,
    ) -> io::Result<()> {
        let line = Line { causes, ..Line::of(place, event) };
        let text = serde_json::to_string(&line).map_err(io::Error::from)? + "\n";
        if self.bytes > 0 && self.bytes + text.len() as u64 > self.max_bytes {
            fs::rename(&self.path, previous(&self.path))?;
            *self = Self::open(&self.path, self.max_bytes)?;
        }
        let text = if self.is_torn { format!("\n{text}") } else { text };
        // In one call: a process that is killed leaves whole lines.
        let written = self.file.write_all(text.as_bytes());
        self.is_torn = written.is_err();
        self.bytes = self.file.metadata().map_or(self.bytes, |about| about.len());
        written
    }

    /// Its name.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// `FILE.1`.
fn previous(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_jitter::media::live::{Delay, Late};

    fn late(at_ns: u64, before_ns: u64) -> Event {
        let delay = Delay { before_ns, waited_ns: 7 };
        let worst = Late { number: 9, identity: 0, at_ns, delay };
        Event::Late(Episode { at_ns, lasted_ns: 3, packets: 2, worst })
    }

    fn lines(path: &Path) -> Vec<serde_json::Value> {
        let text = fs::read_to_string(path).expect("a file");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Promise (Jitter): Files of `jitter watch --events` stay within twice their limit in 24 hours with a late packet in
    /// each second, and have the last events, each with its cause, as whole lines of JSON.
    #[test]
    fn a_day_of_events_stays_within_two_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        const MOST: u64 = 1 << 20;
        const DAY_S: u64 = 86_400;
        let mut events = EventFile::open(&path, MOST).expect("a file");
        for second in 0..DAY_S {
            let event = late(second * 1_000_000_000, 1_000_000 + second);
            events.write(("239.0.0.1:5004", 0), &event, Some("thread gzip 1 ms")).expect("room");
        }
        for path in [path.clone(), previous(&path)] {
            assert!(fs::metadata(&path).expect("a file").len() <= MOST);
        }
        let (old, new) = (lines(&previous(&path)), lines(&path));
        let second =
            |line: &serde_json::Value| line["unix_ns"].as_u64().expect("a number") / 1_000_000_000;
        assert_eq!(second(new.last().expect("a line")), DAY_S - 1);
        let all: Vec<u64> = old.iter().chain(&new).map(second).collect();
        assert!(all.len() > 3_000 && all.windows(2).all(|pair| pair[1] == pair[0] + 1));
        assert_eq!(new[0]["causes"], "thread gzip 1 ms");
        assert_eq!(new[0]["before_socket_ns"].as_u64(), Some(1_000_000 + second(&new[0])));
    }

    #[test]
    fn what_is_no_file_is_refused_and_a_line_that_was_cut_is_ended() {
        assert!(EventFile::open(Path::new("/dev/null"), MAX_BYTES).is_err());
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        fs::write(&path, "{\"utc\":").expect("written");
        let mut events = EventFile::open(&path, MAX_BYTES).expect("a file");
        events.write(("a", 0), &Event::Restart { at_ns: 3 }, None).expect("room");
        let text = fs::read_to_string(&path).expect("a file");
        let last = text.lines().last().expect("a line");
        assert!(serde_json::from_str::<serde_json::Value>(last).is_ok(), "{text}");
    }

    #[test]
    fn events_are_appended_to_those_of_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        for event in [
            Event::Silence { since_ns: 1, at_ns: 2 },
            Event::Pause { ns: 5, at_ns: 2_000_000 },
            Event::Restart { at_ns: 3 },
        ] {
            let mut events = EventFile::open(&path, MAX_BYTES).expect("a file");
            events.write(("a", 1_000), &event, None).expect("room");
        }
        let lines = lines(&path);
        let names: Vec<_> = lines.iter().map(|line| line["event"].as_str()).collect();
        assert_eq!(names, [Some("silence"), Some("pause"), Some("restart")]);
        assert_eq!(lines[1]["utc"], "1970-01-01 00:00:00.002 UTC");
        assert_eq!((lines[1]["lasted_ns"].as_u64(), lines[0].get("causes")), (Some(5), None));
    }
}
