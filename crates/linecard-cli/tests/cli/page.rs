//! `--report FILE`: a page that cannot be written is an error before the job begins.

use crate::folder::{CommandOutput, Folder, one_line};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

/// The user without rights that every Linux has.
const NOBODY: u32 = 65_534;

#[test]
fn a_page_and_its_json_appear_together() {
    let folder = Folder::new();
    folder.succeeds(&["run", "--seconds", "0.01", "--report", "found"]);
    assert_eq!(folder.names(), ["found.html", "found.json"]);
    let html = String::from_utf8(folder.read("found.html")).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.ends_with("</html>"));
    folder.succeeds(&["run", "--seconds", "0.01", "--report", "found.html"]);
    assert_eq!(folder.names(), ["found.html", "found.json"]);
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_the_job() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    fs::create_dir(folder.path("d.html")).unwrap();
    folder.write("busy.json", b"precious");
    let long = ["--seconds", "3600", "--report"];
    for (name, code, parts) in [
        ("none/a.html", 1, ["--report: none/a.html", "no folder none", "create it first"]),
        ("d.html", 1, ["d.html is not a regular file", "", "choose another name"]),
        ("a.pdf", 2, ["a.pdf names no page", "", "ends in .html"]),
        ("-", 2, ["- names no page", "", "ends in .html"]),
    ] {
        folder.refuses(code, &[&["run"], &long[..], &[name]].concat(), &parts);
        folder.refuses(code, &["coalesce", "in.pcap", "out.pcapng", "--report", name], &parts);
    }
    let parts = ["busy.json would replace busy.json", "choose another name"];
    folder.refuses(2, &["coalesce", "in.pcap", "busy.json", "--report", "busy"], &parts);
}

#[test]
fn a_page_is_written_of_a_damaged_capture_too() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let whole = folder.read("in.pcap");
    folder.write("cut.pcap", &whole[..whole.len() - 5]);
    let outcome = folder.run(&["coalesce", "cut.pcap", "out.pcapng", "--report", "found"]);
    assert_eq!(outcome.code, Some(4), "{outcome:?}");
    assert_eq!(folder.names(), ["cut.pcap", "found.html", "found.json", "in.pcap", "out.pcapng"]);
}

#[test]
fn a_folder_of_somebody_else_is_refused() {
    let folder = Folder::new();
    let run = |arguments: &[&str]| folder.command(arguments).uid(NOBODY).gid(NOBODY).output();
    if !run(&["--version"]).is_ok_and(|output| output.status.success()) {
        linecard_testkit::skip(
            "a page without permission",
            "the command cannot be run as another user here",
        );
        return;
    }
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o755)).unwrap();
    let outcome: CommandOutput =
        run(&["run", "--seconds", "3600", "--report", "a"]).unwrap().into();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    one_line(&outcome.stderr, &["--report: a.html may not be written", "permissions"]);
    assert!(folder.names().is_empty());
}
