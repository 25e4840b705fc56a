//! What is sent is read from files, and what is received appears when it is whole.
//!
//! ```text
//! Source::open(path)  → objects(), skipped(), reader(i) → Reader::read(chunk, &mut [u8]) → Piece
//!                                                       → Reader::finish(): unchanged meanwhile
//! ChunkHash::of(offset, bytes), Tree::set(chunk, hash), Tree::root(size) → blake3::Hash
//! Folder::open(path)  → folder.sink(&Object, ChunkBytes, overwrite) → Sink
//!                       folder.make(&Object) for folders, folder.finish() for their modes
//! Sink::have() → Have (what an earlier run left), Sink::write(chunk, bytes) → ChunkHash,
//! Sink::end_at(size) for streams, Sink::finish(&expected root)
//! Ordered::new(writer, ChunkBytes, window) → write(chunk, Vec<u8>), window_end(), finish(size, root)
//! ```
//!
//! An object is cut into chunks of 2^n bytes, the last one shorter. Each chunk's hash is a node of the
//! object's BLAKE3 tree (section 2.1 of the paper): so chunks are hashed in any order, on any core, and
//! the object's hash is what everybody else computes of the file.
