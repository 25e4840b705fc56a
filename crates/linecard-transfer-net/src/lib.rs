//! Bulk transfer over many lanes on real networks: sockets, keys, files and threads around
//! `linecard_transfer`, which decides.

pub mod control;
pub mod end;
pub mod file;
pub mod keys;
pub mod lane;
pub mod receive;
pub mod seal;
pub mod send;
pub mod stages;
