//! Every command line of the README and of docs/ does what it says.
//!
//! A command stands in a block that is indented, or fenced as `console`, and begins with `linecard`, `$ linecard` or
//! `cargo run`. Blocks of one document are run in order by the shell, without rights, in a folder of its own with
//! `scenarios/` and `testdata/`. The text below a `$` line must be in its output, line by line; `…` stands for omitted
//! lines, and at the end of a line for omitted text.
//!
//! Remarks before a block change this:
//!
//! - `<!-- not run: WHY -->`: needs rights, another host, a network, minutes. Its options still have to be
//!   known. `<!-- not run (WORD): WHY -->` means the lines that have the word.
//! - `<!-- exits CODE -->`: all of its commands end with this code.
//! - `<!-- shows one run -->`: figures differ from run to run, and are not compared.

use linecard_testkit::{root, say};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The user without rights that every Linux has.
const NOBODY: u32 = 65_534;
/// Names of the reader's own captures in documents.
const OWN_CAPTURES: [(&str, &str); 4] = [
    ("trace.pcap", "tcp4-8flows.pcap"),
    ("tso.pcap", "tcp4-offload.pcap"),
    ("in.pcapng", "tcp4-two-interfaces.pcapng"),
    ("stream.pcap", "../streams/host.pcap"),
];

/// One command line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// 1-based, in its document.
    at: usize,
    /// As the shell takes it.
    text: String,
    /// Whether it follows a `$`, so that the lines below are its output.
    is_shown: bool,
    /// That output.
    shown: Vec<String>,
    remarks: Remarks,
}

/// The remark before a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Remarks {
    /// A word of the lines that are not run, which is empty for all, and why.
    not_run: Vec<(String, String)>,
    exits: i32,
    shows_one_run: bool,
}

impl Remarks {
    fn take(&mut self, remark: &str) {
        if let Some(rest) = remark.strip_prefix("not run") {
            let (word, why) = rest.split_once(':').expect("<!-- not run: WHY -->");
            let word = word.trim().trim_matches(['(', ')']).to_owned();
            assert!(!why.trim().is_empty(), "say why: {remark}");
            self.not_run.push((word, why.trim().to_owned()));
        } else if let Some(code) = remark.strip_prefix("exits ") {
            self.exits = code.trim().parse().expect("<!-- exits CODE -->");
        } else if remark == "shows one run" {
            self.shows_one_run = true;
        }
    }

    /// Why this line is not run.
    fn why_not(&self, line: &str) -> Option<&str> {
        let reasons = self.not_run.iter();
        reasons.filter(|(word, _)| line.contains(word.as_str())).map(|(_, why)| why.as_str()).next()
    }
}

/// All command lines of a document.
fn lines(text: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let mut remarks = Remarks::default();
    // The language of the fence, and whether remarks belong to the previous block.
    let (mut fence, mut is_used): (Option<&str>, bool) = (None, false);
    for (at, row) in text.lines().enumerate() {
        if let Some(kind) = row.trim_start().strip_prefix("```") {
            is_used = fence.is_some();
            fence = if is_used { None } else { Some(kind) };
            continue;
        }
        let inside = match fence {
            Some(kind) => (kind == "console").then_some(row),
            None => row.strip_prefix("    "),
        };
        if let Some(row) = inside {
            is_used |= fence.is_none();
            match command(row) {
                Some(text) => {
                    let (is_shown, remarks) = (row.starts_with("$ "), remarks.clone());
                    found.push(Line { at: at + 1, text, is_shown, shown: Vec::new(), remarks });
                }
                None => show(&mut found, at, row),
            }
        } else if fence.is_none() && !row.trim().is_empty() {
            // A remark is for the block that follows, with nothing but other remarks between.
            let remark = row.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
            if is_used || remark.is_none() {
                remarks = Remarks::default();
            }
            remark.into_iter().for_each(|remark| remarks.take(remark));
            is_used = false;
        }
    }
    found
}

/// Output belongs to the command right above it.
fn show(found: &mut [Line], at: usize, row: &str) {
    let is_below = |last: &&mut Line| last.is_shown && last.at + last.shown.len() == at;
    if let Some(last) = found.last_mut().filter(is_below) {
        last.shown.push(row.to_owned());
    }
}

