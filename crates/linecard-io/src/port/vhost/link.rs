//! The connection to a front end: its socket, and messages, of which no turn handles more than a few.
//!
//! Nothing blocks: a message is handled once all of it has arrived and its reply has room.

use super::device::{Device, Session};
use super::error::VhostError;
use crate::sys::socket::unix_socket;
use linecard::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{RecvFlags, SendFlags, SocketAddrUnix, bind, connect, listen, recv};
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vhost::vhost_user::message::MAX_MSG_SIZE;
use vhost::vhost_user::{BackendReqHandler, Error, VhostUserBackendReqHandlerMut};

/// Messages handled in a turn; a front end configures a queue pair with about twenty.
const MESSAGES: usize = 16;
/// Bytes of a message's header, in which the last four are those of the rest.
const HEADER_LEN: u64 = 12;
/// The request to enable a ring, with bytes of all of it, and flags of its header.
const ENABLE: u32 = 18;
const ENABLE_LEN: usize = 20;
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;
/// How long the rest of a message may take.
const PATIENCE_NS: u64 = 1_000_000_000;
/// How often a client tries to connect.
const RETRY_NS: u64 = 100_000_000;
/// Permissions of the socket: this user may connect, since a front end makes this process map its files.
const MODE: u32 = 0o600;

/// The token of the socket at the poller.
const SOCKET: u64 = 0;

/// Where front ends come from.
#[derive(Debug)]
pub(super) enum Source {
    /// They connect to this socket.
    Server(Server),
    /// They listen at this path.
    Client(PathBuf),
}

/// A socket that listens. Its file is removed on drop, unless another process has replaced it or
/// the folder does not permit it.
#[derive(Debug)]
pub(super) struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    identity: Option<(u64, u64)>,
}

impl Source {
    pub(super) fn server(path: &Path) -> Result<Self, VhostError> {
        let listener = match listen_at(path) {
            Err(failed) if failed.kind() == ErrorKind::AddrInUse => {
                remove_stale(path)?;
                listen_at(path)
            }
            listening => listening,
        };
        let listener =
            listener.map_err(|source| VhostError::Listen { path: path.to_owned(), source })?;
        let identity = identity(path);
        Ok(Self::Server(Server { listener, path: path.to_owned(), identity }))
    }

    /// The next front end, if there is one.
    fn next(&self) -> io::Result<UnixStream> {
        match self {
            Self::Server(server) => {
                let (stream, _) = server.listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(stream)
            }
            Self::Client(path) => {
                let socket = unix_socket()?;
                connect(&socket, &SocketAddrUnix::new(path.as_path())?)?;
                Ok(UnixStream::from(socket))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _permitted = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|data| (data.dev(), data.ino()))
}

fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let socket = File::from(unix_socket()?);
    // Before it has a name: afterwards others could connect for a moment.
    socket.set_permissions(Permissions::from_mode(MODE))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, 1)?;
    Ok(UnixListener::from(OwnedFd::from(socket)))
}

/// Removes a socket without a listener.
fn remove_stale(path: &Path) -> Result<(), VhostError> {
    let error = |doing| move |source| VhostError::System { doing, path: path.to_owned(), source };
    let file = fs::symlink_metadata(path).map_err(error("look at"))?;
    if !file.file_type().is_socket() {
        return Err(VhostError::NotASocket { path: path.to_owned() });
    }
    let socket = unix_socket().map_err(error("look at"))?;
    let address = SocketAddrUnix::new(path).map_err(io::Error::from).map_err(error("look at"))?;
    match connect(&socket, &address) {
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path).map_err(error("replace")),
        _ => Err(VhostError::InUse { path: path.to_owned() }),
    }
}

/// A connected front end.
struct Connection {
    stream: UnixStream,
    handler: BackendReqHandler<Mutex<Session>>,
    session: Arc<Mutex<Session>>,
    /// Since when a message has been incomplete.
    incomplete: Option<Instant>,
}

/// Result of handling the next message.
enum Step {
    Handled,
    /// It has not arrived, or its reply would have no room.
    Waiting,
    Closed(Error),
}

impl Connection {
    fn step(&mut self, now: Instant) -> Step {
        match self.is_complete() {
            Ok(true) => self.incomplete = None,
            Ok(false) => return self.wait(now),
            Err(error) => return Step::Closed(Error::SocketBroken(error)),
        }
        if !self.is_writable() {
            return self.wait(now);
        }
        let handled = match self.early_enable() {
            Some((message, ring, enable)) => self.enable(message, ring, enable),
            None => self.handler.handle_request(),
        };
        handled.map_or_else(Step::Closed, |()| Step::Handled)
    }

