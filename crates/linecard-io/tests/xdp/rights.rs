//! Without rights, the error says which ones are lacking.

use crate::around::skipped;
use crate::cable::with_cable;
use linecard_io::port::xdp::{Attachment, Config, XdpError, XdpPort, probe};
use linecard_testkit::lab::is_root;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Whether this is the child process without rights.
const CHILD: &str = "LINECARD_TEST_XDP_NO_RIGHTS";
/// The user "nobody".
const USER: u32 = 65_534;

#[test]
fn no_permission_is_said_with_what_it_takes() {
    if !is_root() {
        return without_rights();
    }
    let program = std::env::current_exe().expect("this test");
    let child = Command::new(program)
        .args(["--ignored", "--exact", "rights::child_without_rights"])
        .env(CHILD, "1")
        .current_dir("/")
        .uid(USER)
        .gid(USER)
        .output();
    match child {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
        }
        Err(error) => skipped("no permission", &format!("nobody may not run this: {error}")),
    }
}

/// The child of the test above.
#[test]
#[ignore = "started by no_permission_is_said_with_what_it_takes"]
fn child_without_rights() {
    if std::env::var_os(CHILD).is_some() {
        without_rights();
    }
}

/// Names the interface of the child process with the documented rights and no others.
const THREE: &str = "LINECARD_TEST_XDP_THREE_RIGHTS";

#[test]
fn the_documented_rights_suffice() {
    let what = "the documented rights";
    with_cable(what, "1500", |cable| {
        let rights = "+net_raw,+net_admin,+bpf";
        let program = std::env::current_exe().expect("this test");
        let child = Command::new("setpriv")
            .args([
                "--reuid",
                "65534",
                "--clear-groups",
                "--bounding-set",
                &format!("-all,{rights}"),
            ])
            .args(["--inh-caps", &format!("-all,{rights}"), "--ambient-caps", rights])
            .arg(program)
            .args(["--ignored", "--exact", "rights::child_with_three_rights"])
            .env(THREE, cable.near.device())
            .current_dir("/")
            .output();
        let Ok(output) = child else { return skipped(what, "no `setpriv`") };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{output:?}");
    });
}

/// The child of the test above.
#[test]
#[ignore = "started by the_documented_rights_suffice"]
fn child_with_three_rights() {
    let Some(interface) = std::env::var_os(THREE) else { return };
    let attachment = Attachment::new(interface.to_str().expect("a name of ours"));
    let attachment = attachment.expect("nothing else is attached");
    let small = Config { rx_slots: 64, tx_slots: 64, spare_frames: 64, ..Config::default() };
    XdpPort::open(&attachment, 0, &small).expect("the queue is free");
    // Most systems let a process pin 8 MiB; the default takes 16.
    let large = Config::default();
    match XdpPort::open(&attachment, 0, &large) {
        Ok(_) => {}
        Err(XdpError::PinnedMemory { bytes, limit }) => {
            assert!(bytes == large.bytes() && limit < bytes);
        }
        Err(other) => assert!(other.to_string().is_empty(), "{other}"),
    }
}

fn without_rights() {
    let error = Attachment::new("lo").expect_err("it takes rights");
    assert!(matches!(error, XdpError::Permission { .. }), "{error}");
    let features = probe();
    if matches!(features.sockets, Err(XdpError::Unsupported { .. })) {
        return skipped("no permission", &features.to_string());
    }
    assert!(!features.is_usable());
    assert_eq!(
        features.lacking(),
        [
            "no permission to open an AF_XDP socket: it takes CAP_NET_RAW; run as root, or `setcap \
             cap_net_raw,cap_net_admin,cap_bpf+ep` on the program",
            "no permission to create the BPF map of queues: it takes CAP_BPF and CAP_NET_ADMIN \
             (before Linux 5.8: CAP_SYS_ADMIN); run as root, or `setcap \
             cap_net_raw,cap_net_admin,cap_bpf+ep` on the program",
        ]
    );
}

#[test]
fn what_a_kernel_lacks_is_one_line_each() {
    let features = probe();
    for line in features.lacking() {
        assert!(!line.is_empty() && !line.contains('\n'));
    }
    linecard_testkit::say(&format!("this kernel: {features}"));
}
