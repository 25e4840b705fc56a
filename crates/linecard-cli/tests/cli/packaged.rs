//! Files that packages take from the command: manual pages, completions, the listing of components in
//! it.

use crate::around::is_there;
use crate::folder::Folder;
use linecard_testkit::root;
use serde_json::Value as Json;
use std::fs;
use std::process::Command;

/// Every command that `--help` lists, by its words: `["model", "solve"]`; the first is `[]`.
fn commands(folder: &Folder, words: &[String]) -> Vec<Vec<String>> {
    let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let help = folder.succeeds(&arguments);
    let listed = help.split_once("Commands:\n").map_or("", |(_, listed)| listed);
    // A description that is longer than a line goes on far to the right.
    let names = listed
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
        .filter_map(|line| line.split(' ').next())
        .filter(|name| *name != "help");
    let below = names.flat_map(|name| commands(folder, &[words, &[name.to_owned()]].concat()));
    std::iter::once(words.to_vec()).chain(below).collect()
}

fn all_commands(folder: &Folder) -> Vec<Vec<String>> {
    let found = commands(folder, &[]);
    for known in [&["model", "solve"][..], &["run"], &["completions"]] {
        assert!(found.iter().any(|words| words == known), "{known:?} is not in {found:?}");
    }
    found
}

/// Runs a program on a file that it should take without a word.
fn takes(folder: &Folder, program: &[&str], file: &str) {
    let mut command = Command::new(program[0]);
    let output = command.args(&program[1..]).arg(folder.path(file)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{program:?} {file}: {said}");
}

#[test]
fn every_command_has_a_page() {
    let folder = Folder::new();
    let wanted = all_commands(&folder);
    assert_eq!(folder.succeeds(&["man", "share/man1"]), "");
    let pages = fs::read_dir(folder.path("share/man1")).unwrap().count();
    assert_eq!(pages, wanted.len());
    let can_check = is_there("groff", "manual pages are not set");
    for words in wanted {
        let name = [&["linecard".to_owned()], &words[..]].concat().join("-");
        let file = format!("share/man1/{name}.1");
        let page = String::from_utf8(folder.read(&file)).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let title = format!(".TH {name} 1  \"linecard {version}\" Linecard");
        assert!(page.contains(&title), "{name}: no \"{title}\" in {page}");
        assert!(page.is_ascii(), "{name}: depends on the locale of its reader");
        for line in page.lines().filter(|line| line.starts_with(".SH")) {
            assert_ne!(line, ".SH EXTRA", "{name}");
        }
        if can_check {
            takes(&folder, &["groff", "-man", "-ww", "-Tutf8", "-z"], &file);
        }
    }
}

/// Exit codes are entries of a list, not one paragraph.
#[test]
fn pages_list_exit_codes_one_by_one() {
    let folder = Folder::new();
    folder.succeeds(&["man", "."]);
    let page = String::from_utf8(folder.read("linecard.1")).unwrap();
    let (_, codes) = page.split_once(".SH \"EXIT CODES\"\n").unwrap();
    assert!(codes.starts_with(".TP\n\\fB0\\fR\ndone\n.TP\n\\fB1\\fR\n"), "{codes}");
}

#[test]
fn pages_that_cannot_be_written_are_named() {
    let folder = Folder::new();
    folder.write("taken", b"a file");
    folder.refuses(1, &["man", "taken"], &["cannot write taken"]);
    folder.refuses(2, &["man"], &["<FOLDER>"]);
}

#[test]
fn completions_know_every_command() {
    let folder = Folder::new();
    let wanted = all_commands(&folder);
    for (shell, program) in [
        ("bash", &["bash", "-n"][..]),
        ("zsh", &["zsh", "-n"]),
        ("fish", &["fish", "--no-execute"]),
        // It has what they are for only at a terminal: see below.
        ("elvish", &[]),
        ("powershell", &[]),
    ] {
        let script = folder.succeeds(&["completions", shell]);
        for name in wanted.iter().filter_map(|words| words.last()) {
            assert!(script.contains(name.as_str()), "{shell}: no {name}");
        }
        folder.write(shell, script.as_bytes());
        if let Some(name) = program.first()
            && is_there(name, "its completions are not parsed")
        {
            takes(&folder, program, shell);
        }
    }
    folder.refuses(2, &["completions", "tcsh"], &["'tcsh'", "bash, elvish, fish"]);
}

/// As bash asks for them when the user presses the tab key.
#[test]
fn bash_completes_commands_and_options() {
    if !is_there("bash", "completions are not tried") {
        return;
    }
    let folder = Folder::new();
    folder.write("script", folder.succeeds(&["completions", "bash"]).as_bytes());
    for (words, wanted) in [
        ("linecard mod", "model"),
        ("linecard model so", "solve"),
        ("linecard coalesce --explain", "--explain-flow"),
        ("linecard coalesce --checksum tr", "trust"),
        // Without an answer, bash offers files.
        ("linecard coalesce ''", ""),
        ("linecard segment in.pcap ''", ""),
        ("linecard jitter analyze ''", ""),
        ("linecard jitter an", "analyze"),
    ] {
        let ask = "source ./script; eval \"COMP_WORDS=($1)\"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); \
                   COMP_LINE=$1; COMP_POINT=${#1}; \
                   _linecard_files linecard \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"; echo \"${COMPREPLY[*]}\"";
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", ask, "bash", words]).current_dir(folder.path(""));
        let output = bash.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), wanted, "{words}: {output:?}");
    }
}

