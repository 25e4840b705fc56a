//! Bulk transfer over many lanes on real networks: sockets, keys, files and threads around
//! `linecard_transfer`, which decides.