/// The command of this line, if it is one.
fn command(row: &str) -> Option<String> {
    let row = row.strip_prefix("$ ").unwrap_or(row);
    let cargo = ["cargo run --release -- ", "cargo run -- "];
    let line = match cargo.iter().find_map(|prefix| row.strip_prefix(prefix)) {
        Some(rest) => format!("linecard {rest}"),
        None => row.to_owned(),
    };
    let is_ours = !parts(&line).is_empty() && !row.starts_with(' ');
    is_ours.then_some(line)
}

/// The commands of a line that are `linecard`, without the text around them.
fn parts(line: &str) -> Vec<&str> {
    let line = line.split_once(" #").map_or(line, |(line, _)| line);
    let parts = line.split(['|', ';']).flat_map(|part| part.split("&&"));
    let parts = parts.map(|part| part.trim().trim_end_matches('&').trim_end());
    let parts = parts.map(|part| part.strip_prefix("sudo ").unwrap_or(part));
    parts.filter(|part| part.starts_with("linecard ")).collect()
}

/// Where documents are run: by a user without rights, so that no mistake in them reaches the host.
struct Sandbox(TempDir);

impl Sandbox {
    /// With the command, and with what documents take for granted.
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.put(Path::new(env!("CARGO_BIN_EXE_linecard")), "bin/linecard");
        for part in ["scenarios", "testdata/captures", "testdata/streams"] {
            for entry in fs::read_dir(root().join(part)).unwrap() {
                let from = entry.unwrap().path();
                let name = from.file_name().unwrap().to_str().unwrap();
                place.put(&from, &format!("{part}/{name}"));
            }
        }
        for (name, of) in OWN_CAPTURES {
            place.put(&root().join("testdata/captures").join(of), name);
        }
        fs::set_permissions(place.0.path(), Permissions::from_mode(0o755)).unwrap();
        if is_root() {
            chown(place.0.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        place
    }

    fn put(&self, from: &Path, name: &str) {
        let to = self.0.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        // Not by this process: a program that starts meanwhile would have the file open for writing, which cannot be run.
        assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
    }

    /// The shell, with the command first in its path.
    fn shell(&self, line: &str) -> Output {
        let place = self.0.path();
        let path = std::env::var("PATH").unwrap_or_default();
        // Ends what it has begun, when the other end of a transfer does not exist.
        let mut command = Command::new("timeout");
        command.args(["120", "bash", "-o", "pipefail", "-c", line]).current_dir(place);
        command.env("PATH", format!("{}/bin:{path}", place.display()));
        // The calibrations and keys of the user who runs the tests stay unchanged.
        command.env("HOME", place).env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.stdin(Stdio::null()).output().unwrap()
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The error of a line that is run.
fn run(place: &Sandbox, line: &Line) -> Result<(), String> {
    let output = place.shell(&line.text);
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let text = text.concat();
    let code = output.status.code();
    if code != Some(line.remarks.exits) {
        return Err(format!("exit code {code:?}, not {}: {}", line.remarks.exits, text.trim()));
    }
    if line.remarks.shows_one_run { Ok(()) } else { compare(&line.shown, &text) }
}

/// Whether the output has all shown lines, in this order.
fn compare(shown: &[String], output: &str) -> Result<(), String> {
    let mut there = output.lines().map(str::trim);
    for row in shown.iter().map(|row| row.trim()).filter(|row| !row.is_empty() && *row != "…") {
        let is_it = |line: &str| match row.strip_suffix('…') {
            Some(start) => line.starts_with(start.trim_end()),
            None => line == row,
        };
        if !there.any(is_it) {
            return Err(format!("not printed, or not there: {row}\n{output}"));
        }
    }
    Ok(())
}

/// A fingerprint where documents have `FINGERPRINT`, or the beginning of one.
fn filled(word: &str) -> String {
    let is_open = word == "FINGERPRINT" || (word.starts_with("lc1") && word.ends_with('…'));
    if is_open { format!("lc1{}", "a".repeat(52)) } else { word.to_owned() }
}

/// The error in the options of a line that is not run: with `--help` behind them, they are read, and nothing is done.
fn parse(place: &Sandbox, line: &Line) -> Result<(), String> {
    for part in parts(&line.text) {
        let words = part.split(' ').take_while(|word| !word.starts_with(['>', '<']));
        let words: Vec<String> = words.map(filled).collect();
        let output = place.shell(&format!("{} --help", words.join(" ")));
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
    }
    Ok(())
}

/// All documents that have commands.
fn documents() -> Vec<PathBuf> {
    let mut found = vec![root().join("README.md")];
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(end) if end == "md" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// Runs a document; returns errors, and how many lines were run and only read.
fn check(text: &str) -> (Vec<String>, [usize; 2]) {
    let place = Sandbox::new();
    let mut counts = [0, 0];
    let mut wrong = Vec::new();
    for line in lines(text) {
        let is_read = line.remarks.why_not(&line.text).is_some();
        counts[usize::from(is_read)] += 1;
        let result = if is_read { parse(&place, &line) } else { run(&place, &line) };
        if let Err(what) = result {
            wrong.push(format!("{}: `{}`: {what}", line.at, line.text));
        }
    }
    (wrong, counts)
}

/// Promise (Command): Commands in the README and in docs/ print the shown output: more than
/// 40 are run, and of those that need privileges, another host or minutes the options are checked.
#[test]
fn every_command_does_what_documents_say() {
    let mut wrong = Vec::new();
    let mut all = BTreeMap::new();
    for path in documents() {
        let (findings, counts) = check(&fs::read_to_string(&path).unwrap());
        wrong.extend(findings.iter().map(|what| format!("{}:{what}", path.display())));
        all.insert(path, counts);
    }
    let [run, read] =
        all.values().fold([0, 0], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1]]);
    say(&format!("commands of documents: {run} run, {read} only read"));
    assert!(run > 40 && all[&root().join("README.md")][0] > 8, "{all:?}");
    assert!(wrong.is_empty(), "{} commands are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn wrong_commands_are_found() {
    let found = |text: &str| check(text).0.join("\n");
    assert_eq!(found("    linecard model solve --rate 100G    # a remark\n"), "");
    assert!(found("    linecard model slove --rate 100G\n").contains("slove"));
    assert!(found("```console\n$ linecard run --flow 3\n```\n").contains("--flow"));
    assert!(
        found("    linecard coalesce no.pcap out.pcapng\n").contains("exit code Some(1), not 0")
    );
    assert!(found("    cargo run --release -- runn\n").contains("runn"));
    assert!(
        found("    cat trace.pcap | linecard coalesce - out.pcapng --holt 1ms\n")
            .contains("--holt")
    );
    let solve = "```console\n$ linecard model solve --rate 100G --mtu 512\nRequired rate\n…\n";
    assert_eq!(found(&format!("{solve}  limit                  DMA\n```\n")), "");
    assert!(found(&format!("{solve}  limit                  line\n```\n")).contains("limit"));
}

#[test]
fn commands_that_are_not_run_are_read() {
    let found = |text: &str| check(text).0.join("\n");
    assert_eq!(
        found("<!-- not run: needs root -->\n\n    sudo linecard attach xdp:eth0 tap:lc0 &\n"),
        ""
    );
    assert!(
        found("<!-- not run: needs root -->\n\n    linecard attach xdp:eth0 --marge x\n")
            .contains("--marge")
    );
    // Only the lines that have the word, and only in the block that follows.
    let two = "<!-- not run (attach): needs root -->\n\n    linecard attach xdp:eth0 tap:lc0\n    linecard keys no\n";
    assert!(found(two).contains("keys no") && !found(two).contains("attach xdp"));
    let later =
        "<!-- not run: needs root -->\n\nText.\n\n    linecard coalesce no.pcap out.pcapng\n";
    assert!(found(later).contains("exit code"));
    let none = "<!-- exits 13 -->\n```console\n$ linecard plan scenarios/plan-offload.toml\n```\n";
    assert!(found(none).contains("not 13"));
}

#[test]
fn what_is_no_command_is_left_alone() {
    let text = "linecard in text\n\n    let linecard = 3;\n\n```text\nlinecard runn\n```\n\n    ls linecard\n";
    assert_eq!(lines(text), []);
}
