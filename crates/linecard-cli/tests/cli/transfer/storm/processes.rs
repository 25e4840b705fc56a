//! Ends that stand still, clocks that are set, and two senders at once.

use super::{FILE_BYTES, SLOW, STEADY, Storm, Underway};
use crate::transfer::ends::{Sender, noise, says, signal};
use std::fs;
use std::process::Command;
use std::time::Duration;

/// Patience, in seconds: long enough for an end that waits for a processor.
const PATIENCE: &str = "5";
/// How long a process is stopped: longer than that.
const STOPPED: Duration = Duration::from_secs(7);

fn stop_for_a_while(underway: &Underway<'_>, is_receiver: bool) {
    underway.signal(is_receiver, "STOP");
    // Sockets may hold all the rest, so that it ends at once when it goes on.
    assert!(underway.runs(), "the transfer was over before the fault");
    std::thread::sleep(STOPPED);
    underway.signal(is_receiver, "CONT");
}

/// Within the patience of the other end, and beyond its own, which the time in which it stood still does not use up.
#[test]
fn an_end_that_stood_still_goes_on() {
    std::thread::scope(|scope| {
        for is_receiver in [false, true] {
            scope.spawn(move || {
                let mut storm = Storm::new();
                let own = if is_receiver { &mut storm.recv } else { &mut storm.send };
                own.extend(["--patience", PATIENCE]);
                let underway = storm.start(&STEADY);
                stop_for_a_while(&underway, is_receiver);
                storm.assert_complete(&underway.end());
            });
        }
    });
}

/// The receiver gives up; the sender hears of it when it goes on.
#[test]
fn a_sender_that_hangs() {
    let mut storm = Storm::new();
    storm.recv.extend(["--patience", PATIENCE]);
    let underway = storm.start(&SLOW);
    underway.signal(false, "STOP");
    let Underway { receiver, sender, .. } = underway;
    let id = sender.id();
    let got = receiver.end();
    signal("CONT", id);
    let attempt = super::Attempt { sent: sender.end(), got };
    assert_eq!(attempt.got.code, Some(14), "{attempt:?}");
    says(&attempt.got.stderr, &["nothing has arrived for 5s"]);
    assert!(matches!(attempt.sent.code, Some(14 | 16)), "{attempt:?}");
    storm.assert_holds(&attempt);
    storm.assert_resumes();
}

/// The library that `faketime` loads into programs, with clocks that a file sets while they run.
fn library() -> Option<String> {
    let mut print = Command::new("faketime");
    print.args(["-m", "-f", "+0d", "printenv", "LD_PRELOAD"]);
    let output = print.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Ten years on and back; the clocks that only count, which no administrator can set, stay.
#[test]
fn clocks_are_set() {
    let Some(library) = library() else {
        linecard_testkit::skip("clocks that are set", "it needs `faketime` (the package faketime)");
        return;
    };
    let mut storm = Storm::new();
    // The receiver reads nothing but its folder.
    fs::create_dir(storm.ends.folder.path("to")).unwrap();
    let clock = storm.ends.folder.path("to/clock");
    fs::write(&clock, "+0d\n").unwrap();
    storm.env = vec![
        ("LD_PRELOAD", library.clone()),
        ("FAKETIME_TIMESTAMP_FILE", clock.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let underway = storm.start(&STEADY);
    for id in [underway.sender.id(), underway.receiver.id()] {
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        assert!(maps.contains("faketime"), "it has the clock of this host");
    }
    for time in ["+3650d\n", "-3650d\n", "+1d\n"] {
        fs::write(&clock, time).unwrap();
        assert!(underway.advances(4), "the transfer was over before the clock was set");
    }
    storm.assert_complete(&underway.end());
}

/// One file's name, and two contents: one of them is stored, and the other sender is told why not.
#[test]
fn two_senders_of_one_name() {
    for more in [&[][..], &["--keep"]] {
        let mut storm = Storm::new();
        storm.recv.extend(more);
        fs::create_dir(storm.ends.folder.path("other")).unwrap();
        storm.ends.folder.write("other/from.bin", &noise(FILE_BYTES + 1));
        let receiver = storm.receiver();
        let send = |name: &str| {
            let sender = storm.ends.sender(name, &receiver, &["--chunk", "64K", "--rate", "20M"]);
            Sender::start(sender)
        };
        let senders = [send("from.bin"), send("other/from.bin")];
        let sent = senders.map(Sender::end);
        if !more.is_empty() {
            signal("TERM", receiver.id());
        }
        let got = receiver.end();
        let codes = (sent[0].code, sent[1].code);
        let stored = match codes {
            (Some(0), Some(14 | 16)) => 0,
            (Some(14 | 16), Some(0)) => 1,
            _ => panic!("{sent:?} {got:?}"),
        };
        says(&sent[1 - stored].stderr, &[]);
        assert_eq!(got.code, Some(0), "{got:?}");
        let name = ["from.bin", "other/from.bin"][stored];
        let is_equal = storm.ends.folder.read(name) == storm.ends.folder.read("to/from.bin");
        assert!(is_equal, "neither of the two files: {sent:?} {got:?}");
    }
}
