//! Both ends, in a folder of their own.

use crate::folder::{CommandOutput, Folder};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the journal before its records, and of a record.
pub(super) const HEADER_BYTES: u64 = 76;
pub(super) const RECORD_BYTES: u64 = 76;
pub(super) const JOURNAL: &str = "to/.from.bin.linecard-journal";

/// Two hosts: files of the sender, files of the receiver, settings of each.
pub(super) struct Ends {
    pub(super) folder: Folder,
}

/// A receiver that listens.
pub(super) struct Receiver {
    child: Child,
    pub(super) address: String,
    /// Its output until it listened.
    pub(super) said: String,
    rest: Option<BufReader<ChildStderr>>,
}

impl Ends {
    /// With a key that both have, as `psk`.
    pub(super) fn new() -> Self {
        let folder = Folder::new();
        folder.write("psk", format!("{}\n", "5a".repeat(32)).as_bytes());
        let only_owner = fs::Permissions::from_mode(0o600);
        fs::set_permissions(folder.path("psk"), only_owner).unwrap();
        Self { folder }
    }

    /// With a file of this many bytes to be sent, `from.bin`.
    pub(super) fn with_file(bytes: usize) -> Self {
        let ends = Self::new();
        ends.folder.write("from.bin", &noise(bytes));
        ends
    }

    /// A command as the user of `host` would run it.
    pub(super) fn command(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = self.folder.command(arguments);
        command.env("XDG_CONFIG_HOME", self.folder.path(host));
        command
    }

    /// A receiver with these arguments at a free port.
    pub(super) fn listen(&self, arguments: &[&str]) -> Receiver {
        let all = [&["recv", "--listen", "127.0.0.1:0"], arguments].concat();
        Receiver::start(self.command("receiver", &all))
    }

    /// The same as a user without root that owns these files; the first is one of keys.
    pub(super) fn listen_as_nobody(&self, arguments: &[&str], owned: &[&str]) -> Receiver {
        let all = [&["recv", "--listen", "127.0.0.1:0"], arguments].concat();
        Receiver::start(self.command_of_nobody(&all, owned))
    }

