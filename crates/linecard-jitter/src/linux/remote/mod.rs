//! A sender on another host, or in another namespace, controlled over standard input and output of a command such as
//! `ssh root@192.0.2.2 linecard`. So there is neither a port nor a key of its own, and the right to start the command is
//! the right to send: to one target, which is an argument of the command, and while its standard input is open.
//!
//! Per stream: the near end requests it, the far end says how it will send it, the near end starts its sink and trace
//! and then the stream, and the far end returns the times at which it handed packets to its kernel. Those times are by
//! the far end's clock; [`clocks`](crate::stream::clocks) relates it to this host's, unless both are one.

mod far;
mod message;

pub use far::{ServeError, serve};
pub use message::{Ready, Request};

use crate::linux::generator::Departures;
use message::{Clock, MAX_LINE, Message, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for an answer, beyond the time of the stream: time to log in.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a wait looks whether it is to stop.
const STEP: Duration = Duration::from_millis(100);
/// Time that the command has for its end once its standard input has ended.
const END: Duration = Duration::from_secs(2);

/// Why a remote sender does not send.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The command cannot be started.
    #[error("cannot start the remote sender `{command}`: {source}")]
    Start {
        /// The command.
        command: String,
        /// The system's error.
        source: io::Error,
    },
    /// The command has ended.
    #[error(
        "the remote sender `{command}` has ended ({status}) and not answered: the command must start \
         linecard on the sender's host, with `jitter remote-sender {target}` added to it"
    )]
    Ended {
        /// The command.
        command: String,
        /// The target that it was to send to.
        target: SocketAddr,
        /// How it ended.
        status: String,
    },
    /// The command has ended in the middle of its work.
    #[error("the remote sender `{command}` has ended ({status}) before its stream was complete")]
    Lost {
        /// The command.
        command: String,
        /// How it ended.
        status: String,
    },
    /// It was told to end before the command had answered.
    #[error("stopped before the remote sender `{command}` had answered")]
    Stopped {
        /// The command.
        command: String,
    },
    /// Nothing came in time.
    #[error(
        "the remote sender `{command}` has not answered for {} s: it, or its host, is stopped, or the command \
         asks for a password, which only a key can replace here", waited.as_secs()
    )]
    Silent {
        /// The command.
        command: String,
        /// How long.
        waited: Duration,
    },
    /// It answers something else.
    #[error(
        "the remote sender `{command}` answered \"{line}\": this is no linecard, or its host prints \
         something at login"
    )]
    Unknown {
        /// The command.
        command: String,
        /// The answer.
        line: String,
    },
    /// It is of another version.
    #[error(
        "the remote sender speaks version {found}, and this linecard version {VERSION}: install the \
         same linecard on both hosts"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// It cannot send the stream.
    #[error("the remote sender: {why}")]
    Refused {
        /// Its reason.
        why: String,
    },
}

/// The near end of a remote sender. Dropping it ends the far end.
#[derive(Debug)]
pub struct RemoteSender {
    command: String,
    target: SocketAddr,
    child: Child,
    /// `None` once it is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    has_own_clock: bool,
    has_answered: bool,
    /// Packets of the stream that was asked for.
    requested: u64,
}

