//! Writing an object: small ones by one request, others in parts, several of which are on their way.

use super::client::{Answer, Ask, Client, Held, Taken};
use super::xml;
use crate::file;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Least bytes of a part that is not the last.
const PART_BYTES: u64 = 8 << 20;
/// Parts that an object may have.
const MAX_PARTS: u64 = 10_000;
/// An object of unknown length gets parts of twice the length after each thousand, and of 16 times at most: there is room
/// for 900 GiB.
const GROWING_PARTS: usize = 1_000;
const MAX_DOUBLINGS: usize = 4;
/// Parts on their way, beside the bound of all bytes.
const MAX_SENDING: usize = 8;
/// Tries to remove the parts of an upload that has failed.
const ABORT_TRIES: u32 = 2;

/// An object that is being written.
pub(super) struct Upload {
    size: Option<u64>,
    part: Vec<u8>,
    /// Of its bytes.
    held: Held,
    /// None after the end.
    parts: Option<Parts>,
    ending: Option<JoinHandle<io::Result<()>>>,
}

/// Its parts. Dropped before they are one object, they are removed.
struct Parts {
    client: Arc<Client>,
    key: String,
    /// The time of the file, as metadata.
    modified: String,
    /// Of an upload in parts.
    id: Option<String>,
    /// Of those that are there.
    tags: Vec<String>,
    sending: VecDeque<JoinHandle<io::Result<String>>>,
}

impl Upload {
    pub(super) fn new(
        client: Arc<Client>,
        (key, modified): (String, String),
        size: Option<u64>,
    ) -> Self {
        let (tags, sending) = (Vec::new(), VecDeque::new());
        let held = client.room.held();
        let parts = Some(Parts { client, key, modified, id: None, tags, sending });
        Self { size, part: Vec::new(), held, parts, ending: None }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(parts) = &mut self.parts else { return Ok(0) };
        let whole = parts.next_bytes(self.size);
        // The last part waits for the end: an object of one part is no upload in parts.
        if self.part.len() >= whole {
            self.held.clear();
            parts.send(std::mem::take(&mut self.part))?;
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
        let (last, Some(parts)) = (std::mem::take(&mut self.part), self.parts.take()) else {
            return;
        };
        self.held.clear();
        let room = parts.client.room.take(last.len());
        self.ending = thread::Builder::new().spawn(move || parts.end(last, room)).ok();
    }

    fn wait(&mut self) -> io::Result<()> {
        match self.ending.take().map(JoinHandle::join) {
            Some(ended) => ended.unwrap_or_else(|_| Err(panicked())),
            None => Err(io::Error::other("this host starts no more threads; run again")),
        }
    }
}

fn panicked() -> io::Error {
    io::Error::other("a bug in linecard: a thread has panicked")
}

impl Parts {
    /// Length of the next part.
    fn next_bytes(&self, size: Option<u64>) -> usize {
        let bytes = match size {
            Some(size) => size.div_ceil(MAX_PARTS).max(PART_BYTES),
            None => {
                let sent = self.tags.len() + self.sending.len();
                PART_BYTES << (sent / GROWING_PARTS).min(MAX_DOUBLINGS)
            }
        };
        // More than this cannot be had.
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Sends a part, and waits if too many are on their way.
    fn send(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let id = match &self.id {
            Some(id) => id.clone(),
            None => self.begin()?,
        };
        if self.sending.len() >= MAX_SENDING {
            self.join()?;
        }
        let number = self.tags.len() + self.sending.len() + 1;
        let room = self.client.room.take(bytes.len());
        let (client, key) = (Arc::clone(&self.client), self.key.clone());
        let sending = thread::Builder::new().spawn(move || {
            let _room = room;
            let number = number.to_string();
            let query = [("partNumber", &*number), ("uploadId", &*id)];
            let ask =
                Ask { method: "PUT", key: &key, query: &query, body: &bytes, ..Ask::default() };
            tag(&client.ask(&ask)?)
        })?;
        self.sending.push_back(sending);
        Ok(())
    }

    /// Waits for the first part on its way.
    fn join(&mut self) -> io::Result<()> {
        if let Some(sending) = self.sending.pop_front() {
            self.tags.push(sending.join().unwrap_or_else(|_| Err(panicked()))?);
        }
        Ok(())
    }

    /// Begins an upload in parts.
    fn begin(&mut self) -> io::Result<String> {
        let (query, headers) = ([("uploads", "")], self.headers());
        let ask = Ask {
            method: "POST",
            key: &self.key,
            query: &query,
            headers: &headers,
            ..Ask::default()
        };
        let answer = self.client.ask(&ask)?.text();
        let id = xml::text(&answer, "UploadId")
            .ok_or_else(|| io::Error::other("the store begins an upload without a name for it"))?;
        self.id = Some(id.clone());
        Ok(id)
    }

    fn headers(&self) -> [(&'static str, &str); 1] {
        [(MODIFIED, &self.modified)]
    }

    /// Stores the object, of which this is the last part.
    fn end(mut self, last: Vec<u8>, room: Taken) -> io::Result<()> {
        if self.id.is_none() {
            let headers = self.headers();
            let ask = Ask {
                method: "PUT",
                key: &self.key,
                headers: &headers,
                body: &last,
                ..Ask::default()
            };
            return self.client.ask(&ask).map(drop);
        }
        // It counts once more where it is sent.
        drop(room);
        self.send(last)?;
        while !self.sending.is_empty() {
            self.join()?;
        }
        let mut list = "<CompleteMultipartUpload>".to_owned();
        for (at, tag) in self.tags.iter().enumerate() {
            let number = at + 1;
            let _infallible =
                write!(list, "<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        }
        list.push_str("</CompleteMultipartUpload>");
        let query = [("uploadId", self.id.as_deref().unwrap_or_default())];
        let body = list.as_bytes();
        let ask = Ask { method: "POST", key: &self.key, query: &query, body, ..Ask::default() };
        self.client.ask(&ask)?;
        self.id = None;
        Ok(())
    }
}

/// The metadata of an object with the time of its file.
pub(super) const MODIFIED: &str = "x-amz-meta-mtime";

/// The tag of a part, as it goes into XML.
fn tag(answer: &Answer) -> io::Result<String> {
    let tag = answer.header("etag").filter(|tag| !tag.contains(['<', '&']));
    tag.map(str::to_owned).ok_or_else(|| io::Error::other("the store gives a part no tag"))
}

impl Drop for Parts {
    /// Otherwise they would stay, unseen, and cost.
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        // One that comes later would stay.
        self.sending.drain(..).for_each(|sending| drop(sending.join()));
        let query = [("uploadId", &*id)];
        let ask = Ask { method: "DELETE", key: &self.key, query: &query, ..Ask::default() };
        let _removed = self.client.ask_times(&ask, ABORT_TRIES);
    }
}
