//! `linecard jitter audit`: it reads, changes only what it is told to, and restores that after any end, `kill -9`
//! included. The changed interface is in a namespace of the test.

use crate::folder::{CommandOutput, Folder};
use crate::support::linecard;
use linecard_testkit::lab::{End, Namespace, cable};
use serde_json::Value as Json;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const CHECKS: usize = 37;
/// Longest wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// Checks whose settings are the interface's own.
const ONLY: &str = "rps,napi-defer,threaded-napi";
/// As found, and as applied.
const FILES: [(&str, &str, &str); 4] = [
    ("queues/rx-0/rps_cpus", "1", "0"),
    ("gro_flush_timeout", "20000", "0"),
    ("napi_defer_hard_irqs", "2", "0"),
    ("threaded", "1", "0"),
];

/// A namespace with one cable in it, both ends.
struct Host {
    namespace: Namespace,
    folder: Folder,
}

impl Host {
    /// None, said loudly, without the rights.
    fn new() -> Option<Self> {
        let namespace = match Self::wired() {
            Ok(namespace) => namespace,
            Err(why) => {
                linecard_testkit::skip("settings put back after signals", why);
                return None;
            }
        };
        for (file, found, _) in FILES {
            namespace.write(&format!("/sys/class/net/wire/{file}"), found).expect(file);
        }
        Some(Self { namespace, folder: Folder::new() })
    }

    fn wired() -> Result<Namespace, String> {
        let namespace = Namespace::new()?;
        let end = |device| End { namespace: &namespace, device, options: &[] };
        cable(end("wire"), end("far"))?;
        for device in ["wire", "far"] {
            namespace.ip(&["link", "set", device, "up"])?;
        }
        // Threads poll an interface only where it has NAPI, which GRO brings.
        namespace.ethtool("wire", &["gro", "on"])?;
        Ok(namespace)
    }

    fn within(&self, program: &str) -> Command {
        let mut command = self.namespace.command(program);
        command.stderr(Stdio::null());
        command
    }

    fn journals(&self) -> PathBuf {
        self.folder.path("journals")
    }

