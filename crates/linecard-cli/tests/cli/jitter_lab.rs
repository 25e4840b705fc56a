//! The lab's commands as a user runs them: their output and files, their behaviour without privileges or cores, and
//! clean-up after any end, `kill -9` included. Figures are not compared: the machine that runs this may be busy, so
//! each verdict may be withheld, with exit code 11.

use crate::folder::{CommandOutput, Folder, one_line};
use crate::support::linecard;
use linecard_testkit::say;
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait on a busy machine.
const PATIENCE: Duration = Duration::from_secs(50);
/// A stream that is short and no burden.
const SHORT: [&str; 4] = ["--count", "3000", "--period", "100us"];
/// A stream that lasts until it is stopped.
const LONG: [&str; 4] = ["--count", "60000", "--period", "1ms"];
/// More packets than a cable carries before the stream: a few of IPv6 and ARP.
const STREAMING: u64 = 100;
/// Without a trace, which takes longer to begin and to end than a short run.
const UNTRACED: &[&str] = &["--trace", "off"];
/// Where kernels keep instances of traces.
const INSTANCES: [&str; 2] =
    ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const NOBODY: u32 = 65_534;

/// One measurement at a time: each takes two cores.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_root() -> bool {
    let user = Command::new("id").arg("-u").output();
    let ip = Command::new("ip").args(["netns", "list"]).output();
    let can =
        user.is_ok_and(|user| user.stdout == b"0\n") && ip.is_ok_and(|ip| ip.status.success());
    if !can {
        linecard_testkit::skip("the lab's cable and settings", "run as root with iproute2");
    }
    can
}

/// The command in this folder, with journals of its own.
fn command(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = folder.command(&[&["jitter"], arguments].concat());
    command.env("LINECARD_JOURNALS", folder.path("journals"));
    command
}

fn run(folder: &Folder, arguments: &[&str]) -> CommandOutput {
    command(folder, arguments).output().unwrap().into()
}

fn begin(folder: &Folder, arguments: &[&str]) -> Child {
    let mut command = command(folder, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Done, or withheld and said why in one line.
fn is_done(outcome: &CommandOutput) -> bool {
    match outcome.code {
        Some(0) => assert_eq!(outcome.stderr, "", "{outcome:?}"),
        Some(11) => one_line(&outcome.stderr, &["no verdict"]),
        _ => panic!("{outcome:?}"),
    }
    outcome.code == Some(0)
}

/// Traces of a process that others could see.
fn left_by(process: u32) -> Vec<String> {
    let folders = [&["/run/netns"][..], &INSTANCES].concat();
    let mine = format!("linecard-{process}-");
    let entries = folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&mine)).collect()
}

/// Ends a command that measures, once packets of its stream have crossed the cable.
fn signal_while_it_measures(child: &mut Child, signal: &str) {
    wait_until(child, "no packets over the cable", |process| crossed(process) >= STREAMING);
    kill(child, signal);
}

