//! Sparse files: zeros take no space here either.

use rustix::fs::FallocateFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of which either all become a hole or none: several blocks of any file system.
const BLOCK: usize = 64 * 1024;

/// Writes `bytes` to a place of a file, and makes holes where whole blocks of them are zero: whatever an
/// earlier run has left there becomes zero, too. Like others, the length of the file is set elsewhere.
pub(super) fn write(file: &File, bytes: &[u8], start: u64) -> io::Result<()> {
    let is_hole = |block: &[u8]| block.len() == BLOCK && block.iter().all(|byte| *byte == 0);
    let mut at = 0;
    while at < bytes.len() {
        let blocks = bytes[at..].chunks(BLOCK).map(|block| (block.len(), is_hole(block)));
        let (mut len, mut kind) = (0, None);
        for (block, hole) in blocks {
            if *kind.get_or_insert(hole) != hole {
                break;
            }
            len += block;
        }
        let (part, place) = (&bytes[at..at + len], start + at as u64);
        if kind != Some(true) || !punch(file, place, len as u64)? {
            file.write_all_at(part, place)?;
        }
        at += len;
    }
    Ok(())
}

/// Makes a hole; false where the file system has none.
fn punch(file: &File, place: u64, len: u64) -> io::Result<bool> {
    let how = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);
    match rustix::fs::fallocate(file, how, place, len) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn zeros_become_holes_and_everything_reads_as_written() {
        let file = tempfile::tempfile().expect("room");
        let mut bytes = vec![0; 5 * BLOCK + 100];
        bytes[BLOCK + 7] = 1;
        file.write_all_at(&vec![9; bytes.len()], 0).expect("room");
        write(&file, &bytes, 0).expect("room");
        file.set_len(bytes.len() as u64).expect("room");
        let mut read = vec![1; bytes.len()];
        file.read_exact_at(&mut read, 0).expect("all of it");
        assert!(read == bytes);
        if punch(&file, 0, BLOCK as u64).expect("a file") {
            let blocks = file.metadata().expect("a file").blocks() * 512;
            assert!(blocks < 3 * BLOCK as u64, "{blocks} bytes on the disk");
        }
    }
}
