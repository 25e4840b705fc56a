//! Capture files as ports: frames from one, and what is transmitted into one.
//!
//! Reading and writing may wait for the disk, and for the other program where the file is a pipe.
//!
//! Not supported: the segment sizes that `linecard coalesce` writes into pcapng, several link
//! types in one output.

mod sink;
mod source;

pub use sink::CaptureSink;
pub use source::{CaptureSource, Pace};
