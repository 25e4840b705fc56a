//! One process attaches an interface: with two, each packet would have two receivers.
//!
//! Several packet sockets can be open at once, and the kernel refuses a second one only for AF_XDP. So each process
//! takes a name in the abstract namespace of Unix sockets, of which each network namespace has its own, and which ends
//! with the process. Any process can take such a name: one that a login user holds is ignored, so that such a user
//! cannot block an interface.

use super::AttachError;
use super::settings::PortSpec;
use crate::sys::socket::unix_socket;
use linecard_tun::sys::device;
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketAddrUnix, bind, connect, listen};
use rustix::process::geteuid;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fs, io};

/// Numbers of users who log in (`UID_MIN` and `UID_MAX` of login.defs).
const LOGINS: std::ops::RangeInclusive<u32> = 1_000..=60_000;
/// How long the sockets of a process that was ended may take.
const LEAVING: Duration = Duration::from_secs(10);
/// Processes that may ask for the owner of the name, which the kernel answers without this process.
const ASKING: i32 = 4_096;

/// An interface that this process alone attaches, as long as this exists.
#[derive(Debug)]
pub(super) struct Claim {
    _socket: OwnedFd,
}

impl Claim {
    /// Claims the interface of a port that takes its packets; none for other ports. Opening says what is wrong with an
    /// interface.
    pub(super) fn of(port: &PortSpec) -> Option<Result<Self, AttachError>> {
        let interface = port.interface().filter(|_| !port.mirror)?;
        let name = name(device::index(interface).ok()?)?;
        let socket = unix_socket().ok()?;
        let mut bound = bind(&socket, &name);
        let until = Instant::now() + LEAVING;
        while bound == Err(Errno::ADDRINUSE) && is_leaving(&name) && Instant::now() < until {
            sleep(Duration::from_millis(10));
            bound = bind(&socket, &name);
        }
        match bound {
            Ok(()) => {
                listen(&socket, ASKING).ok()?;
                Some(Ok(Self { _socket: socket }))
            }
            Err(Errno::ADDRINUSE) if counts(&name) => {
                Some(Err(AttachError::Claimed { port: Box::new(port.clone()) }))
            }
            // Where Unix sockets are forbidden, two are not noticed.
            Err(_) => None,
        }
    }
}

fn name(index: i32) -> Option<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(format!("linecard-attach-{index}").as_bytes()).ok()
}

/// Whether the process that has the name was ended, and has its sockets a moment longer: it has no memory any more, and
/// so no program. What cannot be seen stays.
fn is_leaving(name: &SocketAddrUnix) -> bool {
    let owner = unix_socket().and_then(|socket| {
        connect(&socket, name)?;
        Ok(socket_peercred(&socket)?)
    });
    owner.is_ok_and(|owner| {
        let program = format!("/proc/{}/exe", owner.pid.as_raw_nonzero());
        fs::read_link(program).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    })
}

/// Whether the process that has the name is of a service, or of this user.
fn counts(name: &SocketAddrUnix) -> bool {
    let Ok(socket) = unix_socket() else { return false };
    match connect(&socket, name) {
        Ok(()) => socket_peercred(&socket)
            .is_ok_and(|owner| owner.uid == geteuid() || !LOGINS.contains(&owner.uid.as_raw())),
        // So many have asked before.
        Err(Errno::AGAIN) => true,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_testkit::lab::Namespace;

    #[test]
    fn one_interface_is_claimed_once() {
        let Ok(network) = Namespace::new() else {
            return linecard_testkit::skip("claims of interfaces", "no network namespace");
        };
        network.inside(|| {
            let claim = |text: &str| Claim::of(&text.parse().expect("a port"));
            let held = claim("packet:lo").expect("an interface").expect("free");
            let refused = claim("xdp:lo").expect("an interface").expect_err("taken").to_string();
            assert!(refused.starts_with("another process has attached xdp:lo"), "{refused}");
            assert!(claim("packet:lo,mirror").is_none() && claim("tap:lo").is_none());
            drop(held);
            // A socket that does not listen is not one of these.
            let name = name(device::index("lo").expect("it is there")).expect("a name");
            let other = unix_socket().expect("Unix sockets");
            // A process that another test starts has all sockets until it executes its program.
            let patiently = |is_free: &dyn Fn() -> bool| {
                let end = Instant::now() + Duration::from_secs(60);
                while !is_free() {
                    assert!(Instant::now() < end, "the name is not given back");
                    sleep(Duration::from_millis(1));
                }
            };
            patiently(&|| bind(&other, &name).is_ok());
            assert!(claim("packet:lo").is_none());
            drop(other);
            patiently(&|| claim("xdp:lo").is_some_and(|claim| claim.is_ok()));
        });
    }
}
