//! `unsafe` lives in few, named files, and every block says why it is sound.

use crate::Finding;
use crate::source::{Source, Tree, find_word};

/// The files that may hold `unsafe`, and what each won by it.
const ALLOWED: [(&str, &str); 36] = [
    ("crates/linecard-c/src/abi.rs", "pointers of C programs"),
    ("crates/linecard-c/src/abi/burst.rs", "pointers of C programs, for bursts"),
    ("crates/linecard/src/packet/checksum/neon.rs", "vector loads and stores"),
    ("crates/linecard/src/packet/checksum/x86.rs", "vector instructions found at run time"),
    ("crates/linecard/src/packet/prefetch.rs", "cache lines asked for before they are needed"),
    ("crates/linecard-io/src/port/xdp/ring.rs", "rings shared with the kernel"),
    ("crates/linecard-io/src/port/xdp/sys.rs", "system calls of AF_XDP"),
    ("crates/linecard-io/src/port/xdp/umem.rs", "frames that the kernel fills, not copied"),
    ("crates/linecard-io/src/sys/bpf.rs", "BPF programs and maps"),
    ("crates/linecard-tun/src/sys/datagrams.rs", "UDP GSO and GRO"),
    ("crates/linecard-tun/src/sys/addresses.rs", "getifaddrs: addresses of interfaces"),
    ("crates/linecard-tun/src/sys/device.rs", "ioctl: interfaces, TUN and TAP devices"),
    ("crates/linecard-jitter/src/linux/sys/packet.rs", "packet sockets with filters"),
    ("crates/linecard-jitter/src/linux/sys/receive.rs", "many datagrams received by one call"),
    ("crates/linecard-io/src/sys/descriptor.rs", "descriptors by number"),
    ("crates/linecard-io/src/sys/ethtool.rs", "ioctl: coalescing, features and time stamps"),
    (
        "crates/linecard-jitter/src/linux/sys/perf.rs",
        "the kernel's counters, and its ring of samples",
    ),
    ("crates/linecard-io/src/sys/rights.rs", "another user for all threads at once"),
    ("crates/linecard-io/src/sys/frames.rs", "many frames received by one call, into our buffers"),
    ("crates/linecard-io/src/sys/ring.rs", "frames received without a call for each"),
    ("crates/linecard-io/src/sys/schedule.rs", "real-time priority of a thread"),
    ("crates/linecard-tun/src/sys/poll.rs", "waiting for descriptors"),
    ("crates/linecard-tun/src/sys/ready.rs", "descriptors that tokio awaits"),
    ("crates/linecard-tun/src/sys/send.rs", "many frames sent by one call, as slices"),
    ("crates/linecard-io/src/sys/socket.rs", "options and addresses of packet sockets"),
    (
        "crates/linecard-io/src/sys/tracing.rs",
        "BPF programs at tracepoints, and memory shared with them",
    ),
    ("crates/linecard-jitter/src/linux/sys/ptp.rs", "ioctl: clocks of interfaces"),
    (
        "crates/linecard-jitter/src/linux/sys/uring.rs",
        "buffers that the kernel fills while nobody waits",
    ),
    ("crates/linecard-transfer/src/fec/kernel/neon.rs", "vector loads and stores"),
    ("crates/linecard-transfer/src/fec/kernel/x86.rs", "vector instructions found at run time"),
    ("crates/linecard-transfer-net/src/lane/sys.rs", "what the kernel counts for a socket"),
    (
        "crates/linecard-transfer-net/benches/lanes/sys.rs",
        "many datagrams by one call, as the peer",
    ),
    ("crates/linecard-cli/tests/attach/sys.rs", "filters and floods for attachments"),
    ("crates/linecard-jitter/tests/jitter/sys.rs", "an option of sockets, to make a load"),
    ("crates/linecard-io/tests/ports/sys.rs", "lost rights for live ports"),
    ("crates/linecard-io/tests/kernel/sys.rs", "system calls for the kernel as witness"),
];

/// `unsafe` in other files, or without its reason.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &Source) -> Vec<Finding> {
    let allowed = ALLOWED.iter().any(|(path, _)| *path == file.path);
    let mut findings = Vec::new();
    for at in find_word(&file.code, "unsafe") {
        let line = file.line_of(at);
        if !allowed {
            let what = "`unsafe` outside the files of ALLOWED in the tidy test: write it safely, \
                        or show what it wins and list the file";
            findings.push(Finding::new(&file.path, line, what));
        }
        let after = file.code[at + "unsafe".len()..].trim_start();
        if (after.starts_with('{') || after.starts_with("impl")) && !explained(&file.text, line) {
            let what = "no `// SAFETY:` comment just above: say why this is sound";
            findings.push(Finding::new(&file.path, line, what));
        }
    }
    findings
}

/// Whether the comment on or just above `line` (over attributes, and over the earlier lines of
/// the same statement) says SAFETY.
fn explained(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    if lines[line - 1].contains("// SAFETY:") {
        return true;
    }
    for above in lines[..line - 1].iter().rev() {
        if above.contains("// SAFETY:") {
            return true;
        }
        let comment = above.starts_with("//");
        let attribute = above.starts_with("#[");
        let statement_goes_on = !above.is_empty() && !above.ends_with([';', '{', '}', ',']);
        if !comment && !attribute && !statement_goes_on {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        check(&Tree::of(&[(ALLOWED[0].0, text)])).len()
    }

    #[test]
    fn every_block_says_why_it_is_sound() {
        assert_eq!(count("fn f() {\n    unsafe { g() }\n}"), 1);
        assert_eq!(count("unsafe impl Send for A {}"), 1);
        assert_eq!(
            count(
                "fn f() {\n    // SAFETY: checked above,\n    // and here.\n    unsafe { g() }\n}"
            ),
            0
        );
        assert_eq!(count("// SAFETY: no state.\n#[cfg(x)]\nunsafe impl Send for A {}"), 0);
        assert_eq!(count("// SAFETY: fits.\nlet a =\n    unsafe { g() };"), 0);
        assert_eq!(count("// SAFETY: of another.\nlet a = 1;\nlet b = unsafe { g() };"), 1);
    }

    #[test]
    fn unsafe_in_other_files_is_found() {
        let text = "// SAFETY: yes.\nunsafe { g() }\nunsafe fn g() {}";
        assert_eq!(check(&Tree::of(&[("crates/linecard/src/stage.rs", text)])).len(), 2);
        assert_eq!(
            check(&Tree::of(&[("crates/linecard/src/stage.rs", "// unsafe\nlet unsafely = 1;")])),
            []
        );
    }
}
