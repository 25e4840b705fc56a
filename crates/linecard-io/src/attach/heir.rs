//! Addresses and routes of an interface, moved to the device in its place, and given back.
//!
//! `ip` (iproute2) changes them, as an operator would. A process that has dropped its privileges cannot give them back,
//! and a process that was killed does nothing at all: so a shell that keeps its privileges waits for the end of a pipe
//! that this process holds, and then gives everything back. It has the steps for that from the start, and reads
//! nothing later: `ip` can start programs, and who takes over a process without privileges is not to do so by its pipe.

use super::iproute::{self, command};
use super::plan::{self, Action, Plan, Step};
use super::settings::{PortSpec, Settings};
use linecard_tun::interface;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netdevice::{index_to_name, name_to_index};
use std::io::{self, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};

/// Says that it is ready, waits until its input ends, and then has `ip` take each step, whether or not others succeed: words,
/// or a message, which `printf` writes to the file in memory that is its standard error, since `ip` reads it more than once.
/// Says which failed. Signals to all processes of a terminal or a service are for others, and who ends `cat` ends nothing.
const GIVE_BACK: &str = "trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE; set -f; echo; \
    until cat >/dev/null; do :; done; n=0; while [ $# -gt 1 ]; do case $1 in \
    words) said=$(ip $2 2>&1 >/dev/null);; \
    *) printf \"$2\" >/proc/self/fd/2; said=$(ip $1 restore </proc/self/fd/2 2>&1 >/dev/null);; \
    esac || printf 'failed %s %s\\n' $n \"$said\"; n=$((n+1)); shift 2; done";
/// By this the shell says which step failed.
const FAILED: &str = "failed ";

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
    /// A name with characters that a shell reads as something else.
    #[error("{0}: rename it to letters, digits and `.`, `_`, `-`, `@`, `+`")]
    Name(String),
    /// A route that other interfaces may share.
    #[error("`{0}` may have several next hops (nexthop, nhid): remove it, or move it by hand")]
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
        "{interface} did not get back all that was moved ({answer}): have it up, with its MTU, and run {commands}"
    )]
    NotBack {
        /// The interface that had them.
        interface: String,
        /// The first line of `ip`'s answer.
        answer: String,
        /// The commands that failed.
        commands: String,
    },
    /// `ip` says something unknown.
    #[error("ip {object} save: its form is unknown; iproute2 5.0 or later is needed")]
    Unknown {
        /// The objects to save.
        object: &'static str,
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
    /// The commands of the shell's steps; `None` where one need not succeed.
    commands: Vec<Option<String>>,
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
            let commands = quoted(self.commands.iter().flatten());
            return Err(MoveError::Killed { addresses, interface, status, commands });
        }
        let failed = failed(&answers, &self.commands);
        let Some((_, answer)) = failed.first() else { return Ok(()) };
        let (mut answer, mut commands) = (
            answer.clone(),
            failed.iter().map(|(command, _)| (*command).clone()).collect::<Vec<_>>(),
        );
        if interface::mtu(&interface).is_err() {
            // If it is gone, so is what it had.
            let Some(name) = renamed(self.index) else { return Ok(()) };
            let rest = |line: &String| line.strip_suffix(&interface).unwrap_or(line).to_owned();
            commands = commands.iter().map(|line| rest(line) + &name).collect();
            answer = format!("it is {name} now");
        }
        Err(MoveError::NotBack { interface, answer, commands: quoted(&commands) })
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
            quoted(self.commands.iter().flatten())
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

/// Commands as an operator types them.
fn quoted<'t>(commands: impl IntoIterator<Item = &'t String>) -> String {
    let commands: Vec<String> =
        commands.into_iter().map(|command| format!("`ip {command}`")).collect();
    commands.join(", ")
}

/// The commands that failed, with what `ip` said, of those that have to succeed.
fn failed<'t>(answers: &str, commands: &'t [Option<String>]) -> Vec<(&'t String, String)> {
    let found = answers.lines().filter_map(|line| {
        let (number, said) = line.strip_prefix(FAILED)?.split_once(' ')?;
        let command = commands.get(number.parse::<usize>().ok()?)?;
        Some((command.as_ref()?, said.to_owned()))
    });
    found.collect()
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
    let plan = Plan::of(near)?;
    let list: Vec<&str> = plan.addresses().collect();
    let index =
        |name| name_to_index(socket()?, name).map_err(|error| MoveError::Shell(error.into()));
    let (near_index, far_index) = (index(near)?, index(far)?);
    let steps = [plan.cleared(far), plan.added(near)].concat();
    let (addresses, interface) = (list.join(", "), near.to_owned());
    let moved = wait_to(&steps, addresses, interface, near_index).map_err(MoveError::Shell)?;
    let take_over = [plan.left(near), plan.taken((far, far_index))].concat();
    if let Err(error) = take_over.iter().try_for_each(iproute::take) {
        // An address that does not come back is worse than one that could not be moved.
        moved.give_back()?;
        return Err(error);
    }
    let rules = match plan::rules(near) {
        0 => String::new(),
        rules => format!("; {rules} of `ip rule` name {near}, and not {far}"),
    };
    let said = match list.as_slice() {
        [] => format!("{near} has no address to move to {far}"),
        list => format!(
            "{} and {} routes moved from {near} to {far}, until the end{rules}",
            list.join(", "),
            plan.routes()
        ),
    };
    Ok((moved, said))
}

/// Starts the helper that takes these steps once this process ends.
fn wait_to(steps: &[Step], addresses: String, interface: String, index: u32) -> io::Result<Moved> {
    let mut shell = command("/bin/sh");
    shell.args(["-c", GIVE_BACK, "sh"]).process_group(0);
    for step in steps {
        match &step.action {
            Action::Words(words) => shell.args(["words", words]),
            Action::Restore(message) => {
                shell.args([message.object().name(), &octal(&message.saved())])
            }
        };
    }
    let memory = iproute::in_memory(&[])?;
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::from(memory));
    let mut child = shell.spawn()?;
    let mut answers = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    // From then on a signal to all processes of a service does not end it.
    answers.read_exact(&mut [0])?;
    let commands = steps.iter().map(|step| step.command.clone()).collect();
    Ok(Moved { shell: child, answers, addresses, interface, index, commands })
}

/// Bytes as `printf` of a shell writes them.
fn octal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03o}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_failed_are_those_of_their_steps() {
        let answers = "failed 1 Error: Nexthop has invalid gateway.\nof the route\nfailed 0 gone\n\
                       failed 2 \nfailed 9 x\nfailed\n";
        let commands =
            [None, Some("route append default".to_owned()), Some("address del".to_owned())];
        let failed = failed(answers, &commands);
        assert_eq!(failed[0].1, "Error: Nexthop has invalid gateway.");
        let failed = failed.into_iter().map(|(command, _)| command);
        assert_eq!(quoted(failed), "`ip route append default`, `ip address del`");
    }

    /// By the shell itself: all bytes, and the end of its input.
    #[test]
    fn the_shell_writes_messages_as_they_are() {
        let all: Vec<u8> = (0..=255).collect();
        let mut shell = command("/bin/sh");
        shell.args(["-c", "printf \"$1\"", "sh", &octal(&all)]);
        assert_eq!(shell.output().expect("a shell").stdout, all);
    }
}
