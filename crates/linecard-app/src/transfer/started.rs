//! A receiver that the sender starts on its host, by a command such as ssh.
//!
//! The sender writes a one-time key and the folder to the command's standard input, and that it only asks in a dry run.
//! The receiver answers on its standard output with the port at which it listens, and with the address at which the
//! login arrived. Both ends authenticate by that key. The receiver ends when its standard input does.

use super::error::TransferError;
use super::peer::{Peer, RemoteFolder};
use crate::{Error, Failure};
use linecard::progress::Progress;
use linecard_transfer_net::keys::SharedKey;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Begins the receiver's line; its number is that of the dialog.
const READY: &str = "linecard-receiver 1 ";
/// Longest wait for that line, in which the user may have to type a password.
const LOGIN: Duration = Duration::from_secs(300);
/// Bytes of a line that the receiver reads: a path and its end.
const MAX_LINE: u64 = 8_192;
/// Bytes of other lines that a login may print before it.
const MAX_GREETING: u64 = 1 << 20;
/// The options of the receiver that let its sender remove files, and send links that lead out of its folders.
const RIGHTS: [&str; 2] = ["--allow-delete", "--allow-links-out"];
/// Stands behind the key where the folder need not be there.
const DRY_RUN: &str = " dry-run";
/// How a shell ends that finds no command of a name.
pub(super) const NOT_FOUND: i32 = 127;
/// How ssh ends if its connection does.
const DISCONNECTED: i32 = 255;
/// How often a wait looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Time that the receiver has for its end once it has all, or its input has ended.
const END: Duration = Duration::from_secs(10);

/// The commands by which a receiver is started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Commands<'a> {
    /// Logs in at a host, which is added to it with a command for its shell.
    pub(super) login: &'a str,
    /// Receives there; options are added to it.
    pub(super) receiver: &'a str,
}

/// The purpose of a receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purpose {
    /// Which of [`RIGHTS`] this sender has.
    pub(super) rights: [bool; RIGHTS.len()],
    /// It only asks: a missing folder is not made.
    pub(super) is_dry: bool,
}

/// A receiver that was started. On drop it is ended.
#[derive(Debug)]
pub(super) struct StartedReceiver {
    child: Child,
    /// `None` once it is to end.
    input: Option<ChildStdin>,
    /// Where it listens, in the order in which addresses should be tried; at least one.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) key: SharedKey,
}

impl StartedReceiver {
    /// Starts it, and waits until it listens; `stop` ends the login.
    ///
    /// # Errors
    ///
    /// The command cannot be started, or ends; the receiver's own reason is on the standard error.
    pub(super) fn start(
        place: &RemoteFolder,
        commands: Commands<'_>,
        Purpose { rights, is_dry }: Purpose,
        stop: &Progress,
    ) -> Result<Self, Error> {
        let Commands { login, receiver } = commands;
        let (key, text) = SharedKey::fresh().map_err(|error| Failure::Thread.with(error))?;
        let is_given = |right| receiver.split_whitespace().any(|word| word == right);
        let rights = RIGHTS.into_iter().zip(rights);
        let rights = rights.filter(|(right, is_wanted)| *is_wanted && !is_given(*right));
        let rights: Vec<&str> = rights.map(|(right, _)| right).collect();
        // The folder goes the way of the key: shells do not agree on how words are quoted.
        let remote = format!("{receiver} --started {} .", rights.join(" "));
        let dry = if is_dry { DRY_RUN } else { "" };
        let text = format!("{text}{dry}\n{}\n", place.folder);
        let [login, host, receiver] = [login, &place.login, receiver].map(str::to_owned);
        let failed =
            |source| TransferError::Start { login: login.clone(), host: host.clone(), source };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("exec {login} \"$@\""), "sh", &host, &remote]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let missing = || failed(io::ErrorKind::BrokenPipe.into());
        let (input, output) = (child.stdin.take(), child.stdout.take().ok_or_else(missing)?);
        let mut started = Self { child, input, addresses: Vec::new(), key };
        // If it has ended, its answer is missing, too.
        let _written = started.input.as_mut().map(|input| input.write_all(text.as_bytes()));
        let ready = wait(&listen_to(output), stop).inspect_err(|_| {
            // A login does not look at its input.
            let _killed = started.child.kill();
        });
        let Some((port, address)) = ready? else {
            let status = started.end();
            return Err(TransferError::LoginEnded { login, host, receiver, status }.into());
        };
        let named = Peer::addresses(place.address.as_ref().unwrap_or(&place.host), port);
        // An address that was given is the one to connect to.
        let arrived = address.filter(|_| place.address.is_none());
        let arrived = arrived.map(|ip| SocketAddr::new(ip, port));
        started.addresses = match (named, arrived) {
            (Ok(mut named), arrived) => {
                named.extend(arrived.filter(|address| !named.contains(address)));
                named
            }
            (Err(_), Some(arrived)) => vec![arrived],
            (Err(error), None) => return Err(error),
        };
        Ok(started)
    }

    /// Waits until it has ended by itself, as it does once all has arrived.
    pub(super) fn finish(mut self) {
        self.wait_at_most(END);
    }

    /// How the login has ended, if it has not ended with the receiver: that then ends for lack of it.
    pub(super) fn lost_login(mut self) -> Option<ExitStatus> {
        let status = self.wait_at_most(LOOK)?;
        status.code().is_none_or(|code| code == DISCONNECTED).then_some(status)
    }

    fn wait_at_most(&mut self, most: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(None) if begun.elapsed() < most => thread::sleep(LOOK / 10),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }

    /// Ends its input, and waits for it.
    fn end(&mut self) -> Option<ExitStatus> {
        self.input = None;
        let status = self.wait_at_most(END);
        if status.is_some() {
            return status;
        }
        let _killed = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for StartedReceiver {
    fn drop(&mut self) {
        self.end();
    }
}

type Ready = (u16, Option<IpAddr>);

/// Reads all that the receiver prints; its port is sent once, or nothing if it ends before.
fn listen_to(output: ChildStdout) -> Receiver<Ready> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut lines = BufReader::new(output);
        let mut line = String::new();
        let mut greeting = lines.by_ref().take(MAX_GREETING);
        while let Ok(1..) = greeting.read_line(&mut line) {
            if let Some(ready) = parse(&line) {
                let _waits = sender.send(ready);
                break;
            }
            line.clear();
        }
        drop(sender);
        // Later output is discarded, and must not block the other end.
        let _end = io::copy(&mut lines, &mut io::sink());
    });
    receiver
}

