//! Reading an object: several parts are on their way, so that round trips do not bound the rate.

use super::error::{ended, failed};
use super::{Shared, unless};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::task::JoinHandle;

/// Bytes of a request.
const PART_BYTES: u64 = 4 << 20;
/// Requests at the same time: 32 MiB.
const MAX_PARTS: usize = 8;

/// An object from some byte on.
pub(super) struct Reader {
    shared: Arc<Shared>,
    key: Path,
    /// Of the listed object: another one is not read.
    tag: Option<String>,
    size: u64,
    /// The next byte to be asked for.
    next: u64,
    coming: VecDeque<JoinHandle<io::Result<Vec<u8>>>>,
    part: io::Cursor<Vec<u8>>,
    /// The transfer has ended: nothing is waited for.
    over: Arc<AtomicBool>,
}

impl Reader {
    pub(super) fn begin(
        shared: &Arc<Shared>,
        (key, tag): (Path, &str),
        (size, from): (u64, u64),
        over: Arc<AtomicBool>,
    ) -> Self {
        let tag = Some(tag).filter(|tag| !tag.is_empty()).map(str::to_owned);
        let (coming, part) = (VecDeque::new(), io::Cursor::default());
        let shared = Arc::clone(shared);
        let mut reader = Self { shared, key, tag, size, next: from, coming, part, over };
        reader.ask();
        reader
    }

    /// Asks for as many parts as may be on their way.
    fn ask(&mut self) {
        while self.next < self.size && self.coming.len() < MAX_PARTS {
            let range = self.next..(self.next + PART_BYTES).min(self.size);
            self.next = range.end;
            self.coming.push_back(self.part(range));
        }
    }

    fn part(&self, range: Range<u64>) -> JoinHandle<io::Result<Vec<u8>>> {
        let (store, key) = (self.shared.reading.clone(), self.key.clone());
        let expected = range.end - range.start;
        let range = Some(GetRange::Bounded(range));
        let options = GetOptions { if_match: self.tag.clone(), range, ..GetOptions::default() };
        self.shared.runtime.spawn(async move {
            let got = store.get_opts(&key, options).await.map_err(failed)?;
            let bytes = got.bytes().await.map_err(failed)?;
            if bytes.len() as u64 != expected {
                let text = format!("the store sent {} bytes instead of {expected}", bytes.len());
                return Err(io::Error::new(ErrorKind::ConnectionAborted, text));
            }
            Ok(bytes.into())
        })
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.part.read(into)?;
        if bytes == 0
            && !into.is_empty()
            && let Some(part) = self.coming.pop_front()
        {
            let part = unless(&self.over, async { ended(part.await) });
            self.part = io::Cursor::new(self.shared.runtime.block_on(part)?);
            self.ask();
            bytes = self.part.read(into)?;
        }
        Ok(bytes)
    }
}

impl Drop for Reader {
    /// Parts that nobody reads are not fetched.
    fn drop(&mut self) {
        self.coming.iter().for_each(JoinHandle::abort);
    }
}
