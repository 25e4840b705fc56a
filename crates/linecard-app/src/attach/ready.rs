//! Reports that packets pass: on stderr, to a supervisor that waits at a descriptor, and to a service manager, which is
//! also told of the end.

use super::Observer;
use super::error::JoinError;
use crate::{Error, Level};
use linecard_io::attach::Settings;
use linecard_io::sys::descriptor;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket of a service manager, as systemd names it; see `sd_notify(3)`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// The message once packets pass, as service managers expect it.
const READY: &[u8] = b"READY=1\n";

/// The descriptor of `--ready-fd`, before any other has been opened that could have its number.
pub(super) fn descriptor(number: Option<u32>) -> Result<Option<File>, Error> {
    let Some(number) = number else { return Ok(None) };
    let copy = descriptor::copy(i32::try_from(number).unwrap_or(-1));
    Ok(copy.map(Some).map_err(|source| JoinError::Ready { number, source })?)
}

/// A line on stderr, `READY=1` and a newline to a descriptor, and `READY=1` where a service manager waits for it.
pub(super) fn announce(settings: &Settings, ready: Option<File>, observer: &mut dyn Observer) {
    if let Some(mut ready) = ready
        && let Err(error) = ready.write_all(READY)
    {
        observer.say(Level::Warning, &format!("--ready-fd: {error}"));
    }
    if settings.near.file().is_some() && settings.far.file().is_some() {
        // Between two captures there is no device to wait for.
        return;
    }
    observer.say(Level::Notice, &format!("attached: {} and {}", settings.near, settings.far));
    tell_manager(READY.trim_ascii_end(), observer);
}

/// Tells the service manager that the end has begun: held packets are flushed, and captures are completed.
pub(super) fn stopping(observer: &mut dyn Observer) {
    tell_manager(b"STOPPING=1", observer);
}

fn tell_manager(text: &[u8], observer: &mut dyn Observer) {
    let Some(address) = env::var_os(VARIABLE) else { return };
    if let Err(error) = notify(&address, text) {
        observer.say(Level::Warning, &format!("{VARIABLE}={}: {error}", address.display()));
    }
}

fn notify(address: &OsStr, text: &[u8]) -> io::Result<()> {
    // A name that begins with @ is of no file.
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_manager_is_notified_by_file_and_by_name() {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("notify");
        let name = format!("@linecard-ready-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name[1..]).expect("a short name");
        let sockets = [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (name.into(), UnixDatagram::bind_addr(&abstract_name)),
        ];
        for (address, socket) in sockets {
            notify(&address, b"READY=1").expect("somebody listens");
            let mut text = [0; 16];
            let len = socket.and_then(|socket| socket.recv(&mut text)).expect("it has come");
            assert_eq!(&text[..len], b"READY=1");
        }
        assert!(notify(OsStr::new("/no/such/socket"), b"READY=1").is_err());
    }

    #[test]
    fn a_descriptor_that_nobody_has_opened_is_refused() {
        assert!(descriptor(None).is_ok_and(|none| none.is_none()));
        let text = descriptor(Some(999_999)).expect_err("not open").to_string();
        assert!(text.contains("--ready-fd 999999") && text.contains("999999>FILE"), "{text}");
    }
}
