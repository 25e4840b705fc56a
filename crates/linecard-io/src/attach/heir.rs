//! Addresses and routes of an interface, moved to the device in its place, and given back.
//!
//! `ip` (iproute2) changes them, as an operator would. A process that has dropped its privileges cannot give them back,
//! and a process that was killed does nothing at all: so a shell that keeps its privileges waits for the end of a pipe
//! that this process holds, and then gives everything back. It has the commands for that from the start, and reads
//! nothing later: batches of `ip` can start programs, and who takes over a process without privileges is not to do so
//! by its pipe.

use super::plan::{self, Plan};
use super::settings::{PortSpec, Settings};
use linecard_tun::interface;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netdevice::{index_to_name, name_to_index};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// Where `ip` is looked for, whatever the caller's environment says: this runs with its rights.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin:/run/current-system/sw/bin";

/// Says that it is ready, waits until its input ends, and then has `ip` run its arguments, each command whether or not others
/// succeed. Of the first argument, what the far device had, nothing may be left. Of the second it says what failed. Signals
/// to all processes of a terminal or a service are for others, and who ends `cat` ends nothing.
const GIVE_BACK: &str = "trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE; echo; until cat >/dev/null; do :; done; \
                         printf '%s' \"$1\" | ip -force -batch - >/dev/null 2>&1; \
                         printf '%s' \"$2\" | ip -force -batch - 2>&1 >/dev/null";
/// By this `ip` says which line of a batch failed.
const FAILED: &str = "Command failed -:";

/// Why addresses and routes cannot be moved.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Ports without addresses that could move.
    #[error(
        "only those of an interface at NEAR that is taken from the kernel (`xdp:NAME`, `packet:NAME`) can \
         move, and only to a device at FAR (`tap:NAME`); the ports are {near} and {far}"
    )]
    Ports {
        /// The near port.
        near: Box<PortSpec>,
        /// The far port.
        far: Box<PortSpec>,
    },
    /// A name with characters that a batch of `ip` reads as something else.
    #[error("{0}: rename it to letters, digits and `.`, `_`, `-`, `@`, `+`")]
    Name(String),
    /// A route that other interfaces may share.
    #[error("`{0}` may have several next hops: remove it, or move it by hand")]
    Shared(String),
    /// The shell that gives everything back does not start.
    #[error("sh: {0}")]
    Shell(io::Error),
    /// The shell was killed.
    #[error(
        "the shell that was to give addresses ({addresses}) and routes back to {interface} was killed ({status}): run \
         {commands}"
    )]
    Killed {
        /// The addresses.
        addresses: String,
        /// The interface that had them.
        interface: String,
        /// How it ended.
        status: ExitStatus,
        /// The commands that give them back.
        commands: String,
    },
    /// The interface does not take them back.
    #[error(
        "{interface} did not get back all that was moved ({answer}): have it up, and run {commands}"
    )]
    NotBack {
        /// The interface that had them.
        interface: String,
        /// The first line of `ip`'s answer.
        answer: String,
        /// The commands that failed.
        commands: String,
    },
    /// `ip` cannot be run.
    #[error("ip {arguments}: {source}")]
    Run {
        /// Its arguments.
        arguments: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// `ip` refuses.
    #[error("ip {arguments}: {answer}")]
    Refused {
        /// Its arguments.
        arguments: String,
        /// The first line of its answer.
        answer: String,
    },
}

/// Addresses and routes that were moved. On drop they are given back.
#[derive(Debug)]
pub(super) struct Moved {
    shell: Child,
    answers: ChildStdout,
    addresses: String,
    interface: String,
    /// The number of the interface, which it keeps under other names.
    index: u32,
    /// Lines of a batch that give everything back.
    commands: String,
}

impl Moved {
    /// Gives them back.
    ///
    /// # Errors
    ///
    /// If somebody has killed the shell that does it, or the interface is there and does not take all.
    pub(super) fn give_back(mut self) -> Result<(), MoveError> {
        let Ok((status, answers)) = self.end() else { return Ok(()) };
        let interface = self.interface.clone();
        if status.code().is_none_or(|code| code > 128) {
            let addresses = std::mem::take(&mut self.addresses);
            let commands = quoted(self.commands.lines());
            return Err(MoveError::Killed { addresses, interface, status, commands });
        }
        let mut failed: Vec<String> = failed(&answers, &self.commands).map(str::to_owned).collect();
        let mut answer = answers.lines().next().unwrap_or_default().to_owned();
        if interface::mtu(&interface).is_err() {
            // If it is gone, so is what it had; else `ip` ended at the first command.
            let Some(name) = renamed(self.index) else { return Ok(()) };
            let rest = |line: &str| line.strip_suffix(&interface).unwrap_or(line).to_owned();
            failed = self.commands.lines().map(|line| rest(line) + &name).collect();
            answer = format!("it is {name} now");
        }
        if failed.is_empty() {
            return Ok(());
        }
        Err(MoveError::NotBack {
            interface,
            answer,
            commands: quoted(failed.iter().map(String::as_str)),
        })
    }

    /// Has the shell give everything back, and waits for it; also for what `ip` says.
    fn end(&mut self) -> io::Result<(ExitStatus, String)> {
        drop(self.shell.stdin.take());
        let mut answers = Vec::new();
        self.answers.read_to_end(&mut answers)?;
        Ok((self.shell.wait()?, String::from_utf8_lossy(&answers).into_owned()))
    }

