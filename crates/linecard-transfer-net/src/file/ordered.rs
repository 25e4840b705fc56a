//! Chunks to a pipe: in order, with few held.

use super::{ChunkBytes, FileError};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes chunks in order to what cannot be written otherwise. Chunks ahead of their turn are held, up to a window;
/// what has been written cannot be taken back when the hash turns out to be wrong.
#[derive(Debug)]
pub struct Ordered<W> {
    out: W,
    path: PathBuf,
    chunk_bytes: ChunkBytes,
    window: u32,
    next: u32,
    held: BTreeMap<u32, Vec<u8>>,
    /// Of nearly 2 KB.
    hasher: Box<blake3::Hasher>,
    written: u64,
}

impl<W: Write> Ordered<W> {
    /// `out`, called `path` in messages, with at most `window` chunks held, at least 1.
    pub fn new(out: W, path: &Path, chunk_bytes: ChunkBytes, window: u32) -> Self {
        let (held, hasher) = (BTreeMap::new(), Box::new(blake3::Hasher::new()));
        let (path, window) = (path.into(), window.max(1));
        Self { out, path, chunk_bytes, window, next: 0, held, hasher, written: 0 }
    }

    /// Where it is written, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Chunks from this on are not taken yet.
    #[must_use]
    pub const fn window_end(&self) -> u32 {
        self.next.saturating_add(self.window)
    }

    /// Whether it was given this chunk.
    #[must_use]
    pub fn has(&self, chunk: u32) -> bool {
        chunk < self.next || self.held.contains_key(&chunk)
    }

    /// Takes a chunk, and writes it and what follows it if it is its turn. One that it has is ignored.
    ///
    /// # Errors
    ///
    /// [`FileError::Room`] beyond the window, [`FileError::Chunk`] if it is empty or longer than chunks are, and what
    /// the system says; a closed pipe is [`FileError::Closed`].
    pub fn write(&mut self, chunk: u32, bytes: Vec<u8>) -> Result<(), FileError> {
        let len = bytes.len();
        if chunk >= self.window_end() {
            let room = self.window as usize;
            return Err(FileError::Room { chunk, bytes: len as u64, room });
        }
        if len == 0 || len as u64 > self.chunk_bytes.bytes() {
            let path = self.path.clone();
            return Err(FileError::Chunk { path, chunk, bytes: len });
        }
        if !self.has(chunk) {
            self.held.insert(chunk, bytes);
        }
        while let Some(bytes) = self.held.remove(&self.next) {
            self.hasher.update(&bytes);
            let written = self.out.write_all(&bytes);
            written.map_err(|error| FileError::of(error, "write", &self.path, len as u64))?;
            self.written += bytes.len() as u64;
            self.next += 1;
        }
        Ok(())
    }

    /// Flushes the output and compares the hash of what was written.
    ///
    /// # Errors
    ///
    /// Those of [`Ordered::end`], and [`FileError::Damaged`] (it has been written all the same).
    pub fn finish(self, size: u64, expected: &blake3::Hash) -> Result<W, FileError> {
        let kept = self.path.clone();
        match self.end(size)? {
            (out, hash) if hash == *expected => Ok(out),
            _ => Err(FileError::Damaged { path: kept.clone(), kept }),
        }
    }

    /// Flushes the output, and gives it back with the hash of what was written.
    ///
    /// # Errors
    ///
    /// [`FileError::NotWhole`] if that is not `size` bytes, and what the system says.
    pub fn end(mut self, size: u64) -> Result<(W, blake3::Hash), FileError> {
        if self.written != size {
            let left = size.saturating_sub(self.written);
            let missing = self.chunk_bytes.count(left).unwrap_or(u32::MAX);
            return Err(FileError::NotWhole { path: self.path, missing });
        }
        let flushed = self.out.flush();
        flushed.map_err(|error| FileError::of(error, "write", &self.path, 0))?;
        Ok((self.out, self.hasher.finalize()))
    }

    /// The output, though more was to come.
    pub(crate) fn into_out(self) -> W {
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn chunks() -> ChunkBytes {
        ChunkBytes::new(1_024).unwrap()
    }

    fn ordered(window: u32) -> Ordered<Vec<u8>> {
        Ordered::new(Vec::new(), Path::new("-"), chunks(), window)
    }

    #[test]
    fn chunks_come_out_in_order_and_no_more_than_the_window_is_held() {
        let bytes: Vec<u8> = (0..4_500_u32).map(|at| (at * 7) as u8).collect();
        let part = |chunk: u32| {
            let range = chunks().range(chunk, 4_500);
            bytes[range.start as usize..range.end as usize].to_vec()
        };
        let mut out = ordered(3);
        assert!(matches!(out.write(3, part(3)), Err(FileError::Room { chunk: 3, .. })));
        for chunk in [2, 1, 2, 0, 4, 3, 1] {
            out.write(chunk, part(chunk)).unwrap();
        }
        assert_eq!(out.window_end(), 8);
        assert_eq!(out.finish(4_500, &blake3::hash(&bytes)).unwrap(), bytes);
    }

    /// A pipe is divided where it pauses.
    #[test]
    fn chunks_may_have_any_length() {
        let mut out = ordered(4);
        for (chunk, bytes) in [(3, &b"d"[..]), (0, b"aaaa"), (2, &[7; 1_024]), (1, b"bb")] {
            out.write(chunk, bytes.to_vec()).unwrap();
        }
        let all = [&b"aaaabb"[..], &[7; 1_024], b"d"].concat();
        let (written, hash) = out.end(1_031).unwrap();
        assert_eq!((written, hash), (all.clone(), blake3::hash(&all)));
    }

    #[test]
    fn what_is_not_whole_not_right_or_not_taken_is_said() {
        let whole = blake3::hash(&[1; 1_024]);
        let mut out = ordered(2);
        out.write(1, vec![1]).unwrap();
        assert!(matches!(out.finish(1_025, &whole), Err(FileError::NotWhole { missing: 2, .. })));
        let mut out = ordered(2);
        out.write(0, vec![2; 1_024]).unwrap();
        assert!(matches!(out.finish(1_024, &whole), Err(FileError::Damaged { .. })));
        for len in [0, 1_025] {
            assert!(matches!(ordered(1).write(0, vec![0; len]), Err(FileError::Chunk { .. })));
        }
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let refused = Ordered::new(Closed, Path::new("-"), chunks(), 1).write(0, vec![1]);
        assert!(matches!(refused, Err(FileError::Closed { .. })));
    }
}
