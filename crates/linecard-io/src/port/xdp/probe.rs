//! Detects what this kernel supports for AF_XDP.

use super::config::Config;
use super::error::XdpError;
use super::program;
use super::socket::{Binding, Socket, Unbound};
use super::umem::Umem;
use std::fmt;

/// The loopback interface of every network namespace.
const LOOPBACK: u32 = 1;

/// The kernel's support of AF_XDP for this process.
#[derive(Debug)]
pub struct Features {
    /// Why no AF_XDP socket can be used, if so.
    pub sockets: Result<(), XdpError>,
    /// Why no redirect program can be loaded, if so.
    pub programs: Result<(), XdpError>,
    /// Packets may be longer than a frame (Linux 6.6); also false if no socket can be used. The
    /// driver may still refuse it.
    pub multi_buffer: bool,
    /// The kernel signals when it has to be woken (Linux 5.4); also false if no socket can be used.
    pub need_wakeup: bool,
}

/// Detects what the kernel supports: opens a socket and loads a program, and removes both again.
/// Attaches nothing; the socket is temporarily bound to the loopback interface.
///
/// ```no_run
/// let features = linecard_io::port::xdp::probe();
/// for line in features.lacking() {
///     eprintln!("{line}");
/// }
/// ```
#[must_use]
pub fn probe() -> Features {
    let programs = program::create_map().and_then(|map| {
        program::load(&map, false)
            .map(drop)
            .map_err(|error| XdpError::of_bpf("load the redirect program", error))
    });
    let config = Config { rx_slots: 64, tx_slots: 64, spare_frames: 1, ..Config::default() };
    match smallest_socket(&config) {
        Ok(mut socket) => {
            let multi_buffer = binds(&mut socket, &|binding| binding.multi_buffer);
            // A socket can be bound only once; a kernel that supports the first also supports the
            // second, which is older.
            let need_wakeup =
                multi_buffer || binds(&mut socket, &|b| b.need_wakeup && !b.multi_buffer);
            Features { sockets: Ok(()), programs, multi_buffer, need_wakeup }
        }
        Err(error) => {
            Features { sockets: Err(error), programs, multi_buffer: false, need_wakeup: false }
        }
    }
}

fn smallest_socket(config: &Config) -> Result<Socket, XdpError> {
    let umem = Umem::new(config.frames(), config.frame_len.bytes())
        .map_err(|source| XdpError::System { what: "take memory for the port", source })?;
    Socket::new(&umem, config)
}

/// Whether the kernel accepts a binding in copy mode. "Queue in use" is returned after the flags
/// were accepted.
fn binds(socket: &mut Socket, wanted: &dyn Fn(&Binding) -> bool) -> bool {
    match socket.bind(LOOPBACK, 0, |binding| !binding.zero_copy && wanted(binding)) {
        Ok(()) => true,
        Err(Unbound(error)) => error.raw_os_error() == Some(libc::EBUSY),
    }
}

impl Features {
    /// Whether ports can be opened.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.sockets.is_ok() && self.programs.is_ok()
    }

    /// One line per missing feature; none if all are available.
    #[must_use]
    pub fn lacking(&self) -> Vec<String> {
        let mut lines: Vec<String> = [&self.sockets, &self.programs]
            .into_iter()
            .filter_map(|result| result.as_ref().err().map(XdpError::to_string))
            .collect();
        if self.sockets.is_ok() && !self.multi_buffer {
            lines.push("no packets longer than a frame: they take Linux 6.6 or newer".to_owned());
        }
        if self.sockets.is_ok() && !self.need_wakeup {
            lines.push("no need-wakeup: each send is a system call before Linux 5.4".to_owned());
        }
        lines
    }
}

impl fmt::Display for Features {
    /// The missing features line by line, or that none is missing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lacking = self.lacking();
        if lacking.is_empty() {
            return f.write_str("AF_XDP: everything is there");
        }
        f.write_str(&lacking.join("\n"))
    }
}
