//! The checks of the fuzz targets: each takes any bytes and panics when a promise is broken.
//!
//! The builders of frames and the slow twins are those of the property tests, so that a fuzzer
//! holds the code against the same specification, with inputs that coverage has led it to.

mod abi;
mod ack_filter;
mod burst;
mod capture;
mod coalesce;
mod control;
mod convert;
mod draw;
mod fec;
mod firmware;
mod http;
mod journal;
mod keys;
mod media;
mod parse;
mod reassemble;
mod resequence;
mod scenario;
mod seal;
mod segment;
mod settings;
mod traffic;
mod transfer;
mod virtio;
mod watch;

pub use abi::abi;
pub use ack_filter::ack_filter;
pub use burst::burst;
pub use capture::capture;
pub use coalesce::coalesce;
pub use control::control;
pub use convert::convert;
pub use fec::fec;
pub use firmware::firmware;
pub use http::http;
pub use journal::journal;
pub use keys::keys;
pub use media::media;
pub use parse::parse;
pub use reassemble::reassemble;
pub use resequence::resequence;
pub use scenario::scenario;
pub use seal::seal;
pub use segment::segment;
pub use settings::settings;
pub use transfer::transfer;
pub use virtio::virtio;
pub use watch::watch;
