//! The command in a lab, and its output at the end.

use crate::lab::{Lab, PATIENCE, wait_for};
use crate::sys;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Sees the interfaces of its own namespace in `/sys`, as after `ip netns exec`.
const OWN_SYS: &str = "mount -t sysfs sysfs /sys && exec \"$@\"";

/// The line that says that packets pass.
const ATTACHED: &str = "attached: ";

/// `linecard attach` in the host's namespace. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    printed: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

/// How it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Its output on stderr after its start.
    pub(crate) lines: Vec<String>,
    /// The last JSON document of stdout; null when there is none.
    pub(crate) account: Value,
}

/// The command, to be run in the host's namespace behind these words.
pub(crate) fn command(before: &str, program: &str, arguments: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", OWN_SYS, "sh"]);
    command.args(before.split_whitespace()).args([program, "attach"]);
    // It ends by itself even if the test is killed.
    command.args(arguments.split_whitespace()).args(["--json", "--seconds", "300"]);
    command
}

fn linecard(arguments: &str) -> Command {
    command("", env!("CARGO_BIN_EXE_linecard"), arguments)
}

/// Attaches; the TAP has its addresses then.
pub(crate) fn attach(lab: &Lab, arguments: &str) -> Running {
    let running = attach_only(lab, arguments);
    lab.address();
    running
}

/// Attaches, where there may be no TAP.
pub(crate) fn attach_only(lab: &Lab, arguments: &str) -> Running {
    let running = Running::start(lab, linecard(arguments));
    let begun = |lines: &[String]| lines.iter().any(|line| line.contains(ATTACHED));
    wait_for("the ports to be open", || {
        let lines = running.said.lock().expect("no panic");
        let ended = running.readers.iter().all(JoinHandle::is_finished);
        assert!(begun(&lines) || !ended, "attach {arguments}: {lines:?}");
        begun(&lines)
    });
    running
}

/// Attaches in vain.
pub(crate) fn refused(lab: &Lab, arguments: &str) -> Ended {
    refused_as(lab, linecard(arguments))
}

/// The same for a command that was changed.
pub(crate) fn refused_as(lab: &Lab, command: Command) -> Ended {
    Running::start(lab, command).wait()
}

impl Running {
    fn start(lab: &Lab, mut command: Command) -> Self {
        let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = lab.host.inside(|| pipes.spawn()).expect("`unshare` is there");
        let [said, printed] = [(); 2].map(|()| Arc::new(Mutex::new(Vec::new())));
        let readers = vec![
            collect(child.stdout.take().expect("it is piped"), &printed),
            collect(child.stderr.take().expect("it is piped"), &said),
        ];
        Self { child, said, printed, readers }
    }

    /// The documents of this type that it has printed so far.
    pub(crate) fn printed(&self, kind: &str) -> Vec<Value> {
        let lines = self.printed.lock().expect("no panic");
        let documents = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
        documents.filter(|document: &Value| document["type"] == kind).collect()
    }

    /// The lines that it has said on stderr so far.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().expect("no panic").clone()
    }

    /// Waits until it says a line with all these parts.
    pub(crate) fn says(&self, parts: &[&str]) {
        wait_for(&format!("a line with {parts:?}"), || {
            self.said().iter().any(|line| parts.iter().all(|part| line.contains(part)))
        });
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: i32) {
        sys::signal(self.child.id(), signal).expect("it has not been waited for");
    }

    /// Ends it as a service manager does, which has to succeed; returns its statistics.
    pub(crate) fn finish(self) -> Value {
        self.signal(libc::SIGTERM);
        let ended = self.wait();
        assert!(ended.status.success() && ended.lines.is_empty(), "{ended:?}");
        ended.account
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Ended {
        let end = Instant::now() + PATIENCE;
        let mut status = None;
        wait_for("the command to end", || {
            status = self.child.try_wait().expect("it is a child");
            assert!(Instant::now() < end, "it does not end: {:?}", self.said);
            status.is_some()
        });
        self.readers.drain(..).for_each(|reader| reader.join().expect("no panic"));
        let printed = self.printed.lock().expect("no panic").join("\n");
        let documents = serde_json::Deserializer::from_str(&printed).into_iter();
        let account = documents.map_while(Result::ok).last().unwrap_or_default();
        let mut lines = std::mem::take(&mut *self.said.lock().expect("no panic"));
        let start = lines.iter().position(|line| line.contains(ATTACHED));
        lines.drain(..start.map_or(0, |last| last + 1));
        Ended { status: status.expect("just seen"), lines, account }
    }

    /// The kernel's numbers of the scheduling policies of its threads of this name.
    pub(crate) fn policies(&self, name: &str) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        let stats =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        // The name stands in brackets, and the policy is the 39th field behind it; see proc(5).
        let policy = |stat: String| {
            let (task, fields) = stat.rsplit_once(')')?;
            let field = fields.split_whitespace().nth(38)?;
            task.ends_with(&format!("({name}")).then(|| field.parse().ok())?
        };
        stats.filter_map(policy).collect()
    }

    /// Most memory that it has had, in bytes.
    pub(crate) fn most_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        kilobytes.map(|kilobytes: u64| kilobytes << 10).expect("Linux says it")
    }
}

/// Collects lines until their end.
fn collect(from: impl Read + Send + 'static, lines: &Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            lines.lock().expect("no panic").push(line.expect("it is text"));
        }
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `wait` it has ended, and nothing is left to do.
        let _ended = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Ended {
    /// The same without lines that contain `part`.
    pub(crate) fn without(mut self, part: &str) -> Self {
        self.lines.retain(|line| !line.contains(part));
        self
    }

    /// Checks its exit code, and that it said one line with all these parts.
    pub(crate) fn is(&self, code: i32, parts: &[&str]) {
        let [line] = &self.lines[..] else { panic!("not one line: {self:?}") };
        assert_eq!(self.status.code(), Some(code), "{line}");
        assert!(parts.iter().all(|part| line.contains(part)), "{line} lacks one of {parts:?}");
    }
}

/// A number of the statistics; a missing one is 0.
pub(crate) fn count(account: &Value, section: &str, key: &str) -> u64 {
    let value = &account[section][key];
    assert!(value.is_u64() || value.is_null(), "{section}.{key} of {account}");
    value.as_u64().unwrap_or(0)
}

/// Packets that a port has lost on reception, and on transmission.
pub(crate) fn drops(account: &Value, port: &str) -> [u64; 2] {
    let received = ["too_long", "bad_header", "bad_descriptors", "ring_full"];
    let sent = ["above_mtu", "refused", "invalid", "other_link", "unsendable"];
    [&received[..], &sent[..]]
        .map(|reasons| reasons.iter().map(|why| count(account, port, why)).sum())
}

/// Checks that every packet has gone somewhere: on the way in, in the merger, and on the way back.
pub(crate) fn adds_up(account: &Value) {
    let number = |section, key| count(account, section, key);
    let merged = number("merging", "merged") + number("merging", "packets_out");
    assert_eq!(number("near", "received"), number("merging", "packets_in"), "{account:#}");
    assert_eq!(number("merging", "packets_in"), merged, "{account:#}");
    let out = number("far", "transmitted") + drops(account, "far")[1];
    assert_eq!(number("merging", "packets_out"), out, "{account:#}");
    let back = number("near", "transmitted") + drops(account, "near")[1];
    assert_eq!(number("far", "received"), back, "{account:#}");
}
