//! Bulk transfer over many lanes on real networks: sockets, keys, files and threads around
//! `linecard_transfer`, which decides.

pub mod control;
pub mod end;
pub mod file;
pub mod keys;
pub mod lane;
pub mod receive;
#[cfg(feature = "objects")]
pub mod s3;
pub mod seal;
pub mod send;
#[cfg(test)]
mod simulated;
pub mod stages;
mod stream;
