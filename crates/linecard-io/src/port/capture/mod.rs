//! Capture files as ports: frames are received from one, and transmitted into one.
//!
//! Reading and writing may block on the disk, or on the other program if the file is a pipe.
//!
//! Not supported: the segment sizes that `linecard coalesce` writes into pcapng, several link
//! types in one output.

mod sink;
mod source;

pub use sink::CaptureSink;
pub use source::{CaptureSource, Pace};