/// As elvish asks for them, with a substitute for the parts that it has only at a terminal.
#[test]
fn elvish_completes_commands() {
    if !is_there("elvish", "its completions are not tried") {
        return;
    }
    let folder = Folder::new();
    let terminal = "var edit: = (ns [&completion:=(ns [&arg-completer=[&]]) \
                    &complex-candidate~={|text &display=''| put $text }])\n";
    let ask = "\n$edit:completion:arg-completer[linecard] linecard model '' | each $echo~\n";
    let script = folder.succeeds(&["completions", "elvish"]);
    folder.write("script.elv", [terminal, &script, ask].concat().as_bytes());
    let output =
        Command::new("elvish").arg("-norc").arg(folder.path("script.elv")).output().unwrap();
    let offered = String::from_utf8_lossy(&output.stdout);
    assert!(offered.lines().any(|line| line == "solve"), "{output:?}");
}

/// Twice the same; complete and with a hash and a licence for each; crates that are only used in builds are marked.
#[test]
fn the_listing_of_dependencies_is_reproducible() {
    if !is_there("python3", "scripts/list-dependencies.py is not run") {
        return;
    }
    let folder = Folder::new();
    for to in ["first", "second"] {
        let mut script = Command::new("python3");
        script.arg(root().join("scripts/list-dependencies.py")).arg(folder.path(to));
        let output = script.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    for file in ["linecard.cdx.json", "THIRD-PARTY.md"] {
        let [first, second] = ["first", "second"].map(|to| folder.read(&format!("{to}/{file}")));
        assert!(first == second, "{file} differs from one run to the next");
    }
    let listing: Json = serde_json::from_slice(&folder.read("first/linecard.cdx.json")).unwrap();
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let components = listing["components"].as_array().unwrap();
    let scope = |name: &str| {
        let found = components.iter().find(|component| component["name"] == name);
        found.map(|component| component["scope"].as_str().unwrap().to_owned())
    };
    assert_eq!(scope("clap_builder").as_deref(), Some("required"));
    assert_eq!(scope("ring").as_deref(), Some("required"));
    assert_eq!(scope("uPlot").as_deref(), Some("required"));
    assert_eq!(scope("clap_derive").as_deref(), Some("excluded"), "runs in the compiler only");
    assert_eq!(scope("pyo3"), None, "is not a part of the command");
    assert_eq!(scope("tempfile").as_deref(), Some("required"));
    assert_eq!(scope("cbindgen"), None, "is used by tests only");
    for component in components {
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        let purl = component["purl"].as_str().unwrap();
        if let Some(hash) = component["hashes"][0]["content"].as_str() {
            assert!(purl.starts_with("pkg:npm/") || lock.contains(hash), "{component}");
        } else {
            assert!(purl.starts_with("pkg:cargo/linecard"), "no hash: {component}");
        }
    }
}
