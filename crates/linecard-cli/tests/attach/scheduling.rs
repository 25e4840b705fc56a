//! The scheduling class of threads.

use crate::command::{attach, command, refused_as};
use crate::lab::with_lab;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

const NORMAL: u32 = libc::SCHED_OTHER as u32;
const REALTIME: u32 = libc::SCHED_FIFO as u32;

#[test]
fn threads_have_the_class_that_was_asked_for() {
    let cores = available_parallelism().map_or(1, usize::from);
    with_lab("scheduling classes", |lab| {
        // The thread that lends its priority to one that is not busy yet.
        let lender: &[u32] = if cores > 1 { &[REALTIME] } else { &[] };
        for (options, expected, lenders) in [
            ("", NORMAL, lender),
            ("--idle yield", NORMAL, &[]),
            (&format!("--deployment shared --workers {cores}"), NORMAL, &[]),
            ("--scheduling normal", NORMAL, &[]),
            ("--scheduling realtime --idle yield", REALTIME, &[]),
        ] {
            let running = attach(lab, &format!("packet:lcw tap:lc0 {options}"));
            // Threads take their places once packets pass.
            let end = Instant::now() + Duration::from_secs(10);
            let found = || [running.policies("worker 0"), running.policies("worker 0 boost")];
            let expected = [vec![expected], lenders.to_vec()];
            while found() != expected && Instant::now() < end {
                sleep(Duration::from_millis(5));
            }
            assert_eq!(found(), expected, "{options}");
            running.finish();
        }
    });
}

#[test]
fn what_is_not_permitted_is_done_without_or_refused() {
    with_lab("scheduling without the right to it", |lab| {
        let less = "setpriv --bounding-set=-sys_nice --inh-caps=-sys_nice";
        let binary = env!("CARGO_BIN_EXE_linecard");
        let realtime = command(less, binary, "packet:lcw tap:lc0 --scheduling realtime");
        let ended = refused_as(lab, realtime);
        ended.is(6, &["worker 0", "real-time scheduling", "cap_sys_nice"]);
        let ended = refused_as(lab, command(less, binary, "file:/dev/null tap:lc0"));
        assert!(!ended.lines.iter().any(|line| line.contains("scheduling")), "{ended:?}");
    });
}
