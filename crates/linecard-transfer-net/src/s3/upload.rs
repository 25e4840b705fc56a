//! Writing an object: small ones by one request, others in parts, several of which are on their way.

use super::error::{ended, failed};
use super::room::{Held, Taken, over_error};
use super::{Shared, unless};
use crate::file;
use object_store::path::Path;
use object_store::{Attributes, MultipartUpload, ObjectStore, PutMultipartOptions, PutOptions};
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

/// Least bytes of a part that is not the last.
const PART_BYTES: u64 = 8 << 20;
/// Parts that an object may have.
const MAX_PARTS: u64 = 10_000;
/// An object of unknown length gets parts of twice the length after each thousand, and of 16 times at most: there is room
/// for 860 GiB.
const GROWING_PARTS: usize = 1_000;
const MAX_DOUBLINGS: usize = 4;
/// Parts on their way, beside the bound of all bytes.
const MAX_SENDING: usize = 8;
/// How long to try to remove the parts of an upload that has failed.
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// An object that is being written.
pub(super) struct Upload {
    shared: Arc<Shared>,
    key: Path,
    /// Its metadata.
    attributes: Attributes,
    size: Option<u64>,
    part: Vec<u8>,
    /// Of its bytes.
    held: Held,
    parts: Parts,
    ending: Option<JoinHandle<io::Result<()>>>,
    /// A part is missing: it is never stored.
    has_failed: bool,
    /// The transfer has ended: nothing is waited for.
    over: Arc<AtomicBool>,
}

/// The parts of an object that are on their way or there; none of an object that has only one.
#[derive(Default)]
struct Parts {
    upload: Option<Box<dyn MultipartUpload>>,
    /// Begun so far.
    count: usize,
    sending: JoinSet<io::Result<()>>,
}

impl Upload {
    pub(super) fn new(
        shared: &Arc<Shared>,
        (key, attributes): (Path, Attributes),
        size: Option<u64>,
        over: Arc<AtomicBool>,
    ) -> Self {
        Self {
            shared: Arc::clone(shared),
            key,
            attributes,
            size,
            part: Vec::new(),
            held: shared.room.held(),
            parts: Parts::default(),
            ending: None,
            has_failed: false,
            over,
        }
    }