impl RemoteSender {
    /// Starts the command, which is given to the shell with `jitter remote-sender TARGET` added to it. `stop` ends the wait
    /// for its answer.
    ///
    /// # Errors
    ///
    /// See [`RemoteError`].
    pub fn start(
        command: &str,
        target: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<Self, RemoteError> {
        let failed = |source| RemoteError::Start { command: command.to_owned(), source };
        let line = format!("exec {command} jitter remote-sender '{target}'");
        // In a group of its own: Ctrl-C of a terminal is for this process, which then stops the stream.
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().map_err(failed)?;
        let missing = || failed(io::ErrorKind::BrokenPipe.into());
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let command = command.to_owned();
        let mut sender = Self {
            command,
            target,
            child,
            input: Some(input),
            output,
            has_own_clock: true,
            has_answered: false,
            requested: 0,
        };
        match sender.answer(PATIENCE, stop)? {
            Message::Hello { version: VERSION, clock } => {
                sender.has_answered = true;
                sender.has_own_clock = !clock.is_same(&Clock::of_this_process());
                Ok(sender)
            }
            Message::Hello { version, .. } => Err(RemoteError::Version { found: version }),
            other => Err(sender.unknown(&other.line())),
        }
    }

    /// Whether its times are by another clock than this process's.
    #[must_use]
    pub fn has_own_clock(&self) -> bool {
        self.has_own_clock
    }

    /// Asks for a stream; [`run`](Self::run) sends it.
    ///
    /// # Errors
    ///
    /// See [`RemoteError`].
    pub fn prepare(&mut self, request: &Request) -> Result<Ready, RemoteError> {
        self.say(&Message::Stream(*request))?;
        self.requested = request.count;
        match self.answer(PATIENCE, &AtomicBool::new(false))? {
            Message::Ready(ready) => Ok(ready),
            other => Err(self.unknown(&other.line())),
        }
    }

    /// Has the prepared stream sent, which takes `length`, and returns its record by the sender's clock. `stop` ends it
    /// early.
    ///
    /// # Errors
    ///
    /// See [`RemoteError`].
    pub fn run(&mut self, length: Duration, stop: &AtomicBool) -> Result<Departures, RemoteError> {
        self.say(&Message::Go)?;
        match self.answer(length.saturating_add(PATIENCE), stop)? {
            Message::Sent(departures, packets) if packets <= self.requested => {
                self.sent(*departures, packets)
            }
            other => Err(self.unknown(&other.line())),
        }
    }

    fn sent(
        &mut self,
        mut departures: Departures,
        packets: u64,
    ) -> Result<Departures, RemoteError> {
        for _ in 0..packets {
            let mut time = [0; 8];
            let mut filled = 0;
            while filled < time.len() {
                self.wait(PATIENCE, &AtomicBool::new(false))?;
                match self.output.read(&mut time[filled..]) {
                    Ok(0) | Err(_) => return Err(self.ended()),
                    Ok(read) => filled += read,
                }
            }
            departures.sent_ns.push(u64::from_le_bytes(time));
        }
        Ok(departures)
    }

    fn say(&mut self, message: &Message) -> Result<(), RemoteError> {
        let said = self.input.as_mut().map(|input| input.write_all(message.line().as_bytes()));
        if matches!(said, Some(Ok(()))) { Ok(()) } else { Err(self.ended()) }
    }

    /// The next message. With `stop`, the far end is told once to stop, and has [`PATIENCE`] from then on.
    fn answer(&mut self, patience: Duration, stop: &AtomicBool) -> Result<Message, RemoteError> {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') && line.len() < MAX_LINE {
            self.wait(patience, stop)?;
            let waiting = match self.output.fill_buf() {
                Ok([]) | Err(_) => return Err(self.ended()),
                Ok(waiting) => waiting,
            };
            let until =
                waiting.iter().position(|byte| *byte == b'\n').map_or(waiting.len(), |at| at + 1);
            let until = until.min(MAX_LINE - line.len());
            line.extend_from_slice(&waiting[..until]);
            self.output.consume(until);
        }
        let line = String::from_utf8_lossy(&line);
        match Message::read(&line) {
            Some(Message::Refused(why)) => Err(RemoteError::Refused { why }),
            Some(message) => Ok(message),
            None => Err(self.unknown(&line)),
        }
    }

    /// Waits until something can be read.
    fn wait(&mut self, mut patience: Duration, stop: &AtomicBool) -> Result<(), RemoteError> {
        let step = Timespec { tv_sec: 0, tv_nsec: STEP.subsec_nanos().into() };
        let (mut begin, mut is_told) = (Instant::now(), false);
        while self.output.buffer().is_empty() {
            let mut ready = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            if poll(&mut ready, Some(&step)).is_ok_and(|ready| ready > 0) {
                break;
            }
            if stop.load(Ordering::Relaxed) && !self.has_answered {
                return Err(RemoteError::Stopped { command: self.command.clone() });
            }
            if stop.load(Ordering::Relaxed) && !is_told {
                self.say(&Message::Stop)?;
                (is_told, begin, patience) = (true, Instant::now(), PATIENCE);
            }
            if begin.elapsed() > patience {
                return Err(RemoteError::Silent {
                    command: self.command.clone(),
                    waited: patience,
                });
            }
        }
        Ok(())
    }

    fn unknown(&self, line: &str) -> RemoteError {
        let line = line.trim_end().chars().take(80).collect();
        RemoteError::Unknown { command: self.command.clone(), line }
    }

    fn ended(&mut self) -> RemoteError {
        let status = self.end().map_or_else(|| "killed".to_owned(), |status| status.to_string());
        let command = self.command.clone();
        match self.has_answered {
            true => RemoteError::Lost { command, status },
            false => RemoteError::Ended { command, target: self.target, status },
        }
    }

    /// Ends the far end: its input ends, and it has some time to notice.
    fn end(&mut self) -> Option<ExitStatus> {
        self.input = None;
        let begin = Instant::now();
        while begin.elapsed() < END {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Ok(status) => return status,
                Err(_) => break,
            }
        }
        let _killed = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for RemoteSender {
    fn drop(&mut self) {
        self.end();
    }
}