    /// The next message, if it enables a ring before features are accepted: its flags, the ring, and
    /// the value. QEMU begins with it, and the crate `vhost` refuses that.
    fn early_enable(&self) -> Option<(u32, u32, u32)> {
        let mut bytes = [0; ENABLE_LEN];
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (_, len) = recv(&self.stream, &mut bytes, peek).ok()?;
        let mut words = bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word));
        let mut next = || words.next().unwrap_or_default();
        let (request, flags, body, ring, value) = (next(), next(), next(), next(), next());
        let is_enable = len == ENABLE_LEN && request == ENABLE && flags & !NEED_REPLY == VERSION;
        let is_early = !self.session().has_features();
        (is_enable && is_early && body == 8 && value < 2).then_some((flags, ring, value))
    }

    fn enable(&self, flags: u32, ring: u32, value: u32) -> Result<(), Error> {
        let (_, _) = recv(&self.stream, &mut [0; ENABLE_LEN], RecvFlags::DONTWAIT)
            .map_err(|error| Error::SocketBroken(error.into()))?;
        let enabled = self.session().set_vring_enable(ring, value == 1);
        if flags & NEED_REPLY != 0 {
            let failed = u32::from(enabled.is_err());
            let reply = [ENABLE, VERSION | REPLY, 8, failed, 0].map(u32::to_ne_bytes);
            let sent = rustix::net::send(&self.stream, reply.as_flattened(), SendFlags::NOSIGNAL);
            sent.map_err(|error| Error::SocketBroken(error.into()))?;
        }
        enabled
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&mut self, now: Instant) -> Step {
        if rustix::io::ioctl_fionread(&self.stream).is_ok_and(|waiting| waiting == 0) {
            self.incomplete = None;
            return Step::Waiting;
        }
        let since = *self.incomplete.get_or_insert(now);
        if now.ns_since(since) > PATIENCE_NS {
            return Step::Closed(Error::PartialMessage);
        }
        Step::Waiting
    }

    /// Whether a message, or the end, has arrived.
    fn is_complete(&self) -> io::Result<bool> {
        let mut header = [0; HEADER_LEN as usize];
        let peek = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let (_, len) = match recv(&self.stream, &mut header, peek) {
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(false),
            received => received?,
        };
        if len == 0 {
            return Ok(true);
        }
        let [.., a, b, c, d] = header;
        let rest = u64::from(u32::from_ne_bytes([a, b, c, d]));
        let waiting = rustix::io::ioctl_fionread(&self.stream)?;
        // One that is too long is refused by its header.
        Ok(len == header.len() && (rest > MAX_MSG_SIZE as u64 || waiting >= HEADER_LEN + rest))
    }

    /// Whether most of the send buffer is free: Linux then says so.
    fn is_writable(&self) -> bool {
        let mut entry = [PollFd::new(&self.stream, PollFlags::OUT)];
        poll(&mut entry, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

/// The front end of a device: one at a time, one after the other.
pub(super) struct Link {
    source: Source,
    device: Arc<Device>,
    connection: Option<Connection>,
    /// Whether the port ends with its front end.
    once: bool,
    retry_at: Instant,
    ended: bool,
    /// Front ends that have left.
    pub(super) left: u64,
}

impl Link {
    pub(super) fn new(source: Source, device: Arc<Device>, once: bool) -> io::Result<Self> {
        let retry_at = Instant::ZERO;
        let link = Self { source, device, connection: None, once, retry_at, ended: false, left: 0 };
        link.listens(true)?;
        Ok(link)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// When it wants to be served even if nothing has happened.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let tries = matches!(self.source, Source::Client(_)) && self.connection.is_none();
        (tries && !self.ended).then_some(self.retry_at)
    }

    /// Connects, and handles messages.
    pub(super) fn serve(&mut self, now: Instant) {
        for _ in 0..MESSAGES {
            let Some(connection) = &mut self.connection else {
                if self.ended || !self.connect(now) {
                    return;
                }
                continue;
            };
            match connection.step(now) {
                Step::Handled => {}
                Step::Waiting => return,
                Step::Closed(_why) => return self.disconnect(now),
            }
        }
    }

    fn connect(&mut self, now: Instant) -> bool {
        if now < self.retry_at {
            return false;
        }
        if matches!(self.source, Source::Client(_)) {
            self.retry_at = now.plus_ns(RETRY_NS);
        }
        let opened = self.source.next().and_then(|stream| self.open(stream));
        self.connection = opened.ok();
        self.connection.is_some()
    }

    fn open(&self, stream: UnixStream) -> io::Result<Connection> {
        let session = Arc::new(Mutex::new(Session::new(Arc::clone(&self.device))));
        let handler = BackendReqHandler::from_stream(stream.try_clone()?, Arc::clone(&session));
        self.listens(false)?;
        watch(self.device.poller(0), &stream)?;
        Ok(Connection { stream, handler, session, incomplete: None })
    }

    /// A second front end waits until the first is gone.
    fn listens(&self, listens: bool) -> io::Result<()> {
        let Source::Server(server) = &self.source else { return Ok(()) };
        if listens {
            return watch(self.device.poller(0), &server.listener);
        }
        Ok(epoll::delete(&**self.device.poller(0), &server.listener)?)
    }

    fn disconnect(&mut self, now: Instant) {
        if let Some(connection) = self.connection.take() {
            // The handler has a duplicate, so that closing would leave the registration.
            let _registered = epoll::delete(&**self.device.poller(0), &connection.stream);
        }
        self.device.reset();
        self.left += 1;
        self.ended = self.once || self.listens(true).is_err();
        self.retry_at = match self.source {
            Source::Server(_) => Instant::ZERO,
            Source::Client(_) => now.plus_ns(RETRY_NS),
        };
    }
}

fn watch(poller: &OwnedFd, socket: impl AsFd) -> io::Result<()> {
    let data = epoll::EventData::new_u64(SOCKET);
    Ok(epoll::add(poller, socket, data, epoll::EventFlags::IN)?)
}
