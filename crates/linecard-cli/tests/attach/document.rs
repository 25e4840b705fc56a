//! The first commands of docs/howto/attach.md, as they are pasted into a shell.

use crate::bytes::{Transfer, Way};
use crate::lab::with_lab;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const DOCUMENT: &str = include_str!("../../../../docs/howto/attach.md");
/// Stands before the shell's commands: the interface has the address that is to move.
const BEFORE: &str = "set -e; mount -t sysfs sysfs /sys; ip address replace 10.9.0.2/24 dev lcw\n";
/// Stands behind them: they have passed, and go on until stdin is closed. Then the address is back.
const BEHIND: &str = "\necho pasted; read wait || true; kill $!; wait $!\n\
                      ip -o address show dev lcw | grep -q 10.9.0.2/24\n";

/// The first block of commands behind this heading.
fn commands(heading: &str) -> String {
    let (_, text) = DOCUMENT.split_once(heading).expect("the document has it");
    let lines = text.lines().skip_while(|line| !line.starts_with("    "));
    lines.map_while(|line| line.strip_prefix("    ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_first_commands_work_when_they_are_pasted() {
    with_lab("commands of docs/howto/attach.md", |lab| {
        let text = commands("## Examples");
        assert!(text.contains("xdp:eth0 tap:lc0") && text.contains("--take-addresses"), "{text}");
        // The lab's name.
        let text = text.replace("eth0", "lcw");
        let binary = Path::new(env!("CARGO_BIN_EXE_linecard"));
        let folder = tempfile::tempdir().expect("there is room");
        let path = format!(
            "{}:{}",
            binary.parent().expect("it is in a folder").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let script = format!("{BEFORE}{text}{BEHIND}");
        let mut shell = Command::new("unshare");
        shell.args(["-m", "bash", "-c", &script]).env("PATH", path).current_dir(folder.path());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shell = lab.host.inside(|| shell.spawn()).expect("`unshare` is there");
        let mut said = BufReader::new(shell.stdout.take().expect("it is piped"));
        let mut lines = String::new();
        while !lines.ends_with("pasted\n") {
            let read = said.read_line(&mut lines).expect("it is text");
            let log = || fs::read_to_string(folder.path().join("attach.log"));
            assert!(read > 0, "the commands failed: {lines} {:?} {}", log(), errors(&mut shell));
        }
        Transfer::new(Way::In, 1 << 20).run(lab);
        drop(shell.stdin.take());
        assert!(shell.wait().expect("it is a child").success());
    });
}

/// The shell makes the file in the background: the first look may come before that.
#[test]
fn the_wait_for_the_log_needs_no_file() {
    let text = commands("## Examples");
    let wait = text.lines().find(|line| line.starts_with("while ")).expect("it waits");
    let folder = tempfile::tempdir().expect("there is room");
    let script = format!(
        "set -e; (sleep 0.3; echo attached: a and b > attach.log; exec sleep 60) & {wait}; kill $!"
    );
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(folder.path()).stdin(Stdio::null());
    let output = shell.output().expect("there is a shell");
    let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy);
    assert_eq!((said[0].as_ref(), said[1].as_ref()), ("attached: a and b\n", ""));
    assert!(output.status.success(), "{output:?}");
}

/// The output of a shell on stderr.
fn errors(shell: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = shell.stderr.take() {
        let _read = stderr.read_to_string(&mut text);
    }
    text
}