fn wait_until(child: &mut Child, what: &str, is_so: impl Fn(u32) -> bool) {
    let begun = Instant::now();
    while !is_so(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it has ended");
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Packets that the interfaces in a process's namespaces have received.
fn crossed(process: u32) -> u64 {
    let received = |namespace: &String| {
        let mut ip = Command::new("ip");
        ip.args(["-n", namespace, "-s", "-j", "link", "show", "type", "veth"]);
        let output = ip.output().ok()?;
        let links: Json = serde_json::from_slice(&output.stdout).ok()?;
        let packets = |link: &Json| link["stats64"]["rx"]["packets"].as_u64();
        Some(links.as_array()?.iter().filter_map(packets).sum::<u64>())
    };
    left_by(process).iter().filter_map(received).sum()
}

pub(crate) fn kill(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

fn is_screen(text: &str) {
    assert!(text.lines().count() <= 50, "{} lines: {text}", text.lines().count());
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?} columns: {text}");
}

/// The failed gates of records are named on stderr, once.
fn names_what_failed(records: &[Json], outcome: &CommandOutput) {
    let gates = records.iter().flat_map(|record| record["gates"].as_array().unwrap());
    let failed: Vec<&str> = gates
        .filter(|gate| gate["passes"] == false)
        .map(|gate| gate["name"].as_str().unwrap())
        .collect();
    assert_eq!(is_done(outcome), failed.is_empty(), "{outcome:?}");
    for name in failed {
        assert!(outcome.stderr.contains(name), "{name}: {outcome:?}");
    }
}

#[test]
fn without_a_word_the_host_is_looked_at() {
    let _alone = alone();
    let folder = Folder::new();
    let outcome = run(&folder, &[]);
    let is_verdict = is_done(&outcome);
    let text = &outcome.stdout;
    assert!(text.contains("this host as it is") && text.contains("Application: half"), "{text}");
    assert!(text.contains("linecard jitter audit"), "{text}");
    assert_eq!(text.contains("All gates hold."), is_verdict, "{text}");
    assert_eq!(text.matches("No verdict: ").count(), usize::from(!is_verdict), "{text}");
    assert_eq!(folder.names(), [""; 0]);
    let outcome = run(&folder, &["--json"]);
    let records = json(&outcome.stdout);
    names_what_failed(records.as_array().unwrap(), &outcome);
    assert_eq!(records[0]["title"], "this host as it is");
}

#[test]
fn experiments_are_kept_shown_and_made_a_page() {
    let _alone = alone();
    let folder = Folder::new();
    // Before the experiments or behind them.
    let what = ["--json", "run", "E0", "e1", "E2", "E7", "E8"];
    let where_to = ["--report", "page.html", "--output", "kept"];
    let outcome = run(&folder, &[&what[..], &SHORT, &where_to].concat());
    let records = json(&outcome.stdout);
    let records = records.as_array().unwrap();
    names_what_failed(records, &outcome);
    let ids: Vec<&str> = records.iter().map(|record| record["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["E0", "E1", "E2", "E7", "E8"]);
    for record in records {
        is_record(record);
        let file = format!("kept/{}.json", record["id"].as_str().unwrap());
        assert_eq!(&json(&String::from_utf8(folder.read(&file)).unwrap()), record);
    }
    let page = String::from_utf8(folder.read("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("99.999 %"));
    assert!(!page.contains("99.99900"), "quantiles without what fractions add");
    let beside = json(&String::from_utf8(folder.read("page.json")).unwrap());
    let headline = beside["headline"].as_str().unwrap();
    assert!(headline.starts_with("This host, nothing added (E2 "), "{headline}");
    assert!(["E0 ", "E7 ", "E8 "].iter().all(|id| headline.contains(id)), "{headline}");
    let command = beside["origin"]["command"].as_str().unwrap();
    assert!(command.starts_with("linecard jitter --json run E0 e1"), "{command}");
    assert!(page.contains(beside["origin"]["utc"].as_str().unwrap()), "a date on the page");
    let report = run(&folder, &["report", "kept"]);
    assert_eq!(
        (report.code, report.stdout.as_str()),
        (Some(0), "kept/report.html\n"),
        "{report:?}"
    );
    assert!(folder.path("kept/report.html").exists() && folder.path("kept/report.json").exists());
    // Again: the page's own figures beside the records are not a record.
    let again = run(&folder, &["report", "kept", "--json"]);
    assert_eq!((again.code, json(&again.stdout).as_array().unwrap()), (Some(0), records));
    assert!(!folder.names().iter().any(|name| name.ends_with(".part")));
}

/// All that a reader may count on.
fn is_record(record: &Json) {
    let id = record["id"].as_str().unwrap();
    let arrived = record["arrived"].as_u64().unwrap();
    assert!((2..=3_000).contains(&arrived), "{id}: {arrived}");
    assert_eq!((&record["period_ns"], &record["version"]), (&100_000.into(), &1.into()), "{id}");
    assert!(["title", "published", "reality", "place"].iter().all(|key| record[key].is_string()));
    for key in ["gaps", "lateness"] {
        let summary = &record["sink"][key];
        assert!(summary["mean_ns"].is_number() && summary["max_ns"].is_i64(), "{id}: {summary}");
        assert_eq!(summary["quantiles"].as_array().unwrap().len(), 6, "{id}");
    }
    assert!(record["sink"]["spikes"].is_u64());
    if id == "E1" {
        assert!(record["sender"].is_null() && record["traced"].is_null(), "a loop has neither");
        return;
    }
    assert!(record["sender"]["gaps"]["n"].as_u64() > Some(0), "{id}");
    assert!(!record["gates"].as_array().unwrap().is_empty(), "{id}");
    // Either, never both.
    assert_ne!(record["traced"].is_null(), record["untraced"].is_null(), "{id}");
    if let Some(causes) = record["traced"]["causes"].as_array() {
        let ns = causes.iter().map(|cause| cause["ns"].as_u64().unwrap()).sum::<u64>();
        assert_eq!(record["traced"]["excess_ns"].as_u64(), Some(ns), "{id}: the ledger adds up");
    }
}

/// Promise (Jitter): The experiments E0 to E8 of the paper run by one command each, and what cannot
/// be measured says so.
#[test]
fn each_experiment_is_one_screen() {
    let _alone = alone();
    let folder = Folder::new();
    for one in ["E1", "E2", "E8"] {
        let outcome = run(&folder, &[&["run", one][..], &SHORT].concat());
        is_done(&outcome);
        assert!(outcome.stdout.starts_with(one), "{outcome:?}");
        is_screen(&outcome.stdout);
    }
}

#[test]
fn over_the_loopback_interface_too() {
    let _alone = alone();
    let folder = Folder::new();
    let outcome = run(&folder, &[&["run", "--loopback", "--json"][..], &SHORT].concat());
    let records = json(&outcome.stdout);
    names_what_failed(records.as_array().unwrap(), &outcome);
    assert_eq!(records[0]["place"], "the loopback interface");
    assert_eq!(records[0]["remarks"], Json::Array(vec![]), "it was asked for: nothing to excuse");
}

#[test]
fn nobody_measures_over_loopback_and_is_told_what_is_missing() {
    let _alone = alone();
    let folder = Folder::new();
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let copy = folder.copy_of_linecard();
    let nobody = |arguments: &[&str]| {
        let mut command = Command::new(&copy);
        command.arg("jitter").args(arguments).current_dir(folder.path(""));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("LINECARD_JOURNALS", folder.path("journals"));
        command.uid(NOBODY).gid(NOBODY).output().map(CommandOutput::from)
    };
    if nobody(&["--help"]).is_err() {
        linecard_testkit::skip(
            "the lab without rights",
            "the command cannot be run as another user",
        );
        return;
    }
    let record = nobody(&[&["run", "E2", "--json"][..], &SHORT].concat()).unwrap();
    let records = json(&record.stdout);
    names_what_failed(records.as_array().unwrap(), &record);
    assert_eq!(records[0]["place"], "the loopback interface");
    let why = records[0]["remarks"][0].as_str().unwrap();
    assert!(why.starts_with("No cable between namespaces") && why.contains("needs root"), "{why}");
    assert!(records[0]["traced"].is_null());
    assert!(!records[0]["untraced"].as_str().unwrap().is_empty());
    let text = nobody(&[&["run", "E2"][..], &SHORT].concat()).unwrap();
    is_done(&text);
    let words =
        ["No cable between namespaces", "The kernel was not traced: ", "Causes are not known"];
    // Notes are folded.
    let flat = text.stdout.replace('\n', " ");
    assert!(words.iter().all(|word| flat.contains(word)), "{}", text.stdout);
    is_screen(&text.stdout);
    let all = nobody(&["run", "--all", "--count", "300", "--period", "100us", "--json"]).unwrap();
    let records = json(&all.stdout);
    names_what_failed(records.as_array().unwrap(), &all);
    assert_eq!(records.as_array().unwrap().len(), 9);
    let throttled = &records[8];
    assert_eq!((&throttled["id"], &throttled["sink"]), (&"E8".into(), &Json::Null));
    assert!(throttled["gates"][0]["found"].as_str().unwrap().contains("root"), "{throttled}");
    let few = ["--blocks", "6", "--count", "500", "--period", "50us"];
    let same = nobody(&[&["ab", "aa"], &few[..]].concat()).unwrap();
    is_done(&same);
    let flat = same.stdout.replace('\n', " ");
    assert!(flat.contains("no real-time priority") && flat.contains("No cable"), "{}", same.stdout);
    let none = nobody(&["ab", "napi-defer"]).unwrap();
    assert_eq!((none.code, none.stdout.as_str()), (Some(6), ""));
    one_line(&none.stderr, &["napi-defer", "No cable", "needs root"]);
    // Before the interface is listened at, which it may not do either.
    let untraced = nobody(&["watch", "--interface", "lo", "--trace"]).unwrap();
    assert_eq!((untraced.code, untraced.stdout.as_str()), (Some(6), ""));
    one_line(&untraced.stderr, &["--trace", "CAP_BPF"]);
    is_done(&nobody(&[]).unwrap());
}

#[test]
fn one_core_is_enough() {
    let _alone = alone();
    let folder = Folder::new();
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(env!("CARGO_BIN_EXE_linecard")).args(["jitter", "run", "--json"]);
    command.args(["--all", "--count", "300", "--period", "500us"]).current_dir(folder.path(""));
    let Ok(output) = command.env("LINECARD_JOURNALS", folder.path("journals")).output() else {
        linecard_testkit::skip("the lab on one core", "taskset is not installed");
        return;
    };
    let outcome = CommandOutput::from(output);
    let records = json(&outcome.stdout);
    let records = records.as_array().unwrap();
    names_what_failed(records, &outcome);
    assert_eq!(records.len(), 9);
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let folder = Folder::new();
    folder.refuses(2, &["jitter", "run", "E9"], &["E9", "E0 to E8"]);
    folder.refuses(2, &["jitter", "run", "--count", "1"], &["--count 1", "2 to 10M"]);
    folder.refuses(2, &["jitter", "run", "--period", "soon"], &["soon"]);
    folder.refuses(2, &["jitter", "run", "--report", "page.txt"], &["page.txt"]);
    folder.refuses(1, &["jitter", "report", "nowhere"], &["nowhere"]);
    folder.refuses(2, &["jitter", "report", "."], &["no results", "--output"]);
    folder.refuses(2, &["jitter", "ab", "caffeine"], &["caffeine", "napi-defer", "blocking"]);
    folder.refuses(
        2,
        &["jitter", "ab", "aa", "--loopback", "--blocks", "4"],
        &["--blocks 4", "6 to"],
    );
    folder.refuses(2, &["jitter", "ab", "aa", "--output", "kept"], &["--output"]);
    folder.refuses(2, &["jitter", "ab"], &["TOGGLE"]);
    folder.write("E2.json", b"{}");
    folder.refuses(2, &["jitter", "report", "."], &["E2.json", "is not a result"]);
}

#[test]
fn a_signal_ends_it_with_what_there_is() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    for signal in ["-INT", "-TERM"] {
        let mut child = begin(&folder, &[&["run", "E2", "E8"][..], &LONG].concat());
        signal_while_it_measures(&mut child, signal);
        let process = child.id();
        let outcome: CommandOutput = child.wait_with_output().unwrap().into();
        is_done(&outcome);
        let flat = outcome.stdout.replace('\n', " ");
        assert!(flat.contains("Stopped early: "), "{signal}: {outcome:?}");
        assert!(flat.contains("E8 was not run"), "{signal}: {outcome:?}");
        assert_eq!(left_by(process), [""; 0], "{signal}");
        assert!(!folder.path("journals").exists(), "{signal}");
    }
}

/// While the cable is made, before the first experiment: the exit code is 11, and a page that is there
/// stays. On a fast machine the signal interrupts a stream, which then ends as above.
#[test]
fn a_signal_before_the_first_packet_ends_without_a_verdict() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    for signal in ["-INT", "-TERM", "-HUP"] {
        if signal == "-HUP" && linecard_testkit::skips_hangup("the end of the jitter lab at SIGHUP")
        {
            continue;
        }
        folder.write("page.html", b"of yesterday");
        let report = ["--report", "page.html"];
        let mut child = begin(&folder, &[&["run", "E2"][..], &LONG, &report].concat());
        wait_until(&mut child, "no namespace", |process| !left_by(process).is_empty());
        kill(&child, signal);
        let process = child.id();
        let outcome: CommandOutput = child.wait_with_output().unwrap().into();
        if outcome.stdout.is_empty() {
            assert_eq!(outcome.code, Some(11), "{signal}: {outcome:?}");
            one_line(&outcome.stderr, &["no verdict: stopped before anything was measured"]);
            assert_eq!(folder.read("page.html"), b"of yesterday", "{signal}");
        } else {
            is_done(&outcome);
            assert!(outcome.stdout.contains("Stopped early: "), "{signal}: {outcome:?}");
        }
        assert_eq!(left_by(process), [""; 0], "{signal}");
        assert!(!folder.path("journals").exists(), "{signal}");
    }
}

#[test]
fn after_kill_9_the_next_run_removes_what_was_left() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let mut child = begin(&folder, &[&["run", "E2"][..], &LONG].concat());
    signal_while_it_measures(&mut child, "-KILL");
    let process = child.id();
    child.wait().unwrap();
    is_done(&run(&folder, &["run", "E2", "--count", "100", "--period", "100us"]));
    assert_eq!(left_by(process), [""; 0]);
    assert!(!folder.path("journals").exists());
}

/// Each toggle's outcome, and that nothing is left.
fn compared(folder: &Folder, arguments: &[&str]) -> (CommandOutput, Json) {
    let few = ["--blocks", "6", "--count", "500", "--period", "50us", "--json"];
    let child = begin(folder, &[&["ab"], arguments, &few].concat());
    let process = child.id();
    let outcome: CommandOutput = child.wait_with_output().unwrap().into();
    assert_eq!(left_by(process), [""; 0]);
    assert!(!folder.path("journals").exists());
    let report = json(&outcome.stdout);
    (outcome, report)
}

#[test]
fn changes_are_compared() {
    let _alone = alone();
    let folder = Folder::new();
    let (outcome, report) = compared(&folder, &[&["aa", "--report", "aa.html"], UNTRACED].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let verdict = report["verdicts"]["aa"].as_str().unwrap();
    let effects = report["effects"].as_array().unwrap();
    assert_eq!(effects.len(), 4, "one for each figure: {report}");
    for effect in effects {
        // Six blocks of nothing give 1/32 at the least, to one seed in 32.
        assert!(
            effect["value"]["p"].as_f64().is_some_and(|p| (0.03..=1.0).contains(&p)),
            "{effect}"
        );
        assert_eq!(effect["value"]["took_effect"], true);
    }
    let is_effect = effects[0]["value"]["p"].as_f64().is_some_and(|p| p <= 0.05);
    let expected =
        if is_effect { ["more", "less"] } else { ["no effect that could be told from chance"; 2] };
    assert!(expected.contains(&verdict), "{report}");
    assert!(folder.path("aa.html").exists() && folder.path("aa.json").exists());
}

#[test]
fn a_toggle_is_checked_for_having_taken_effect() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let (outcome, report) = compared(&folder, &["napi-defer"]);
    if report["verdicts"].to_string().contains("in 24 runs") {
        linecard_testkit::skip("napi-defer's check", "this kernel cannot be traced");
        return;
    }
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let effects = report["effects"].as_array().unwrap();
    assert!(effects.iter().all(|effect| effect["value"]["took_effect"] == true), "{report}");
}

/// A setting of the host, restored however the test ends.
struct HugePages(String);

impl HugePages {
    fn new() -> Option<Self> {
        let found = fs::read_to_string(HUGE_PAGES).ok();
        // Written as it is: whether it can be is asked, nothing is changed.
        let word = |text: &String| {
            let (_, rest) = text.split_once('[')?;
            Some(rest.split_once(']')?.0.to_owned())
        };
        let found =
            found.filter(|text| word(text).is_some_and(|word| fs::write(HUGE_PAGES, word).is_ok()));
        if found.is_none() {
            linecard_testkit::skip(
                "a toggle of the host",
                "no right to set transparent huge pages",
            );
        }
        found.map(Self)
    }

    fn is_as_found(&self) -> bool {
        fs::read_to_string(HUGE_PAGES).is_ok_and(|text| text == self.0)
    }

    fn wait_until_switched(&self, child: &mut Child) {
        let begun = Instant::now();
        while self.is_as_found() {
            assert!(child.try_wait().unwrap().is_none(), "it has ended");
            assert!(begun.elapsed() < PATIENCE, "nothing was switched");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let word = self.0.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        if let Some((word, _)) = word.filter(|_| !self.is_as_found()) {
            let _put_back = fs::write(HUGE_PAGES, word);
        }
    }
}

#[test]
fn a_setting_of_the_host_is_put_back_after_any_end() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let Some(setting) = HugePages::new() else { return };
    let (outcome, report) = compared(&folder, &[&["thp"], UNTRACED].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    assert!(report["verdicts"]["thp"].is_string());
    assert!(setting.is_as_found());
    // Long enough for a signal to come in time.
    let long = ["ab", "thp", "--count", "4000", "--period", "100us"];
    for signal in ["-INT", "-TERM"] {
        let mut child = begin(&folder, &long);
        setting.wait_until_switched(&mut child);
        kill(&child, signal);
        let process = child.id();
        let outcome: CommandOutput = child.wait_with_output().unwrap().into();
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(11), ""), "{outcome:?}");
        one_line(&outcome.stderr, &["no verdict: stopped", "settings are restored"]);
        assert!(setting.is_as_found(), "{signal}");
        assert_eq!(left_by(process), [""; 0], "{signal}");
        assert!(!folder.path("journals").exists(), "{signal}");
    }
    // Half of the time the setting is as it was found, also when a busy machine gets round to it.
    let is_left = (0..20).any(|_| {
        let mut child = begin(&folder, &long);
        setting.wait_until_switched(&mut child);
        child.kill().unwrap();
        child.wait().unwrap();
        !setting.is_as_found()
    });
    assert!(is_left, "nobody is there who would put it back");
    let mut next = linecard();
    next.args(["jitter", "audit", "--only", "swap"]);
    next.env("LINECARD_JOURNALS", folder.path("journals"));
    let outcome: CommandOutput = next.output().unwrap().into();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    one_line(&outcome.stderr, &["left by a process that is dead", HUGE_PAGES, "restored"]);
    assert!(setting.is_as_found());
    assert!(!folder.path("journals").exists());
}

#[test]
fn a_comparison_that_is_stopped_leaves_nothing() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let folder = Folder::new();
    let mut child = begin(&folder, &["ab", "rps", "--count", "4000", "--period", "100us"]);
    signal_while_it_measures(&mut child, "-INT");
    let process = child.id();
    let outcome: CommandOutput = child.wait_with_output().unwrap().into();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(11), ""), "{outcome:?}");
    one_line(&outcome.stderr, &["no verdict: stopped"]);
    assert_eq!(left_by(process), [""; 0]);
    assert!(!Path::new(&folder.path("journals")).exists());
}