    /// All files as they are, bytes and all.
    fn read(&self) -> Vec<String> {
        let read = |file: &str| {
            let path = format!("/sys/class/net/wire/{file}");
            let output = self.within("cat").arg(path).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        FILES.iter().map(|(file, ..)| read(file)).collect()
    }

    fn is(&self, pick: fn(&(&str, &str, &'static str)) -> String) -> bool {
        let same = |(text, file): (&String, &(&str, &str, &'static str))| text.trim() == pick(file);
        self.read().iter().zip(&FILES).all(same)
    }

    fn is_applied(&self) -> bool {
        self.is(|file| file.2.to_owned())
    }

    fn begin(&self, more: &[&str]) -> Child {
        let mut command = self.within(env!("CARGO_BIN_EXE_linecard"));
        command.args(["jitter", "audit", "--interface", "wire", "--only", ONLY]).args(more);
        command.env("LINECARD_JOURNALS", self.journals());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn run(&self, more: &[&str]) -> CommandOutput {
        self.begin(more).wait_with_output().unwrap().into()
    }

    /// From outside of the namespace.
    fn next_start(&self) -> CommandOutput {
        let mut command = linecard();
        command.args(["jitter", "audit", "--only", "swap"]);
        command.env("LINECARD_JOURNALS", self.journals()).output().unwrap().into()
    }

    fn wait_until_applied(&self, child: &mut Child) {
        let begun = Instant::now();
        while !self.is_applied() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended");
            assert!(begun.elapsed() < PATIENCE, "nothing was applied: {:?}", self.read());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// `ip netns exec` becomes what it runs, so the child is the command itself.
fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

#[test]
fn an_audit_asks_everything_and_leaves_nothing_behind() {
    let folder = Folder::new();
    let mut command = folder.command(&["jitter", "audit", "--json"]);
    let outcome: CommandOutput =
        command.env("LINECARD_JOURNALS", folder.path("j")).output().unwrap().into();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let audit = json(&outcome.stdout);
    let checks = audit["checks"].as_object().unwrap();
    assert_eq!(checks.len(), CHECKS);
    for (id, check) in checks {
        let words = ["verdict", "found", "cause", "source", "remedy", "risk", "reads"];
        assert!(words.iter().all(|word| check[word].is_string()), "{id}: {check}");
        let known = ["CHANGE", "unknown", "note", "good", "absent"];
        assert!(known.iter().any(|verdict| check["verdict"] == *verdict), "{id}: {check}");
    }
    assert_eq!(folder.names(), [""; 0], "no journal");
}

#[test]
fn the_short_form_fits_a_screen() {
    let folder = Folder::new();
    let text = folder.succeeds(&["jitter", "audit"]);
    assert!(text.lines().count() <= 50, "{text}");
    assert!(text.contains("The rest"), "{text}");
    let whole = folder.succeeds(&["jitter", "audit", "--all", "--only", "swap"]);
    assert!(whole.contains("why: ") && whole.contains("mlockall(2)"), "{whole}");
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = Folder::new();
    folder.refuses(2, &["jitter", "audit", "--only", "no-such"], &["no-such", "rt-throttling"]);
    folder.refuses(2, &["jitter", "audit", "--core", "9999"], &["core 9999 does not exist"]);
    let interface = ["jitter", "audit", "--interface", "nosuch"];
    folder.refuses(2, &interface, &["interface nosuch does not exist", "lo"]);
    folder.refuses(1, &["jitter", "audit", "--effects", "none.json"], &["none.json"]);
    folder.write("bad.json", b"{}");
    folder.refuses(
        2,
        &["jitter", "audit", "--effects", "bad.json"],
        &["bad.json", "jitter ab --json"],
    );
    folder.refuses(2, &["jitter", "audit", "--apply", "--for", "-1"], &["-1"]);
    for arguments in [&["--keep"][..], &["--for", "1"], &["--apply", "--rollback"]] {
        let outcome = folder.run(&[&["jitter", "audit"], arguments].concat());
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
    }
}

#[test]
fn measured_effects_are_shown_with_the_advice() {
    let folder = Folder::new();
    let effect = r#"{"effects": [{"label": "idle", "value": {"toggle": "idle", "figure": "p99, µs",
        "without": 15.5, "with": 7.5, "lower": -9, "upper": -7, "p": 0.03125, "took_effect": true}}]}"#;
    folder.write("ab.json", effect.as_bytes());
    let arguments = ["jitter", "audit", "--effects", "ab.json", "--only", "idle-poll", "--json"];
    let audit = json(&folder.succeeds(&arguments));
    let measured = audit["checks"]["idle-poll"]["measured"].as_str().unwrap();
    assert!(measured.starts_with("p99, µs: 15.50 to 7.50 (-8.00"), "{measured}");
}

#[test]
fn without_rights_everything_is_read_and_nothing_changed() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let run = |more: &[&str]| {
        let mut command = folder.command(&["jitter", "audit", "--only", "vm-stat,timer-migration"]);
        command.args(more).env("LINECARD_JOURNALS", folder.path("journals"));
        command.uid(NOBODY).gid(NOBODY).output().map(CommandOutput::from)
    };
    let Ok(read) = run(&[]) else {
        linecard_testkit::skip("audit without rights", "the command cannot be run as another user");
        return;
    };
    assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""), "{read:?}");
    let applied = run(&["--apply"]).unwrap();
    if applied.stderr.contains("no setting that can be changed now") {
        linecard_testkit::skip("changes without rights", "this host has nothing to change");
        return;
    }
    assert_eq!(applied.code, Some(1), "{applied:?}");
    assert!(
        applied.stderr.contains("cannot write any of ") && applied.stderr.contains("needs root"),
        "{applied:?}"
    );
    assert_eq!(folder.names(), [""; 0], "no journal");
}

#[test]
fn settings_are_held_until_a_signal_and_put_back() {
    let Some(place) = Host::new() else { return };
    let before = place.read();
    for name in ["-INT", "-TERM", "-HUP"] {
        if name == "-HUP" && linecard_testkit::skips_hangup("the end of an audit at SIGHUP") {
            continue;
        }
        let mut child = place.begin(&["--apply", "--json"]);
        place.wait_until_applied(&mut child);
        let other = place.next_start();
        assert!(other.code == Some(0) && other.stderr.is_empty(), "{other:?}");
        assert!(place.is_applied(), "the settings of a living process are left alone");
        signal(&child, name);
        let outcome: CommandOutput = child.wait_with_output().unwrap().into();
        assert_eq!(outcome.code, Some(0), "{name}: {outcome:?}");
        let applied = json(&outcome.stdout);
        let rows = applied["applied"].as_array().unwrap();
        assert_eq!(rows.len(), FILES.len());
        assert!(rows.iter().all(|row| row["value"]["verified"] == true), "{applied}");
        assert!(
            outcome.stderr.contains("4 settings are as they were, byte for byte"),
            "{outcome:?}"
        );
        assert_eq!(place.read(), before, "{name}");
        assert!(!place.journals().exists());
    }
    let outcome = place.run(&["--apply", "--for", "0.05"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(place.read(), before);
}

#[test]
fn after_kill_9_the_next_start_puts_back_and_says_so() {
    let Some(place) = Host::new() else { return };
    let before = place.read();
    for round in 0..2 {
        let mut child = place.begin(&["--apply"]);
        place.wait_until_applied(&mut child);
        signal(&child, "-KILL");
        child.wait().unwrap();
        assert!(place.is_applied(), "nobody has put it back yet");
        // From inside, or from another namespace.
        let outcome = if round == 0 { place.run(&[]) } else { place.next_start() };
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), FILES.len(), "{outcome:?}");
        for line in lines {
            assert!(
                line.starts_with("linecard: left by a process that is dead: /sys/class/net/wire/"),
                "{line}"
            );
            assert!(line.contains("restored to \""), "{line}");
        }
        assert_eq!(place.read(), before, "round {round}");
        assert!(!place.journals().exists());
        assert_eq!(place.next_start().stderr, "");
    }
}

/// Promise (Jitter): Settings are restored byte for byte after a normal end, INT, TERM and HUP, and
/// after KILL by the next start: killed at 14 moments of 0 to 50 ms.
#[test]
fn killed_at_any_moment_all_is_put_back() {
    let Some(place) = Host::new() else { return };
    let before = place.read();
    for wait_ms in [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 25, 30, 50] {
        let mut child = place.begin(&["--apply"]);
        thread::sleep(Duration::from_millis(wait_ms));
        signal(&child, "-KILL");
        child.wait().unwrap();
        let outcome = place.next_start();
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
        assert_eq!(place.read(), before, "{wait_ms} ms: {outcome:?}");
        assert!(!place.journals().exists());
    }
}

#[test]
fn what_is_kept_stays_until_it_is_rolled_back() {
    let Some(place) = Host::new() else { return };
    let before = place.read();
    let outcome = place.run(&["--apply", "--keep"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("4 settings are changed until"), "{outcome:?}");
    assert!(place.is_applied());
    assert_eq!(place.next_start().stderr, "", "a kept journal is not a leftover");
    assert!(place.is_applied());
    let outcome = place.run(&["--rollback", "--json"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let settings = json(&outcome.stdout);
    let settings = settings["settings"].as_array().unwrap().clone();
    assert!(
        settings.len() == FILES.len()
            && settings.iter().all(|row| row["value"]["as_before"] == true)
    );
    assert_eq!(place.read(), before);
    let again = place.run(&["--rollback"]);
    assert!(again.code == Some(0) && again.stderr.contains("nothing to restore"), "{again:?}");
}

/// Promise (Jitter): A setting that somebody else has changed meanwhile is left alone, with a line
/// and exit code 12.
#[test]
fn what_somebody_else_has_set_is_left_alone_with_exit_code_12() {
    let Some(place) = Host::new() else { return };
    let before = place.read();
    let mut child = place.begin(&["--apply"]);
    place.wait_until_applied(&mut child);
    let write = "echo 777 > /sys/class/net/wire/gro_flush_timeout";
    assert!(place.within("sh").args(["-c", write]).status().unwrap().success());
    signal(&child, "-INT");
    let outcome: CommandOutput = child.wait_with_output().unwrap().into();
    assert_eq!(outcome.code, Some(12), "{outcome:?}");
    assert!(outcome.stderr.contains("not restored to \"20000\": it reads \"777\""), "{outcome:?}");
    let after = place.read();
    assert_eq!(after[1], "777\n");
    assert_eq!((&after[0], &after[2..]), (&before[0], &before[2..]));
    assert!(fs::read_dir(place.journals()).is_err());
}
