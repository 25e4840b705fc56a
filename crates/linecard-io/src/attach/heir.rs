//! Addresses and routes of an interface, moved to the device in its place, and moved back.
//!
//! `ip` (iproute2) changes them, as an operator would. A process that has dropped its privileges cannot give them back,
//! and a process that was killed does nothing at all: so a shell that keeps its privileges waits for the end of a pipe
//! that this process holds, and then gives everything back. It has the steps for that from the start, and reads nothing
//! later: `ip` can start programs, and an attacker in the process without privileges must not do so through the pipe.

use super::iproute::{self, command};
use super::plan::{self, Plan};
use super::script::{FUNCTIONS, START, Script};
use super::settings::{PortSpec, Settings};
use linecard_tun::sys::device;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};

/// Says that it is ready, and waits until its input ends. Signals to all processes of a terminal or a service are for
/// others, and who ends `cat` ends nothing.
const WAIT: &str =
    "trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE; echo; until cat >/dev/null; do :; done\n";

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
    /// A port of a bridge, a bond or a VRF.
    #[error(
        "{interface} belongs to {master}, whose addresses and routes do not move with it: attach {master} instead, or `ip link set \
         {interface} nomaster`"
    )]
    Belongs {
        /// The interface.
        interface: String,
        /// The interface that it belongs to.
        master: String,
    },
    /// A name with characters that a shell reads as something else.
    #[error("{0}: rename it to letters, digits and `.`, `_`, `-`, `@`, `+`")]
    Name(String),
    /// A route that other interfaces may share.
    #[error("`{0}` may have several next hops (nexthop, nhid): remove it, or move it by hand")]
    Shared(String),
    /// A route of another interface that sends from an address which would move.
    #[error(
        "the kernel changes or removes `{route}` with {address}, its `src`: remove it before the start, and add it again \
         after the end"
    )]
    Source {
        /// The route.
        route: String,
        /// The address.
        address: String,
    },
    /// Routes whose order cannot be restored.
    #[error(
        "`{route}` is between routes with the same destination and metric, and would get another place: give it another \
         metric"
    )]
    Between {
        /// The route.
        route: String,
    },
    /// Configuration that the kernel takes from router advertisements.
    #[error(
        "`{what}` is of router advertisements, and the kernel would not renew it any more when it has come back: `sysctl \
         net.ipv6.conf.{}.accept_ra=0`, and configure IPv6 by addresses and routes of your own, or by a network manager",
        // So sysctl writes a point.
        .interface.replace('.', "/")
    )]
    Advertised {
        /// The route or the address.
        what: String,
        /// Its interface.
        interface: String,
    },
    /// An address of IPv6 that is not in use.
    #[error(
        "{address} is {state}, and would come back as an address in use: {}",
        match *state {
            "dadfailed" => format!("remove it (`ip address del {address} dev {interface}`), since a neighbour has it"),
            _ => format!("see that {interface} is up and has a carrier, and start again"),
        }
    )]
    Unsettled {
        /// The address.
        address: String,
        /// Its interface.
        interface: String,
        /// As `ip` calls its state.
        state: &'static str,
    },
    /// The shell that gives everything back does not start.
    #[error("sh: {0}")]
    Shell(io::Error),
    /// The script for a crash cannot be written or read.
    #[error(
        "{}: {source}; nothing is moved without a record of it, and LINECARD_JOURNALS names another folder for that",
        path.display()
    )]
    Record {
        /// The file, or its folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The interface does not take back all that an earlier process moved.
    #[error("{answer} (recorded by an earlier start; remove {} to give up what it lists)", path.display())]
    Earlier {
        /// The script's answer.
        answer: String,
        /// The script.
        path: PathBuf,
    },
    /// The shell was killed.
    #[error(
        "the shell that was to give addresses and routes back to {interface} was killed ({status}): run `sh {script}`"
    )]
    Killed {
        /// The interface that had them.
        interface: String,
        /// How it ended.
        status: ExitStatus,
        /// The script that gives them back.
        script: String,
    },
    /// The interface does not take them back.
    #[error("{0}")]
    NotBack(String),
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
    #[error("{what}: {answer}")]
    Refused {
        /// Its call, or the object that it was to set.
        what: String,
        /// The first line of its answer.
        answer: String,
    },
}

/// Addresses and routes that were moved. On drop they are given back.
#[derive(Debug)]
pub(super) struct Moved {
    shell: Child,
    /// Its answers. Closed on drop, so that it reports on standard error.
    answers: Option<ChildStdout>,
    interface: String,
    script: String,
    /// Nobody else runs the script meanwhile.
    _held: File,
}

impl Moved {
    /// Gives them back.
    ///
    /// # Errors
    ///
    /// If the shell that does it was killed, or the interface exists and does not accept all.
    pub(super) fn give_back(mut self) -> Result<(), MoveError> {
        let Ok((status, answer)) = self.end() else { return Ok(()) };
        match (status.code(), answer.trim()) {
            (Some(0), _) => Ok(()),
            (Some(_), answer) if !answer.is_empty() => Err(MoveError::NotBack(answer.to_owned())),
            _ => {
                let [interface, script] = [&self.interface, &self.script].map(Clone::clone);
                Err(MoveError::Killed { interface, status, script })
            }
        }
    }

