//! Skipped tests are visible although the harness hides the output of tests that pass.

use std::process::Command;

/// Set for the child of this test, which skips.
const CHILD: &str = "LINECARD_SKIPS_CHILD";

#[test]
fn a_skip_is_on_stderr_and_in_the_list() {
    if std::env::var_os(CHILD).is_some() {
        linecard_testkit::skip("the first", "no tool:\n run setup");
        return linecard_testkit::skip(format_args!("number {}", 2), "not root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("skips");
    let run = || {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program);
        child.arg("a_skip_is_on_stderr_and_in_the_list").env(CHILD, "1");
        child.env("LINECARD_SKIPS", &list).output().expect("the same test again")
    };
    for _ in 0..2 {
        let output = run();
        assert!(output.status.success(), "{output:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr, "SKIPPED: the first: no tool: run setup\nSKIPPED: number 2: not root\n");
    }
    let listed = std::fs::read_to_string(&list).expect("the list");
    assert_eq!(listed, "the first: no tool: run setup\nnumber 2: not root\n".repeat(2));
}
