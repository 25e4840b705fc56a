//! Data to send is read from files; received files appear when they are complete.
//!
//! [`Source`] lists objects and reads their chunks; [`Folder`] and [`Sink`] write them, and [`Ordered`]
//! gives them to a pipe, or to the [`Upload`] of an object store ([`Bucket`]). An object is divided into chunks of 2^n bytes ([`ChunkBytes`]), the last one shorter.
//! Each chunk of a file has a hash that is a node of the object's BLAKE3 tree (section 2.1 of the paper), so chunks are
//! hashed in any order, on any core, and the object's hash is the usual BLAKE3 hash of the file. What has no length, a
//! [`Pipe`], is divided where it pauses, and hashed in order.
//!
//! Bounds: [`MAX_OBJECTS`] of a source, [`MAX_CHUNKS`] of an object, [`MAX_NAME_BYTES`] of a name. A
//! sink keeps 32 bytes for each chunk, and one record of 76 bytes in its journal.

mod bucket;
mod choice;
mod chunk;
mod digest;
mod dress;
mod error;
mod extra;
mod flusher;
mod folder;
mod hard_link;
mod have;
mod holes;
// Public for the fuzz target of this format only.
#[doc(hidden)]
pub mod journal;
mod leftovers;
mod link;
mod name;
mod ordered;
mod partial;
mod patterns;
mod pipe;
mod quota;
mod reader;
mod sink;
mod source;
mod stamp;

pub use bucket::{Bucket, Stored, Upload};
pub(crate) use bucket::{existing, failure, key_of, place};
pub use choice::Choice;
pub use chunk::{ChunkBytes, MAX_CHUNKS};
pub(crate) use digest::derived;
pub use digest::{ChunkHash, Tree};
pub use dress::warm_up;
pub use error::{Failures, FileError};
pub(crate) use folder::MADE_BYTES;
pub use folder::{Existing, Folder};
pub(crate) use hard_link::{FileId, LinkFolder};
pub use have::Have;
pub use name::{MAX_NAME_BYTES, Name};
pub use ordered::Ordered;
pub use patterns::Patterns;
pub(crate) use pipe::standard_output;
pub use pipe::{Pipe, PipeFile};
pub use quota::{Quota, Quotas};
pub use reader::Reader;
pub(crate) use sink::SMALL_BYTES;
pub use sink::Sink;
pub(crate) use source::Root;
pub use source::{Input, Kind, MAX_OBJECTS, Object, Skipped, Source};
pub use stamp::Stamp;