    /// Has the shell give everything back, and waits for it; also for what it says.
    fn end(&mut self) -> io::Result<(ExitStatus, String)> {
        drop(self.shell.stdin.take());
        let mut answers = Vec::new();
        if let Some(said) = &mut self.answers {
            said.read_to_end(&mut answers)?;
        }
        Ok((self.shell.wait()?, String::from_utf8_lossy(&answers).into_owned()))
    }

    /// Sees whether the shell lives.
    ///
    /// # Errors
    ///
    /// The system has no descriptor left.
    pub(super) fn monitor(&self) -> io::Result<ShellMonitor> {
        let said = format!(
            "the shell that gives addresses and routes back to {} was killed: at the end run `sh {}`",
            self.interface, self.script
        );
        let answers = self.answers.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(ShellMonitor { shell: answers.as_fd().try_clone_to_owned()?, said: Some(said) })
    }
}

impl Drop for Moved {
    fn drop(&mut self) {
        // A start that fails has an error already. The shell may have been ended.
        drop(self.answers.take());
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

/// Moves the addresses of the near interface, and the routes through it, to the device at the far end.
/// Returns what to say, too.
///
/// # Errors
///
/// If the ports are others, there is no `ip`, or it refuses; then everything is as it was.
pub(super) fn take(settings: &Settings) -> Result<(Moved, Vec<String>), MoveError> {
    let interface = settings.near.interface().filter(|_| !settings.near.mirror);
    let (Some(near), Some(far)) = (interface, settings.far.device()) else {
        let [near, far] = [&settings.near, &settings.far].map(|port| Box::new(port.clone()));
        return Err(MoveError::Ports { near, far });
    };
    for name in [near, far] {
        plan::check_name(name)?;
    }
    if let Some(master) = super::device::master(near) {
        return Err(MoveError::Belongs { interface: near.to_owned(), master });
    }
    let index = |name| device::index(name).map(i32::unsigned_abs).map_err(MoveError::Shell);
    let (near_index, far_index) = (index(near)?, index(far)?);
    let mut said = Script::run_earlier(near, near_index)?;
    // `ip` lists neither under another name that it may have (altname).
    let [own, there] = [near_index, far_index].map(|index| device::name(index.cast_signed()));
    let plan = Plan::of(&own.map_err(MoveError::Shell)?, &there.map_err(MoveError::Shell)?)?;
    let list: Vec<&str> = plan.addresses().collect();
    plan.routes_back().try_for_each(|step| iproute::take(&step))?;
    let steps = [plan.cleared(far), plan.added(near)].concat();
    let moved = wait_to(Script::write(near, near_index, &steps)?, near)?;
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
    let temporary = match plan.temporary() {
        0 => String::new(),
        count => format!("; temporary addresses of IPv6 come back as ordinary ones: {count}"),
    };
    said.push(match list.as_slice() {
        [] => format!("{near} has no address to move to {far}"),
        list => format!(
            "{} and {} moved from {near} to {far}, until the end (recorded in {}){rules}{temporary}",
            list.join(", "),
            match plan.routes() {
                1 => "1 route".to_owned(),
                routes => format!("{routes} routes"),
            },
            moved.script
        ),
    });
    Ok((moved, said))
}

/// Starts the helper that runs a script once this process ends.
fn wait_to(script: Script, near: &str) -> Result<Moved, MoveError> {
    let start = || {
        let memory = iproute::in_memory(&[])?;
        // The helper holds the script, so that the next start waits for it.
        for file in [&memory, &script.held] {
            fcntl_setfd(file, FdFlags::empty())?;
        }
        let mut shell = command("/bin/sh");
        shell.args(["-c", &[WAIT, FUNCTIONS, START].concat(), "sh", &script.path]);
        shell.arg(format!("/proc/self/fd/{}", memory.as_raw_fd())).args(&script.arguments);
        // Its messages go to our standard error, which is not read any more.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn()?;
        let mut answers = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        // From then on a signal to all processes of a service does not end it.
        answers.read_exact(&mut [0])?;
        fcntl_setfd(&script.held, FdFlags::CLOEXEC)?;
        Ok((child, answers))
    };
    let (shell, answers) = start().map_err(MoveError::Shell)?;
    let (interface, script, _held) = (near.to_owned(), script.path, script.held);
    Ok(Moved { shell, answers: Some(answers), interface, script, _held })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// As the script does, with a file in place of standard error.
    #[test]
    fn what_is_not_given_back_on_drop_is_said_on_standard_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stderr");
        let moved = || {
            let script =
                "trap '' PIPE; cat >/dev/null; printf no 2>/dev/null || printf no >&2; exit 1";
            let mut shell = command("/bin/sh");
            let stderr = File::create(&path).expect("space");
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
            let mut shell = shell.spawn().expect("a shell");
            let answers = shell.stdout.take();
            let _held = File::open("/dev/null").expect("it is there");
            Moved { shell, answers, interface: "eth0".into(), script: "x.sh".into(), _held }
        };
        let why = moved().give_back().expect_err("it says so").to_string();
        assert_eq!((&*why, fs::read_to_string(&path).expect("text")), ("no", String::new()));
        drop(moved());
        assert_eq!(fs::read_to_string(&path).expect("text"), "no");
    }
}