fn wait(ready: &Receiver<Ready>, stop: &Progress) -> Result<Option<Ready>, Error> {
    let begun = Instant::now();
    while begun.elapsed() < LOGIN {
        match ready.recv_timeout(LOOK) {
            Ok(ready) => return Ok(Some(ready)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if stop.is_stopped() => {
                return Err(TransferError::StoppedAtLogin.into());
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
    Err(TransferError::NotListening { seconds: LOGIN.as_secs() }.into())
}

fn parse(line: &str) -> Option<Ready> {
    // A login may have printed something without an end of line.
    let at = line.find(READY)? + READY.len();
    let mut words = line[at..].trim_end().split(' ');
    let port = words.next()?.parse().ok().filter(|port| *port > 0)?;
    Some((port, words.next().and_then(|address| address.parse().ok())))
}

/// The receiver's line, with the address at which sshd says that the login arrived.
pub(super) fn ready(port: u16) -> String {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    // Client's address and port, server's address and port.
    match connection.split(' ').nth(2).filter(|address| address.parse::<IpAddr>().is_ok()) {
        Some(address) => format!("{READY}{port} {address}\n"),
        None => format!("{READY}{port}\n"),
    }
}

/// The first lines of a sender that starts a receiver.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) key: SharedKey,
    /// Seen from where the login begins.
    pub(super) folder: PathBuf,
    /// The sender only asks.
    pub(super) is_dry: bool,
}

/// Reads it from the standard input, whose end then stops this process.
///
/// # Errors
///
/// Another text.
pub(super) fn read_wanted(stop: &Arc<Progress>) -> Result<Wanted, Error> {
    let mut stdin = io::stdin().lock();
    let mut line = || {
        let mut line = String::new();
        stdin.by_ref().take(MAX_LINE).read_line(&mut line).ok()?;
        line.strip_suffix('\n').map(str::to_owned)
    };
    let (Some(text), Some(folder)) = (line(), line()) else {
        return Err(TransferError::NotStarted.into());
    };
    drop(stdin);
    let (text, is_dry) = text.strip_suffix(DRY_RUN).map_or((&*text, false), |text| (text, true));
    let key = SharedKey::parse(text).ok_or(TransferError::NotStarted)?;
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let _end = io::copy(&mut io::stdin().lock(), &mut io::sink());
        stop.stop();
    });
    // A folder, whatever its name: `-` would be the standard output.
    Ok(Wanted { key, folder: Path::new(".").join(folder), is_dry })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_receiver_is_read_as_written() {
        assert_eq!(
            parse("linecard-receiver 1 40123 192.0.2.7\n"),
            Some((40_123, Some([192, 0, 2, 7].into())))
        );
        assert_eq!(parse("linecard-receiver 1 40123\r\n"), Some((40_123, None)));
        assert_eq!(parse("linecard-receiver 1 40123 fe80::1%eth0"), Some((40_123, None)));
        for other in [
            "linecard-receiver 2 40123",
            "linecard-receiver 1 0",
            "linecard-receiver 1 x",
            "Welcome",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
