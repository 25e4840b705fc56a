//! An object store in memory.

use linecard_transfer_net::file::{Bucket, Stamp, Stored, Upload};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// Bytes that a reader takes at a time.
const READ_BYTES: usize = 64 << 10;

/// A bucket. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, Held>,
    version: u64,
    /// All objects get other content after so many more bytes were read.
    bytes_until_replaced: Option<usize>,
    /// Bytes of uploads that were not finished.
    dropped_bytes: usize,
    uploads: usize,
}

#[derive(Debug, Clone)]
struct Held {
    bytes: Arc<Vec<u8>>,
    file: Option<Stamp>,
    version: u64,
}

/// An object that is read.
struct Reader {
    state: Arc<Mutex<State>>,
    stored: Stored,
    at: usize,
}

struct Writer {
    state: Arc<Mutex<State>>,
    name: String,
    file: Stamp,
    bytes: Option<Vec<u8>>,
}

impl Memory {
    pub(crate) fn new(url: &str) -> Self {
        Self { url: url.into(), state: Arc::default() }
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>, file: Option<Stamp>) {
        self.state.lock().expect("no panic").put(name, bytes, file);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock().expect("no panic");
        state.objects.get(name).map(|held| held.bytes.to_vec())
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.state.lock().expect("no panic").objects.keys().cloned().collect()
    }

    pub(crate) fn replace_after(&self, bytes: usize) {
        self.state.lock().expect("no panic").bytes_until_replaced = Some(bytes);
    }

    /// Uploads that were begun, and bytes of those that were not finished.
    pub(crate) fn counted(&self) -> (usize, usize) {
        let state = self.state.lock().expect("no panic");
        (state.uploads, state.dropped_bytes)
    }
}

impl State {
    fn put(&mut self, name: &str, bytes: Vec<u8>, file: Option<Stamp>) {
        self.version += 1;
        let held = Held { bytes: Arc::new(bytes), file, version: self.version };
        self.objects.insert(name.to_owned(), held);
    }

    fn stored(&self, name: &str) -> Option<Stored> {
        self.objects.get(name).map(|held| Stored {
            name: name.to_owned(),
            size: held.bytes.len() as u64,
            modified: held.file,
            tag: held.version.to_string(),
        })
    }
}

impl Bucket for Memory {
    fn url(&self) -> &str {
        &self.url
    }

    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, limit: usize) -> io::Result<Vec<Stored>> {
        let state = self.state.lock().expect("no panic");
        let all = state.objects.keys().filter_map(|name| state.stored(name));
        // When they were stored, in place of the time of the file.
        let stamp = |stored: Stored| Stored { modified: Some(Stamp { secs: 7, ns: 0 }), ..stored };
        Ok(all.take(limit + 1).map(stamp).collect())
    }

    fn look(&self, name: &str) -> io::Result<Option<Stored>> {
        Ok(self.state.lock().expect("no panic").stored(name))
    }

    fn read(
        &self,
        stored: &Stored,
        from: u64,
        _: &Arc<AtomicBool>,
    ) -> io::Result<Box<dyn Read + Send>> {
        let (state, stored) = (Arc::clone(&self.state), stored.clone());
        Ok(Box::new(Reader { state, stored, at: from as usize }))
    }

    fn create(
        &self,
        name: &str,
        (_, file): (Option<u64>, Stamp),
        _: &Arc<AtomicBool>,
    ) -> io::Result<Box<dyn Upload>> {
        self.state.lock().expect("no panic").uploads += 1;
        let (state, bytes) = (Arc::clone(&self.state), Some(Vec::new()));
        Ok(Box::new(Writer { state, name: name.to_owned(), file, bytes }))
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.lock().expect("no panic");
        let held = state.objects.get(&self.stored.name).cloned();
        let held = held.ok_or(ErrorKind::NotFound)?;
        if held.version.to_string() != self.stored.tag {
            return Err(ErrorKind::StaleNetworkFileHandle.into());
        }
        let rest = &held.bytes[self.at.min(held.bytes.len())..];
        let bytes = rest.len().min(into.len()).min(READ_BYTES);
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.at += bytes;
        if let Some(left) = &mut state.bytes_until_replaced {
            *left = left.saturating_sub(bytes);
            if *left == 0 {
                state.put(&self.stored.name, held.bytes.iter().map(|byte| !byte).collect(), None);
            }
        }
        Ok(bytes)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.as_mut().expect("it is not finished").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload for Writer {
    fn finish(&mut self) {
        let bytes = self.bytes.take().expect("it is finished once");
        self.state.lock().expect("no panic").put(&self.name, bytes, Some(self.file));
    }

    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let left = self.bytes.take().map_or(0, |bytes| bytes.len());
        self.state.lock().expect("no panic").dropped_bytes += left;
    }
}