    /// A command as that user.
    pub(super) fn command_of_nobody(&self, arguments: &[&str], owned: &[&str]) -> Command {
        const NOBODY: u32 = 65_534;
        let mode = |name: &str, mode: u32| {
            fs::set_permissions(self.folder.path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(".", 0o755);
        mode(owned[0], 0o600);
        let mut command = Command::new(self.folder.copy_of_linecard());
        command.current_dir(self.folder.path(".")).args(arguments);
        if fs::metadata("/proc/self").is_ok_and(|about| about.uid() == 0) {
            for name in owned {
                chown(self.folder.path(name), Some(NOBODY), None).unwrap();
            }
            command.uid(NOBODY);
        }
        command
    }

    /// A receiver into `to` with the shared key.
    pub(super) fn receiver(&self, more: &[&str]) -> Receiver {
        self.listen(&[&["to", "--psk", "psk"], more].concat())
    }

    /// The same, started by a script of the shell with the command as its arguments.
    pub(super) fn receiver_by_shell(&self, script: &str, more: &[&str]) -> Receiver {
        let all = [&["recv", "--listen", "127.0.0.1:0", "to", "--psk", "psk"], more].concat();
        let own = self.command("receiver", &all);
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(own.get_program()).args(own.get_args());
        command.current_dir(self.folder.path("."));
        Receiver::start(command)
    }

    /// The key of a host, which is made if there is none.
    pub(super) fn key(&self, host: &str) -> String {
        let shown = self.command(host, &["keys"]).output().unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        shown.split_whitespace().find(|word| word.starts_with("lc1")).unwrap().to_owned()
    }

    /// The sender's command with the shared key.
    pub(super) fn sender(&self, what: &str, to: &Receiver, more: &[&str]) -> Command {
        let all = [&["send", what, &to.address, "--psk", "psk"], more].concat();
        self.command("sender", &all)
    }

    /// Sends with the shared key.
    pub(super) fn send(&self, what: &str, to: &Receiver, more: &[&str]) -> CommandOutput {
        self.sender(what, to, more).output().unwrap().into()
    }

    /// Both, one after the other, as they end.
    pub(super) fn both(
        &self,
        what: &str,
        send: &[&str],
        recv: &[&str],
    ) -> (CommandOutput, CommandOutput) {
        let receiver = self.receiver(recv);
        let sent = self.send(what, &receiver, send);
        (sent, receiver.end())
    }

    /// Whole chunks that the receiver has written down.
    pub(super) fn records(&self) -> u64 {
        fs::metadata(self.folder.path(JOURNAL))
            .map_or(0, |about| about.len().saturating_sub(HEADER_BYTES) / RECORD_BYTES)
    }

    /// Waits until some chunks are stored, and more are to come.
    pub(super) fn wait_for_records(&self, count: u64) {
        self.wait_until(|| self.records() >= count);
    }

    /// Waits for something that a transfer does.
    pub(super) fn wait_until(&self, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "nothing came: {:?}", self.folder.names());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Lists the sender's own key at the receiver. Gives its fingerprint.
    pub(super) fn authorize_sender(&self) -> String {
        let shown = self.command("sender", &["keys", "--json"]).output().unwrap();
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let own = shown["own"]["fingerprint"].as_str().unwrap();
        let authorize = self.command("receiver", &["keys", "authorize", own]).output().unwrap();
        assert!(authorize.status.success(), "{authorize:?}");
        own.to_owned()
    }

    /// The received files are those sent, and there are no others.
    pub(super) fn assert_equal(&self) {
        let (from, to) = (self.folder.read("from.bin"), self.folder.read("to/from.bin"));
        assert!(from == to, "{} bytes are not those {}", to.len(), from.len());
        let names = self.folder.names();
        let left: Vec<_> = names.iter().filter(|name| name.contains("linecard-")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

impl Receiver {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut rest = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while ![" may send", "pairing code is"].iter().any(|end| said.contains(end)) {
            let read = rest.read_line(&mut said).unwrap();
            assert!(read > 0, "it ended: {said}");
        }
        let at = said.split("listening at ").nth(1).unwrap();
        let end = at.find([':', '\n', ' ']).map(|colon| &at[colon + 1..]).unwrap();
        let port: String = end.chars().take_while(char::is_ascii_digit).collect();
        Self { child, address: format!("127.0.0.1:{port}"), said, rest: Some(rest) }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its output while it runs in the background. With `stops`, it is told to stop when it has turned a visitor away.
    fn listen(&mut self, stops: bool) -> JoinHandle<String> {
        let (mut rest, id) = (self.rest.take().unwrap(), self.id());
        std::thread::spawn(move || {
            let (mut text, mut is_stopped) = (String::new(), !stops);
            while rest.read_line(&mut text).unwrap() > 0 {
                if !is_stopped && text.contains("turned away") {
                    is_stopped = true;
                    // It may have ended by itself.
                    let kill = format!("kill -TERM {id} 2>&-");
                    let _sent = Command::new("sh").args(["-c", &kill]).status();
                }
            }
            text
        })
    }

    /// Its standard output, to be read meanwhile.
    pub(super) fn stdout(&mut self) -> std::process::ChildStdout {
        self.child.stdout.take().unwrap()
    }

    /// Waits for its end. A sender that is gone before it has announced anything does not end it: it is stopped then.
    pub(super) fn end_or_stop(self) -> CommandOutput {
        self.end_after(true)
    }

    /// Waits for its end.
    pub(super) fn end(self) -> CommandOutput {
        self.end_after(false)
    }

    fn end_after(mut self, stops: bool) -> CommandOutput {
        let stderr = self.listen(stops);
        let stdout = self.child.stdout.take().map(|mut out| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                out.read_to_end(&mut bytes).unwrap();
                bytes
            })
        });
        let code = ended(&mut self.child);
        let stdout = stdout.map(|bytes| bytes.join().unwrap()).unwrap_or_default();
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        CommandOutput { code, stdout, stderr: stderr.join().unwrap() }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A sender in the background.
pub(super) struct Sender(Option<Child>);

impl Sender {
    pub(super) fn start(mut command: Command) -> Self {
        Self(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// With its lines in a file, which can be read while it runs.
    pub(super) fn with_log(mut command: Command, log: &Path) -> Self {
        let lines = File::create(log).unwrap();
        Self(Some(command.stdout(Stdio::piped()).stderr(lines).spawn().unwrap()))
    }

    pub(super) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(super) fn end(mut self) -> CommandOutput {
        ended(self.0.as_mut().unwrap());
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ended = child.kill();
            let _status = child.wait();
        }
    }
}

/// The account of the end that was not killed.
pub(super) enum Survivor {
    /// All had been transferred before.
    Complete,
    /// Nothing had begun.
    Nothing,
    /// It says how far it was.
    Account(Value),
}

/// Kills one end, and waits for the other.
pub(super) fn kill_one(receiver: Receiver, sender: Sender, is_receiver: bool) -> Survivor {
    signal("KILL", if is_receiver { receiver.id() } else { sender.id() });
    let sent = sender.end();
    if !is_receiver {
        // The sender may not even have connected: a visitor shows that the receiver waits for another.
        let _visited = std::net::TcpStream::connect(receiver.address.as_str());
    }
    let got = receiver.end_or_stop();
    let left = if is_receiver { sent } else { got };
    if left.code == Some(0) {
        return Survivor::Complete;
    }
    assert!(left.code == Some(14) || !is_receiver && left.code == Some(130), "{left:?}");
    if left.stdout.trim().is_empty() {
        return Survivor::Nothing;
    }
    let account = account(&left);
    // Killed before anything had begun: the other end has nothing to say of lanes.
    if account["lanes"].is_null() { Survivor::Nothing } else { Survivor::Account(account) }
}

/// What an end has printed with `--json`.
pub(super) fn account(outcome: &CommandOutput) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|_| panic!("{outcome:?}"))
}

/// Whether a child of this process has not ended. It has no program then.
pub(super) fn runs(process: u32) -> bool {
    fs::read_link(format!("/proc/{process}/exe")).is_ok()
}

/// Waits for the end of a process, for a limited time.
fn ended(child: &mut Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > PATIENCE {
            let _ended = child.kill();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal.
pub(super) fn signal(name: &str, process: u32) {
    let kill = format!("kill -{name} {process}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// The number in a variable of the environment.
pub(super) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Bytes without a pattern.
pub(super) fn noise(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    linecard::rng::Rng::new(bytes as u64).fill(&mut content);
    content
}

/// `stderr` without lines about pauses of lanes.
pub(super) fn beside_pauses(stderr: &str) -> String {
    stderr.split_inclusive('\n').filter(|line| !linecard_testkit::is_pause(line)).collect()
}

/// The last line beside those, which is the error, has all of `parts`.
pub(super) fn says(stderr: &str, parts: &[&str]) {
    let stderr = beside_pauses(stderr);
    let line = stderr.lines().last().unwrap_or("");
    assert!(line.starts_with("linecard: "), "{stderr}");
    for part in parts {
        assert!(line.contains(part), "no \"{part}\" in: {stderr}");
    }
}
