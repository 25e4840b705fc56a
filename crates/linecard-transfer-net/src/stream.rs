//! Connections of bytes, under control messages and under lanes over TCP.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

/// A connection that gives and takes bytes, and never waits.
pub(crate) trait Stream: Read + Write + AsFd + Debug + Send + Sync {}

impl Stream for TcpStream {}
