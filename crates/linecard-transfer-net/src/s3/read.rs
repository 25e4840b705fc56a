//! Reading an object: several parts are on their way, so that round trips do not bound the rate.

use super::client::{Ask, Client};
use std::collections::VecDeque;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Bytes of a request.
const PART_BYTES: u64 = 4 << 20;
/// Requests at the same time: 32 MiB.
const MAX_PARTS: usize = 8;

/// An object from some byte on.
pub(super) struct Reader {
    object: Object,
    size: u64,
    /// The next byte to be asked for.
    next: u64,
    coming: VecDeque<JoinHandle<io::Result<Vec<u8>>>>,
    part: io::Cursor<Vec<u8>>,
}

/// A state of an object.
#[derive(Clone)]
pub(super) struct Object {
    pub(super) client: Arc<Client>,
    pub(super) key: String,
    pub(super) tag: String,
}

impl Reader {
    pub(super) fn begin(object: Object, size: u64, from: u64) -> io::Result<Self> {
        let (coming, part) = (VecDeque::new(), io::Cursor::default());
        let mut reader = Self { object, size, next: from, coming, part };
        reader.ask()?;
        Ok(reader)
    }

    /// Asks for as many parts as may be on their way.
    fn ask(&mut self) -> io::Result<()> {
        while self.next < self.size && self.coming.len() < MAX_PARTS {
            let range = self.next..(self.next + PART_BYTES).min(self.size);
            self.next = range.end;
            let object = self.object.clone();
            self.coming.push_back(thread::Builder::new().spawn(move || object.part(&range))?);
        }
        Ok(())
    }
}

impl Object {
    fn part(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let mut headers = vec![("range", &*bytes)];
        if !self.tag.is_empty() {
            headers.push(("if-match", &self.tag));
        }
        let expected = Some((range.end - range.start) as usize);
        let ask = Ask { key: &self.key, headers: &headers, expected, ..Ask::default() };
        Ok(self.client.ask(&ask)?.body)
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.part.read(into)?;
        if bytes == 0
            && !into.is_empty()
            && let Some(part) = self.coming.pop_front()
        {
            let part =
                part.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
            self.part = io::Cursor::new(part?);
            self.ask()?;
            bytes = self.part.read(into)?;
        }
        Ok(bytes)
    }
}
