//! Files that cannot be read or written: nothing half-written is left.

use crate::folder::{CommandOutput, Folder, one_line};
use crate::support::linecard;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;

const BOTH: [&str; 2] = ["coalesce", "segment"];
/// The user without rights that every Linux has.
const NOBODY: u32 = 65_534;

/// Both commands, with a new and with an existing output.
fn refused_input(folder: &Folder, input: &str, parts: &[&str]) {
    folder.write("existing.pcapng", b"precious");
    for command in BOTH {
        folder.refuses(1, &[command, input, "new.pcapng"], parts);
        folder.refuses(1, &[command, input, "existing.pcapng"], parts);
    }
}

#[test]
fn input_that_is_not_there() {
    refused_input(&Folder::new(), "no.pcap", &["no.pcap", "No such file"]);
}

#[test]
fn input_that_is_a_directory() {
    let folder = Folder::new();
    fs::create_dir(folder.path("d")).unwrap();
    refused_input(&folder, "d", &["cannot open d:", "directory"]);
}

#[test]
fn input_that_is_no_capture() {
    let folder = Folder::new();
    folder.write("text.pcap", b"hello, world");
    let parts = ["text.pcap", "not a capture", "68 65 6c 6c", "pcap or pcapng"];
    refused_input(&folder, "text.pcap", &parts);
    folder.write("short.pcap", b"\xd4\xc3");
    refused_input(&folder, "short.pcap", &["short.pcap", "not a capture", "d4 c3"]);
}

#[test]
fn input_that_is_empty() {
    let folder = Folder::new();
    folder.write("empty.pcap", b"");
    refused_input(&folder, "empty.pcap", &["empty.pcap", "not a capture", "empty"]);
    refused_input(&folder, "/dev/null", &["/dev/null", "empty"]);
}

#[test]
fn input_that_is_compressed() {
    let folder = Folder::new();
    folder.write("a.pcap.xz", b"\xfd7zXZ\x00");
    refused_input(&folder, "a.pcap.xz", &["a.pcap.xz", "compressed with xz", "xz -dc"]);
    // A known format, damaged before the first packet.
    folder.write("a.pcap.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03");
    folder.write("a.zst", b"\x28\xb5\x2f\xfd\x04\x00");
    for name in ["a.pcap.gz", "a.zst"] {
        let said = [name, "damaged at byte 0", "compressed data is damaged or cut short"];
        folder.refuses(4, &["coalesce", name, "new.pcapng"], &said);
    }
}

/// Root may read everything, so the command is run as another user then.
#[test]
fn files_without_permission() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    folder.write("secret.pcap", b"secret");
    let is_root = fs::metadata(folder.path(".")).unwrap().uid() == 0;
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(folder.path("in.pcap"), Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path("secret.pcap"), Permissions::from_mode(0o000)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = folder.command(arguments);
        if is_root { command.uid(NOBODY).gid(NOBODY).output() } else { command.output() }
    };
    if is_root
        && !linecard().arg("--version").uid(NOBODY).output().is_ok_and(|o| o.status.success())
    {
        linecard_testkit::skip(
            "files without permission",
            "another user cannot run the command here",
        );
        return;
    }
    if !is_root {
        fs::set_permissions(folder.path("."), Permissions::from_mode(0o555)).unwrap();
    }
    let before = folder.names();
    let unreadable: CommandOutput = run(&["coalesce", "secret.pcap", "-"]).unwrap().into();
    let unwritable: CommandOutput = run(&["coalesce", "in.pcap", "out.pcapng"]).unwrap().into();
    let replaced: CommandOutput = run(&["segment", "in.pcap", "secret.pcap"]).unwrap().into();
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o755)).unwrap();
    for (outcome, name) in
        [(unreadable, "secret.pcap"), (unwritable, "out.pcapng"), (replaced, "secret.pcap")]
    {
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""), "{outcome:?}");
        one_line(&outcome.stderr, &[name, "Permission denied"]);
    }
    assert_eq!(folder.names(), before);
    fs::set_permissions(folder.path("secret.pcap"), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(folder.read("secret.pcap"), b"secret");
}

/// However the same file is named.
#[test]
fn output_that_is_the_input() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    fs::create_dir(folder.path("d")).unwrap();
    symlink("in.pcap", folder.path("symbolic.pcap")).unwrap();
    fs::hard_link(folder.path("in.pcap"), folder.path("hard.pcap")).unwrap();
    for name in ["in.pcap", "./in.pcap", "d/../in.pcap", "symbolic.pcap", "hard.pcap"] {
        for command in BOTH {
            let parts = [name, "same file as input", "choose another name"];
            folder.refuses(2, &[command, "in.pcap", name], &parts);
        }
    }
    folder.refuses(2, &["coalesce", "symbolic.pcap", "hard.pcap"], &["same file"]);
}

/// Redirections are files too.
#[test]
fn output_that_is_the_redirected_input() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    let before = folder.content();
    let input = fs::File::open(folder.path("in.pcap")).unwrap();
    let output = folder.command(&["segment", "-", "in.pcap"]).stdin(input).output().unwrap();
    let outcome = CommandOutput::from(output);
    assert_eq!(outcome.code, Some(2));
    one_line(&outcome.stderr, &["in.pcap", "same file as input -"]);
    let append = fs::OpenOptions::new().append(true).open(folder.path("in.pcap")).unwrap();
    let output = folder.command(&["segment", "in.pcap", "-"]).stdout(append).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(folder.content(), before);
}

#[test]
fn output_that_has_no_place() {
    let folder = Folder::with_capture("tcp4-bulk.pcap");
    fs::create_dir(folder.path("d")).unwrap();
    for command in BOTH {
        let parts = ["cannot write no/out.pcapng", "No such file", "make its folder first"];
        folder.refuses(1, &[command, "in.pcap", "no/out.pcapng"], &parts);
        for name in ["d", "d/", "."] {
            let parts = [&format!("cannot write {name}:")[..], "directory", "name a file in it"];
            folder.refuses(1, &[command, "in.pcap", name], &parts);
        }
        let parts = ["cannot write in.pcap/out", "Not a directory"];
        folder.refuses(1, &[command, "in.pcap", "in.pcap/out"], &parts);
        folder.refuses(2, &[command, "in.pcap", ""], &["<OUTPUT>"]);
    }
}

/// The input is looked at first: with both wrong, nothing is opened for writing.
#[test]
fn output_of_a_missing_input_is_not_made() {
    let folder = Folder::new();
    folder.refuses(1, &["coalesce", "no.pcap", "no/out.pcapng"], &["no.pcap"]);
}
