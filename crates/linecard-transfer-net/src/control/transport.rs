//! Bytes to the other end and from it, through TLS or not, never waiting.

use super::error::{ControlError, Protocol};
use crate::stream::Stream;
use core::fmt;
use rustls::{AlertDescription, Connection, Error, InvalidMessage, PeerIncompatible};
use std::io::{self, ErrorKind, Read, Write};

/// Bytes that are kept encrypted, or that are encrypted at once, at most.
const QUEUE_BYTES: usize = 64 << 10;

/// Transport of the bytes.
pub(super) enum Transport {
    Tls(Box<Connection>),
    /// Bytes that the socket has not taken.
    Plain(Vec<u8>),
}

/// Result of a read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// This many bytes.
    Bytes(usize),
    /// Nothing has come yet.
    Nothing,
    /// The other end has said that nothing more will come.
    Closed,
}

impl Transport {
    pub(super) fn tls(mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(QUEUE_BYTES));
        Self::Tls(Box::new(connection))
    }

    /// Takes the first of these bytes to be sent; how many.
    pub(super) fn queue(&mut self, bytes: &[u8]) -> Result<usize, ControlError> {
        match self {
            Self::Tls(connection) => Ok(connection.writer().write(bytes)?),
            Self::Plain(waiting) => {
                let taken = bytes.len().min(QUEUE_BYTES - waiting.len().min(QUEUE_BYTES));
                waiting.extend(&bytes[..taken]);
                Ok(taken)
            }
        }
    }

    /// Sends what was taken, as far as the socket goes; whether that is everything.
    pub(super) fn flush(&mut self, stream: &mut dyn Stream) -> Result<bool, ControlError> {
        while self.wants_write() {
            let written = match self {
                Self::Tls(connection) => connection.write_tls(stream),
                Self::Plain(waiting) => stream.write(waiting).inspect(|&count| {
                    waiting.drain(..count);
                }),
            };
            match written {
                Ok(0) => return Err(ControlError::ClosedEarly),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(cut_or(error)),
            }
        }
        Ok(true)
    }

    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Tls(connection) => connection.wants_write(),
            Self::Plain(waiting) => !waiting.is_empty(),
        }
    }

    /// Whether nothing but the handshake can be sent yet.
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(connection) if connection.is_handshaking())
    }

    /// Bytes from the other end, as many as there are and fit.
    pub(super) fn read(
        &mut self,
        stream: &mut dyn Stream,
        bytes: &mut [u8],
    ) -> Result<Received, ControlError> {
        let Self::Tls(connection) = self else {
            return received(retried(|| stream.read(bytes)));
        };
        loop {
            // Decrypted bytes; the end of it only if the other end has said so.
            match connection.reader().read(bytes) {
                Ok(0) => return Ok(Received::Closed),
                Ok(count) => return Ok(Received::Bytes(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(cut_or(error)),
            }
            if pull(connection, stream)? == Received::Nothing {
                return Ok(Received::Nothing);
            }
        }
    }

    /// Takes received bytes without returning any: this is how a handshake proceeds.
    pub(super) fn pull(&mut self, stream: &mut dyn Stream) -> Result<Received, ControlError> {
        match self {
            Self::Tls(connection) => pull(connection, stream),
            Self::Plain(_) => Ok(Received::Nothing),
        }
    }

    /// Queues that nothing more will be sent.
    pub(super) fn close(&mut self) {
        if let Self::Tls(connection) = self {
            connection.send_close_notify();
        }
    }

    /// Secret bytes that only the two ends of this handshake have (RFC 8446, section 7.5). Without
    /// TLS there are none: zeros.
    pub(super) fn export(&self, label: &[u8], context: &[u8]) -> Result<[u8; 32], ControlError> {
        match self {
            Self::Tls(connection) => connection
                .export_keying_material([0; 32], label, Some(context))
                .map_err(ControlError::Tls),
            Self::Plain(_) => Ok([0; 32]),
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls(_) => "Tls",
            Self::Plain(_) => "Plain",
        })
    }
}

/// Reads records and decrypts them.
fn pull(connection: &mut Connection, stream: &mut dyn Stream) -> Result<Received, ControlError> {
    let received = match received(retried(|| connection.read_tls(stream)))? {
        // It was closed without an alert: an attacker in between may have cut it.
        Received::Closed => return Err(ControlError::ClosedEarly),
        other => other,
    };
    match connection.process_new_packets() {
        Ok(_) => Ok(received),
        Err(error) => {
            // The alert that says why; whether it arrives does not change what happens here.
            while connection.wants_write()
                && connection.write_tls(stream).is_ok_and(|count| count > 0)
            {}
            Err(of_tls(error))
        }
    }
}

pub(super) fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

pub(super) fn received(read: io::Result<usize>) -> Result<Received, ControlError> {
    match read {
        Ok(0) => Ok(Received::Closed),
        Ok(count) => Ok(Received::Bytes(count)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Received::Nothing),
        Err(error) => Err(cut_or(error)),
    }
}

/// Ways in which the other end, or somebody in its name, ends a connection too early have one name; those in which its
/// path does have another.
fn cut_or(error: io::Error) -> ControlError {
    match error.kind() {
        ErrorKind::UnexpectedEof
        | ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe => ControlError::ClosedEarly,
        ErrorKind::TimedOut
        | ErrorKind::HostUnreachable
        | ErrorKind::NetworkUnreachable
        | ErrorKind::NetworkDown => ControlError::PathLost,
        _ => ControlError::Io(error),
    }
}

/// Errors of TLS that have a plain meaning here.
pub(super) fn of_tls(error: Error) -> ControlError {
    match error {
        Error::NoApplicationProtocol
        | Error::PeerIncompatible(PeerIncompatible::IncorrectCertificateTypeExtension)
        | Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            ControlError::OtherAccess
        }
        // The alert of an end that has no parameters in common: of two versions of linecard, only key exchanges differ.
        Error::PeerIncompatible(PeerIncompatible::NoKxGroupsInCommon)
        | Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            ControlError::OtherKeyExchange
        }
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => ControlError::OtherProtocol { expected: Protocol::Tls },
        other => ControlError::Tls(other),
    }
}
