//! Accepts connections while nothing is received and while something is: each handshake has a thread of its
//! own, so that a slow or silent peer does not delay others.

use super::ending::Endings;
use super::pending::{MAX_FROM_ADDRESS, MAX_HANDSHAKES, Pendings};
use super::{ReceiveError, ReceiveOptions};
use crate::control::{Access, Control, ControlError, plain};
use crate::end::{Clock, Interest, Waiter, Waker, last_words};
use crate::file::Quotas;
use crate::lane::Listener;
use linecard_transfer::control::{Hello, Message, Refuse, RefuseCode, Text};
use std::collections::VecDeque;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a peer may take to authenticate, and then to say what it wants to send.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Threads of handshakes, those included that are ending.
const MAX_THREADS: usize = 2 * MAX_HANDSHAKES;
/// How long the next sender waits for a transfer or handshakes that are about to end before it is refused.
const GRACE: Duration = Duration::from_secs(1);
/// How often is looked whether to end, and how long a host without descriptors is left alone.
const LOOK: Duration = Duration::from_millis(100);

/// Answer to a sender that connected just before the receiver ended.
const ENDED: &str =
    "this receiver has just ended; start it again, with --keep for one sender after the other";

/// A peer that came and was not received from.
#[derive(Debug)]
pub struct TurnedAway {
    /// Its address.
    pub from: SocketAddr,
    /// Why.
    pub why: ReceiveError,
}

/// Callback for rejected peers: from several threads, while something is received as well.
pub type Notice = Box<dyn Fn(TurnedAway) + Send + Sync>;

/// A listener whose peers are authenticated in the background, at most [`MAX_HANDSHAKES`] at a time and
/// [`MAX_FROM_ADDRESS`] from one address. While something is received from [`ReceiveOptions::at_once`], other senders are
/// told so.
#[derive(Debug)]
pub struct Acceptor {
    pub(super) options: ReceiveOptions,
    pub(super) shared: Arc<Shared>,
    pub(super) quotas: Quotas,
    pub(super) endings: Endings,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// A sender that is known, and has said what it wants.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) control: Control,
    pub(super) from: SocketAddr,
    pub(super) hello: Hello,
    /// The listener takes connections at every address of this host.
    pub(super) is_anywhere: bool,
}

/// A sender that came while something was received from as many others as may send at once.
struct Surplus {
    guest: Guest,
    with: SocketAddr,
    /// That is a dry run.
    is_dry: bool,
}

/// State that the threads share.
pub(super) struct Shared {
    access: Access,
    is_anywhere: bool,
    patience: Duration,
    at_once: Option<usize>,
    notice: Notice,
    state: Mutex<State>,
    /// A guest is ready, a transfer or a thread has ended, or nothing can be accepted any more.
    changed: Condvar,
    closing: AtomicBool,
    threads: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    pendings: Pendings,
    /// Whom something is received from, and whether it is a dry run, with which no receiver ends.
    busy: Vec<(SocketAddr, bool)>,
    ready: VecDeque<Guest>,
    failed: Option<io::Error>,
}

impl Acceptor {
    /// Accepts at `listener` until it is dropped.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Open`]: a lane of `options` that cannot be opened here, detected before any sender connects.
    pub fn start(
        listener: TcpListener,
        options: ReceiveOptions,
        notice: Notice,
    ) -> Result<Self, ReceiveError> {
        let lanes: Result<Vec<Listener>, _> =
            options.lanes.iter().map(crate::lane::Spec::listen).collect();
        drop(lanes?);
        listener.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            access: options.access.clone(),
            is_anywhere: listener.local_addr()?.ip().is_unspecified(),
            patience: options.patience,
            at_once: options.at_once,
            notice,
            state: Mutex::default(),
            changed: Condvar::new(),
            closing: AtomicBool::new(false),
            threads: AtomicUsize::new(0),
        });
        let (waker, accepting) = (Waker::new()?, Arc::clone(&shared));
        let waiter = Waiter::new(waker.clone());
        let thread = thread::Builder::new().name("accept".into()).spawn(move || {
            if let Err(error) = accepting.accept_all(&listener, &waiter) {
                accepting.state().failed = Some(error);
                accepting.changed.notify_all();
            }
        })?;
        let (quotas, endings) = (Quotas::default(), Endings::default());
        Ok(Self { options, shared, quotas, endings, waker, thread: Some(thread) })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.waker.wake();
        let ended = self.thread.take().map(JoinHandle::join);
        debug_assert!(!matches!(ended, Some(Err(_))), "the acceptor does not panic");
        let mut state = self.shared.state();
        state.pendings.end_all();
        let ready = std::mem::take(&mut state.ready);
        drop(state);
        for mut guest in ready {
            refuse(&mut guest.control, RefuseCode::Resources, &ENDED);
        }
    }
}

impl Shared {
    /// The next sender, or none for a while.
    pub(super) fn next(&self) -> Result<Option<Guest>, ReceiveError> {
        let mut state = self.state();
        if state.ready.is_empty() && state.failed.is_none() {
            let waited = self.changed.wait_timeout(state, LOOK);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match state.failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(state.ready.pop_front()),
        }
    }