    /// Length of the next part.
    fn next_bytes(&self) -> usize {
        let bytes = match self.size {
            Some(size) => size.div_ceil(MAX_PARTS).max(PART_BYTES),
            None => PART_BYTES << (self.parts.count / GROWING_PARTS).min(MAX_DOUBLINGS),
        };
        // More than this cannot be had.
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Sends a part that is not the last, and waits if too many are on their way.
    fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let room = self.shared.room.take(bytes.len(), &self.over)?;
        let runtime = &self.shared.runtime;
        if self.parts.upload.is_none() {
            let attributes = self.attributes.clone();
            let options = PutMultipartOptions { attributes, ..PutMultipartOptions::default() };
            let beginning = self.shared.writing.put_multipart_opts(&self.key, options);
            let beginning = async { beginning.await.map_err(failed) };
            self.parts.upload = Some(runtime.block_on(unless(&self.over, beginning))?);
        }
        if self.parts.sending.len() >= MAX_SENDING {
            runtime.block_on(unless(&self.over, self.parts.one_is_there()))?;
        }
        let _context = runtime.enter();
        self.parts.send(bytes, room);
        Ok(())
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole = self.next_bytes();
        // The last part waits for the end: an object of one part is no upload in parts.
        if self.part.len() >= whole {
            self.held.clear();
            let part = std::mem::take(&mut self.part);
            self.has_failed = true;
            self.send(part)?;
            self.has_failed = false;
        }
        if self.part.capacity() == 0 {
            let all = self.size.and_then(|size| usize::try_from(size).ok());
            let bytes = all.map_or(0, |all| all.min(whole));
            self.part.try_reserve_exact(bytes).map_err(|_| ErrorKind::OutOfMemory)?;
        }
        let bytes = &bytes[..bytes.len().min(whole - self.part.len())];
        self.held.add(bytes.len())?;
        self.part.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl file::Upload for Upload {
    fn finish(&mut self) {
        if self.has_failed {
            return;
        }
        let (last, mut parts) = (std::mem::take(&mut self.part), std::mem::take(&mut self.parts));
        self.held.clear();
        let Ok(room) = self.shared.room.take(last.len(), &self.over) else {
            self.parts = parts;
            return;
        };
        if parts.upload.is_some() {
            self.ending = Some(self.shared.runtime.spawn(async move {
                parts.send(last, room);
                let stored = parts.complete().await;
                if stored.is_err() {
                    parts.abort().await;
                }
                stored
            }));
            return;
        }
        let (store, key) = (self.shared.writing.clone(), self.key.clone());
        let attributes = self.attributes.clone();
        let options = PutOptions { attributes, ..PutOptions::default() };
        self.ending = Some(self.shared.runtime.spawn(async move {
            let _room = room;
            store.put_opts(&key, last.into(), options).await.map(drop).map_err(failed)
        }));
    }

    fn wait(&mut self) -> io::Result<()> {
        let Some(ending) = &mut self.ending else { return Err(over_error()) };
        let stored = unless(&self.over, async { ended(ending.await) });
        let stored = self.shared.runtime.block_on(stored);
        // One that has ended is not awaited again.
        self.ending.take_if(|ending| ending.is_finished());
        if stored.is_ok() {
            self.shared.is_lost.store(false, Ordering::Relaxed);
        }
        stored
    }
}

impl Drop for Upload {
    /// Otherwise the parts would stay, unseen, and cost.
    fn drop(&mut self) {
        let Shared { runtime, is_lost, .. } = &*self.shared;
        // All of it has come, and its hash is right.
        if let Some(mut ending) = self.ending.take()
            && !is_lost.load(Ordering::Relaxed)
            && runtime.block_on(async { timeout(ABORT_TIMEOUT, &mut ending).await }).is_err()
        {
            ending.abort();
            is_lost.store(true, Ordering::Relaxed);
        }
        if self.parts.upload.is_some()
            && !is_lost.load(Ordering::Relaxed)
            && !runtime.block_on(self.parts.abort())
        {
            is_lost.store(true, Ordering::Relaxed);
        }
    }
}

impl Parts {
    /// Sends a part; within the runtime.
    fn send(&mut self, bytes: Vec<u8>, room: Taken) {
        let Some(upload) = &mut self.upload else { return };
        let sending = upload.put_part(bytes.into());
        self.count += 1;
        self.sending.spawn(async move {
            let _room = room;
            sending.await.map_err(failed)
        });
    }

    /// Waits for one of the parts on their way.
    async fn one_is_there(&mut self) -> io::Result<()> {
        self.sending.join_next().await.map_or(Ok(()), ended)
    }

    async fn complete(&mut self) -> io::Result<()> {
        while !self.sending.is_empty() {
            self.one_is_there().await?;
        }
        if let Some(upload) = &mut self.upload {
            upload.complete().await.map_err(failed)?;
        }
        Ok(())
    }

    /// Removes the parts that are there. False if the store does not answer.
    async fn abort(&mut self) -> bool {
        // One that comes later would stay.
        self.sending.shutdown().await;
        match self.upload.take() {
            Some(mut upload) => match timeout(ABORT_TIMEOUT, upload.abort()).await {
                Ok(answer) => {
                    let kind = answer.map_err(|error| failed(error).kind());
                    kind != Err(ErrorKind::ConnectionAborted) && kind != Err(ErrorKind::TimedOut)
                }
                Err(_) => false,
            },
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::on;
    use super::*;
    use crate::file::{Bucket, Stamp};
    use object_store::memory::InMemory;

    /// Parts as they come, of an object of a known length and of another.
    #[test]
    fn parts_become_one_object() {
        let bytes: Vec<u8> = (0_u32..5 << 20).flat_map(u32::to_le_bytes).collect();
        for size in [Some(bytes.len() as u64), None] {
            let bucket = on(InMemory::new(), "s3://b/p");
            let mut upload =
                bucket.create("a/ä +%41", (size, Stamp::default()), &Arc::default()).unwrap();
            for piece in bytes.chunks(1_000_003) {
                upload.write_all(piece).unwrap();
            }
            upload.finish();
            upload.wait().unwrap();
            drop(upload);
            let stored = bucket.list(10).unwrap();
            assert_eq!(stored.len(), 1);
            assert_eq!((&*stored[0].name, stored[0].size), ("a/ä +%41", bytes.len() as u64));
            let (from, mut read) = (7_654_321, Vec::new());
            bucket
                .read(&stored[0], from as u64, &Arc::default())
                .unwrap()
                .read_to_end(&mut read)
                .unwrap();
            assert!(read == bytes[from..]);
        }
    }

    #[test]
    fn an_object_that_is_given_up_is_not_stored() {
        let bucket = on(InMemory::new(), "s3://b");
        let mut upload = bucket.create("x", (None, Stamp::default()), &Arc::default()).unwrap();
        upload.write_all(&vec![0; 20 << 20]).unwrap();
        drop(upload);
        assert!(bucket.list(10).unwrap().is_empty());
    }

    #[test]
    fn lengths_of_parts_leave_room_for_the_largest_object() {
        let bucket = on(InMemory::new(), "s3://b");
        let mut upload =
            Upload::new(&bucket.shared, (Path::ROOT, Attributes::new()), None, Arc::default());
        let mut room = 0_u64;
        for part in 0..MAX_PARTS {
            upload.parts.count = part as usize;
            room += upload.next_bytes() as u64;
        }
        assert!(room > 860 << 30, "{room}");
        for size in [1, PART_BYTES * MAX_PARTS, super::super::MAX_OBJECT_BYTES] {
            upload.size = Some(size);
            assert!(upload.next_bytes() as u64 * MAX_PARTS >= size, "{size}");
        }
        let large = super::super::MAX_OBJECT_BYTES + 1;
        assert!(bucket.create("x", (Some(large), Stamp::default()), &Arc::default()).is_err());
    }
}
