//! A pipe of both commands, fed and watched: `feed | coalesce - - | segment - /dev/null`.

use crate::support::linecard;
use serde_json::Value as Json;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::thread;
use std::time::Duration;

/// Fills a buffer with the next input; an empty one is the end.
pub(crate) type Fill<'f> = &'f mut (dyn FnMut(&mut Vec<u8>) + Send);

/// How often memory is looked at. The kernel keeps the peak: only what the last moments before
/// the end add can be missed.
const LOOK: Duration = Duration::from_millis(1);

/// The most memory that a process had at once.
#[derive(Debug)]
pub(crate) struct Peak {
    pub(crate) command: &'static str,
    pub(crate) bytes: u64,
}

/// Feeds both commands; returns their peaks and statistics.
pub(crate) fn feed(options: &[&str], fill: Fill<'_>) -> ([Peak; 2], [Json; 2]) {
    let mut coalesce = linecard();
    coalesce.args(["coalesce", "-", "-", "--json"]).args(options);
    coalesce.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut coalesce = coalesce.spawn().unwrap();
    let mut segment = linecard();
    segment.args(["segment", "-", "/dev/null", "--json"]).stdin(coalesce.stdout.take().unwrap());
    let mut segment = segment.stdout(Stdio::piped()).spawn().unwrap();
    let input = coalesce.stdin.take().unwrap();
    let (accounts, results) = (coalesce.stderr.take(), segment.stdout.take());
    let peaks = thread::scope(|scope| {
        scope.spawn(|| write_all(input, fill));
        let first = scope.spawn(|| watch("coalesce", &mut coalesce));
        let second = watch("segment", &mut segment);
        [first.join().unwrap(), second]
    });
    let account = |text: String| serde_json::from_str(&text).unwrap();
    (peaks, [account(text(accounts)), account(text(results))])
}

fn write_all(mut input: ChildStdin, fill: Fill<'_>) {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        fill(&mut bytes);
        // A command that ended early shows in its exit code.
        if bytes.is_empty() || input.write_all(&bytes).is_err() {
            return;
        }
    }
}

/// Looks at the command's memory until it ends, which has to be well.
fn watch(command: &'static str, child: &mut Child) -> Peak {
    let mut bytes = 0;
    let status = loop {
        bytes = bytes.max(peak_of(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        thread::sleep(LOOK);
    };
    assert!(status.success(), "{command}: {status}");
    Peak { command, bytes }
}

/// Its peak so far; none when it has ended.
fn peak_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn text(pipe: Option<impl Read>) -> String {
    let mut text = String::new();
    pipe.unwrap().read_to_string(&mut text).unwrap();
    text
}