    /// The transfer from this sender is over: the next may come.
    pub(super) fn release(&self, from: SocketAddr) {
        let mut state = self.state();
        if let Some(at) = state.busy.iter().position(|(other, _)| *other == from) {
            state.busy.remove(at);
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn turned_away(&self, from: SocketAddr, why: ReceiveError) {
        (self.notice)(TurnedAway { from: plain(from), why });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener, waiter: &Waiter) -> io::Result<()> {
        let clock = Clock::start();
        while !self.is_closing() {
            match listener.accept() {
                Ok((stream, from)) => self.begin(stream, from),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let now = clock.now();
                    let interest = Interest { fd: listener.as_fd(), write: false, token: 0 };
                    waiter.wait(&[interest], now.plus(LOOK), now)?;
                }
                Err(error) => self.not_accepted(error)?,
            }
        }
        Ok(())
    }

    /// Errors of a closed connection concern no other one (accept(2)); without descriptors or memory, the
    /// oldest handshake makes room.
    fn not_accepted(&self, error: io::Error) -> io::Result<()> {
        match error.raw_os_error() {
            Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK | libc::EOPNOTSUPP) => Err(error),
            Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => {
                let ended = self.state().pendings.end_one();
                if let Some(from) = ended {
                    self.turned_away(from, error.into());
                }
                thread::sleep(LOOK);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Begins a handshake on a thread of its own.
    fn begin(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        if let Err(error) = self.try_begin(stream, from) {
            self.turned_away(from, error.into());
        }
    }

    fn try_begin(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        let to_end = stream.try_clone()?;
        let ended = self.state().pendings.make_room(from);
        if let Some((ended, crowd)) = ended {
            self.turned_away(ended, ReceiveError::Crowded(crowd));
        }
        if !self.wait_for_thread() {
            return Err(io::Error::other("too many handshakes are ending"));
        }
        let id = self.state().pendings.add(from, to_end);
        let thread = Thread::count(self);
        let spawned = thread::Builder::new().name("handshake".into()).spawn(move || {
            let shared = &thread.0;
            if let Err(why) = shared.shake(id, stream, from) {
                // One that was ended to make room was reported then; a guess at a pairing code is reported in any case.
                let is_guess = matches!(why, ReceiveError::Control(ControlError::WrongCode { .. }));
                if shared.state().pendings.remove(id) || is_guess {
                    shared.turned_away(from, why);
                }
            }
        });
        spawned.map(drop).inspect_err(|_| {
            self.state().pendings.remove(id);
        })
    }

    /// Waits for handshakes that were ended to make room, whose threads a busy host may not have run yet; false if there
    /// are too many still.
    fn wait_for_thread(&self) -> bool {
        let end = Instant::now() + GRACE;
        let mut state = self.state();
        while self.threads.load(Ordering::Relaxed) >= MAX_THREADS {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Authenticates a connection, and reads its request; then it is received from, or told who else is.
    fn shake(&self, id: u64, stream: TcpStream, from: SocketAddr) -> Result<(), ReceiveError> {
        let patience = self.patience.min(HANDSHAKE);
        let mut control = Control::accept(stream, &self.access, Instant::now() + patience)?;
        self.state().pendings.authenticated(id);
        let hello = hello(&mut control, patience)?;
        let guest = Guest { control, from: plain(from), hello, is_anywhere: self.is_anywhere };
        let Some(mut refused) = self.admit(id, guest) else { return Ok(()) };
        let is_kept = self.at_once.is_some() || refused.is_dry;
        let busy = ReceiveError::Busy { with: refused.with, is_kept };
        let code = if is_kept { RefuseCode::Busy } else { RefuseCode::Resources };
        refuse(&mut refused.guest.control, code, &busy);
        Err(busy)
    }

    /// Hands a guest on; gives it back if there are as many transfers as there may be, and none ends soon.
    fn admit(&self, id: u64, guest: Guest) -> Option<Surplus> {
        let end = Instant::now() + GRACE;
        let mut state = self.state();
        loop {
            if !state.pendings.has(id) {
                return None;
            }
            let (with, is_dry) = match state.busy.first() {
                Some(with) if state.busy.len() >= self.at_once.unwrap_or(1).max(1) => *with,
                _ => break,
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Some(Surplus { guest, with, is_dry });
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.pendings.remove(id);
        state.busy.push((guest.from, guest.hello.dry_run));
        state.ready.push_back(guest);
        drop(state);
        self.changed.notify_all();
        None
    }
}

impl core::fmt::Debug for Shared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Shared").field("access", &self.access).finish_non_exhaustive()
    }
}

/// A thread of a handshake, counted as long as it runs.
struct Thread(Arc<Shared>);

impl Thread {
    fn count(shared: &Arc<Shared>) -> Self {
        shared.threads.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(shared))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let state = self.0.state();
        self.0.threads.fetch_sub(1, Ordering::Relaxed);
        drop(state);
        self.0.changed.notify_all();
    }
}

/// The first message, which says what the sender wants.
fn hello(control: &mut Control, patience: Duration) -> Result<Hello, ReceiveError> {
    match control.wait_for_message(patience)? {
        Some(Message::Hello(hello)) => Ok(hello),
        Some(_) => Err(ReceiveError::Unexpected("something before hello")),
        None => Err(ReceiveError::NoHello(patience)),
    }
}

/// Tells the sender that there will be no transfer, as far as that can be done.
pub(super) fn refuse(control: &mut Control, code: RefuseCode, why: &dyn Display) {
    let text = Text::of(why.to_string().as_bytes());
    last_words(control, &Message::Refuse(Refuse { code, text }), Clock::start());
}

const _: () = assert!(MAX_FROM_ADDRESS < MAX_HANDSHAKES && MAX_HANDSHAKES <= MAX_THREADS);
