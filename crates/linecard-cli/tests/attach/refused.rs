//! Impossible requests are refused in one line, with the exit code that `--help` documents.

use crate::command::{Ended, command, refused, refused_as};
use crate::lab::{Lab, with_lab};
use crate::sys;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const BINARY: &str = env!("CARGO_BIN_EXE_linecard");

/// Nothing is left of what was tried.
fn clean(lab: &Lab, ended: &Ended) {
    assert!(!lab.host.has("lc0") && !lab.has_program(), "{ended:?}");
    assert!(ended.account.is_null(), "{ended:?}");
}

#[test]
fn without_rights() {
    with_lab("no rights", |lab| {
        // Not every user may enter the folder of the binary.
        let folder = tempfile::tempdir().expect("there is room");
        let everybody = fs::Permissions::from_mode(0o755);
        fs::set_permissions(folder.path(), everybody).expect("it is ours");
        let copy = folder.path().join("linecard");
        fs::copy(BINARY, &copy).expect("there is room");
        let copy = copy.to_str().expect("a plain name");
        let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
        for (port, capability) in [("xdp", "CAP_NET_ADMIN"), ("packet", "CAP_NET_RAW")] {
            let command = command(nobody, copy, &format!("{port}:lcw tap:lc0"));
            let ended = refused_as(lab, command);
            ended.is(6, &["no permission", capability, "run as root, or `setcap"]);
            clean(lab, &ended);
        }
    });
}

#[test]
fn without_af_xdp() {
    with_lab("no AF_XDP", |lab| {
        let mut command = command("", BINARY, "xdp:lcw tap:lc0");
        sys::without_af_xdp(&mut command);
        let ended = refused_as(lab, command);
        ended.is(6, &["lacks AF_XDP sockets", "CONFIG_XDP_SOCKETS", "packet:"]);
        clean(lab, &ended);
    });
}

#[test]
fn arguments() {
    let cases: [(&str, i32, &[&str]); 14] = [
        ("xdp:nope tap:lc0", 6, &["no interface `nope`", "ip link"]),
        ("packet:nope tap:lc0", 6, &["no interface `nope`", "ip link"]),
        ("xdp:lcw xdp:lcw", 2, &["xdp:lcw cannot be joined to xdp:lcw, which is the same"]),
        ("xdp:lcw packet:lcw", 2, &["packet:lcw cannot be joined to xdp:lcw"]),
        ("xdp:lcw,offloads tap:lc0", 2, &["option `offloads`", "not with xdp"]),
        ("xdp:lcw tap:lc0 --workers 2", 6, &["xdp:lcw has at most 1 queue, and each of 2 workers"]),
        (
            "packet:lcw tap:lc0 --workers 200 --buffers 1048576",
            6,
            &["1048576 buffers", "for 200 workers", "bytes of memory", "fewer `--workers`"],
        ),
        ("xdp:lcw,fast tap:lc0", 2, &["option `fast`", "no-offloads"]),
        ("lcw tap:lc0", 2, &["port `lcw`", "KIND:NAME"]),
        ("xdp:lcw tap:lc0 --batch 65", 2, &["--batch 65", "1 to 64"]),
        ("xdp:lcw tap:lc0 --no-such-option", 2, &["--no-such-option"]),
        ("xdp:lcw tap:lo", 6, &["`lo` exists and is another kind of device"]),
        (
            "xdp:lcw tap:lc0 --cores 999",
            2,
            &["worker 0", "core 999: it is not among those that this process may use: 0"],
        ),
        ("xdp:lcw tap:a-name-much-too-long", 2, &["a-name-much-too-long", "1 to 15 printable"]),
    ];
    with_lab("arguments", |lab| {
        for (arguments, code, parts) in cases {
            let ended = refused(lab, arguments);
            ended.is(code, parts);
            clean(lab, &ended);
        }
        let shared = "xdp:lcw tap:lc0 --deployment shared --workers 2 --cores 0,0,999";
        refused(lab, shared).is(2, &["thread ports", "core 999"]);
    });
}