    /// Sees whether the shell lives.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub(super) fn monitor(&self) -> io::Result<ShellMonitor> {
        let said = format!(
            "the shell that gives addresses and routes back to {} was killed: at the end run {}",
            self.interface,
            quoted(self.commands.lines())
        );
        Ok(ShellMonitor { shell: self.answers.as_fd().try_clone_to_owned()?, said: Some(said) })
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // It may be gone, if somebody has ended it.
        let _ended = self.end();
    }
}

/// Tells once that the shell that gives back is gone.
#[derive(Debug)]
pub(super) struct ShellMonitor {
    shell: OwnedFd,
    said: Option<String>,
}

impl ShellMonitor {
    pub(super) fn look(&mut self) -> Option<String> {
        let mut polled = [PollFd::new(&self.shell, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).ok()?;
        polled[0].revents().contains(PollFlags::HUP).then(|| self.said.take())?
    }
}

/// Its present name, if the interface is still there.
fn renamed(index: u32) -> Option<String> {
    index_to_name(socket().ok()?, index).ok()
}

/// A socket, by which the kernel tells names of interfaces.
fn socket() -> Result<UdpSocket, MoveError> {
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(MoveError::Shell)
}

/// Commands of a batch as an operator types them.
fn quoted<'t>(lines: impl Iterator<Item = &'t str>) -> String {
    let commands: Vec<String> = lines.map(|line| format!("`ip {line}`")).collect();
    commands.join(", ")
}

/// The lines of a batch that failed, by what `ip` said of it.
fn failed<'t>(answers: &'t str, commands: &'t str) -> impl Iterator<Item = &'t str> {
    let numbers = answers.lines().filter_map(|line| line.strip_prefix(FAILED)?.trim().parse().ok());
    numbers.filter_map(|number: usize| commands.lines().nth(number.checked_sub(1)?))
}

/// Moves the addresses of the near interface, and the routes through it, to the device at the far end.
/// Returns what to say, too.
///
/// # Errors
///
/// If the ports are others, there is no `ip`, or it refuses; then everything is as it was.
pub(super) fn take(settings: &Settings) -> Result<(Moved, String), MoveError> {
    let interface = settings.near.interface().filter(|_| !settings.near.mirror);
    let (Some(near), Some(far)) = (interface, settings.far.device()) else {
        let [near, far] = [&settings.near, &settings.far].map(|port| Box::new(port.clone()));
        return Err(MoveError::Ports { near, far });
    };
    for name in [near, far] {
        plan::check_name(name)?;
    }
    let plan = Plan::of(near, ip)?;
    let list: Vec<&str> = plan.addresses().collect();
    let mut moved = wait_to(&plan.cleared(far), &plan.added(near)).map_err(MoveError::Shell)?;
    (moved.addresses, moved.interface) = (list.join(", "), near.to_owned());
    moved.index = name_to_index(socket()?, near).map_err(|error| MoveError::Shell(error.into()))?;
    let take_over = [plan.removed(near), plan.added(far)].concat();
    // If that fails, `moved` is dropped, and gives everything back.
    batch(&take_over)?;
    let said = match list.as_slice() {
        [] => format!("{near} has no address to move to {far}"),
        list => format!(
            "{} and {} routes moved from {near} to {far}, until the end",
            list.join(", "),
            plan.routes()
        ),
    };
    Ok((moved, said))
}

/// Starts the helper that restores the settings once this process ends.
fn wait_to(remove: &str, add: &str) -> io::Result<Moved> {
    let mut shell = command("/bin/sh");
    shell.args(["-c", GIVE_BACK, "sh", remove, add]).process_group(0);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = shell.spawn()?;
    let mut answers = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    // From then on a signal to all processes of a service does not end it.
    answers.read_exact(&mut [0])?;
    let (addresses, interface, commands) = (String::new(), String::new(), add.to_owned());
    Ok(Moved { shell: child, answers, addresses, interface, index: 0, commands })
}

/// With nothing of this process's environment.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).current_dir("/");
    command
}

fn batch(commands: &str) -> Result<(), MoveError> {
    ip(&["-batch", "-"], commands).map(drop)
}

/// Runs `ip`, and returns what it says.
fn ip(arguments: &[&str], input: &str) -> Result<String, MoveError> {
    let told = |source| MoveError::Run { arguments: arguments.join(" "), source };
    let mut command = command("ip");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(told)?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes()).map_err(told)?;
    }
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let answer = said.lines().next().unwrap_or("it refuses").to_owned();
    Err(MoveError::Refused { arguments: arguments.join(" "), answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_failed_are_those_of_their_lines() {
        let answers = "Error: Nexthop has invalid gateway.\nCommand failed -:1\nCommand failed -:3\n\
                       Command failed -:0\nCommand failed -:9\n";
        let commands = "route replace default via 192.0.2.1 dev eth0\naddress replace 192.0.2.7/24 dev eth0\n\
                        route replace 10.0.0.0/8 via 192.0.2.2 dev eth0\n";
        assert_eq!(
            quoted(failed(answers, commands)),
            "`ip route replace default via 192.0.2.1 dev eth0`, \
             `ip route replace 10.0.0.0/8 via 192.0.2.2 dev eth0`"
        );
        assert_eq!(failed("", commands).count(), 0);
    }
}
