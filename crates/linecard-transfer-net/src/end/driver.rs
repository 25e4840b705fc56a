//! The endpoint driver: the loop of the thread that moves the control messages and packets of a transfer. It gives its end
//! turns, and waits for sockets or time between them.

use super::endpoint::Endpoint;
use super::turns::{CONTROL, Next, Turns, next_wakeup};
use super::{Clock, Crew, Interest, Ready, Role, SealedSocket, Waiter, Waker};
use linecard::progress::Progress;
use linecard::time::Instant;
use std::io;
use std::os::fd::AsFd;

/// State of the driver's thread.
#[derive(Debug)]
pub(crate) struct Driver<'a> {
    pub(crate) clock: Clock,
    /// Wakes it when the files' thread has a result.
    pub(crate) waker: Waker,
    pub(crate) stop: &'a Progress,
    /// Seals, sends, receives and opens the packets of several lanes at the same time.
    pub(crate) crew: Crew<SealedSocket>,
}

impl Driver<'_> {
    /// Runs a role to its end. If it fails, the reason is sent to the other end.
    pub(crate) fn run<R: Role>(
        self,
        role: &mut R,
        endpoint: &mut Endpoint,
    ) -> Result<(), R::Error> {
        let Self { clock, waker, stop, crew } = self;
        let waiter = Waiter::new(waker);
        let mut turns = Turns::new(stop, crew);
        let mut next = Next::Turn;
        loop {
            let ready = match next {
                Next::Turn => Ok(Ready::ALL),
                Next::Pause(time) => {
                    std::thread::sleep(time);
                    Ok(Ready::ALL)
                }
                Next::Wait(pause) => {
                    if !pause.is_zero() {
                        std::thread::sleep(pause);
                    }
                    wait(role, endpoint, (&waiter, clock.now()))
                }
                Next::Over(result) => return result,
            };
            next = match ready {
                Ok(ready) => {
                    endpoint.ready = ready;
                    turns.take(role, endpoint, clock.now())
                }
                Err(error) => turns.fail(role, endpoint, (error.into(), clock.now())),
            };
        }
    }
}

/// Waits for sockets, the files' thread, or time.
fn wait<R: Role>(
    role: &R,
    endpoint: &Endpoint,
    (waiter, now): (&Waiter, Instant),
) -> io::Result<Ready> {
    let until = next_wakeup(role, endpoint);
    if until <= now {
        return Ok(Ready::ALL);
    }
    let Endpoint { control, relay, sockets, .. } = endpoint;
    let mut interests = Vec::with_capacity(1 + 2 * sockets.len());
    if !relay.is_down() {
        let (fd, write) = (control.as_fd(), control.wants_write());
        interests.push(Interest { fd, write, token: CONTROL });
    }
    for (token, socket) in sockets.iter().enumerate() {
        if role.is_up(token) {
            interests.push(Interest { fd: socket.lane().as_fd(), write: !socket.is_idle(), token });
        }
        interests.extend(role.other_fds(token).map(|fd| Interest { fd, write: false, token }));
    }
    waiter.wait(&interests, until, now)
}
