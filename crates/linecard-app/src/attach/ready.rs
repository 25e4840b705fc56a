//! Says that packets pass: to whoever reads stderr, and to a service manager.

use super::Observer;
use linecard_io::attach::Settings;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// The socket of a service manager, as systemd names it; see `sd_notify(3)`.
const VARIABLE: &str = "NOTIFY_SOCKET";

/// A line on stderr, and `READY=1` where a service manager waits for it.
pub(super) fn announce(settings: &Settings, observer: &mut dyn Observer) {
    if settings.near.file().is_some() && settings.far.file().is_some() {
        // Between two captures nobody waits for a device.
        return;
    }
    observer.say(&format!("attached: {} and {}", settings.near, settings.far));
    let Some(address) = env::var_os(VARIABLE) else { return };
    if let Err(error) = notify(&address) {
        observer.say(&format!("{VARIABLE}={}: {error}", address.display()));
    }
}

fn notify(address: &OsStr) -> io::Result<()> {
    // A name that begins with @ is of no file.
    let address = match address.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address).map(drop)
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
            notify(&address).expect("somebody listens");
            let mut text = [0; 16];
            let len = socket.and_then(|socket| socket.recv(&mut text)).expect("it has come");
            assert_eq!(&text[..len], b"READY=1");
        }
        assert!(notify(OsStr::new("/no/such/socket")).is_err());
    }
}