/// How many comparisons of nothing with nothing there are.
const COMPARISONS: u64 = 40;
const LEVEL: f64 = 0.05;

/// The least number of effects, of all comparisons, that a true rate of 5 % exceeds less often than once in 500.
fn allowed() -> u64 {
    let (mut probability, mut below) = ((1.0 - LEVEL).powi(40), 0.0);
    for found in 0..=COMPARISONS {
        below += probability;
        if 1.0 - below < 1.0 / 500.0 {
            return found;
        }
        probability *= (COMPARISONS - found) as f64 / (found + 1) as f64 * LEVEL / (1.0 - LEVEL);
    }
    COMPARISONS
}

/// Nothing is switched, on a live host with all that it does meanwhile: whatever is called an effect
/// is chance, or drift that the blocks did not take out.
#[test]
#[ignore = "measures, for some minutes"]
fn of_nothing_with_nothing_few_comparisons_show_an_effect() {
    let _alone = alone();
    assert_eq!(allowed(), 7);
    let folder = Folder::new();
    let mut values = Vec::new();
    for seed in 1..=COMPARISONS {
        let seed = seed.to_string();
        let stream = ["--blocks", "6", "--count", "2000", "--period", "20us"];
        let outcome = run(
            &folder,
            &[&["ab", "aa", "--json", "--seed", &seed], &stream[..], UNTRACED].concat(),
        );
        assert_eq!(outcome.code, Some(0), "seed {seed}: {outcome:?}");
        let effect = json(&outcome.stdout)["effects"][0]["value"].clone();
        assert!(effect["figure"].as_str().unwrap().starts_with("transit, 99 %"), "{effect}");
        values.push(effect["p"].as_f64().unwrap());
    }
    let found = values.iter().filter(|p| **p <= LEVEL).count() as u64;
    say(&format!("{found} of {COMPARISONS} A/A comparisons show an effect at 5 %: p {values:.3?}"));
    assert!(found <= allowed(), "{found} of {COMPARISONS}, {} are allowed", allowed());
}
