//! TCP streams, put together by tshark.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The bytes of each direction of each stream, in hexadecimal digits.
pub(crate) fn of(capture: &Path) -> BTreeMap<(usize, bool), String> {
    let mut streams = BTreeMap::new();
    for number in 0..count(capture) {
        let text = tshark(capture, &["-q", "-z", &format!("follow,tcp,raw,{number}")]);
        // Lines of the second direction are indented by a tab.
        for line in text.lines().skip_while(|line| !line.starts_with("Node 1:")).skip(1) {
            let digits = line.trim_start();
            if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                let stream: &mut String =
                    streams.entry((number, line.starts_with('\t'))).or_default();
                stream.push_str(digits);
            }
        }
    }
    streams
}

fn count(capture: &Path) -> usize {
    let text = tshark(capture, &["-T", "fields", "-e", "tcp.stream"]);
    text.lines().filter_map(|line| line.parse::<usize>().ok()).max().map_or(0, |last| last + 1)
}

fn tshark(capture: &Path, options: &[&str]) -> String {
    let output = Command::new("tshark").arg("-n").arg("-r").arg(capture).args(options).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
