//! Dropping privileges, in separate processes: a process without any cannot run other tests. There is no harness,
//! because its threads would keep their privileges.
//!
//! Most of it needs root; without, it says so.

mod child;

use linecard_testkit::say;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode, Output};

/// Says in the environment what a child is to do.
const ROLE: &str = "LINECARD_TEST_RIGHTS";
/// The privileges that `linecard attach` would be given.
const CAPABILITIES: &str = "+net_raw,+net_admin";

/// Promise (Live interfaces): Dropped privileges do not return: no thread has a capability, can
/// open a port or become root, and open ports continue, with 3 threads from before and one from
/// after the drop.
fn main() -> ExitCode {
    if let Ok(role) = std::env::var(ROLE) {
        return child::run(&role);
    }
    // The caller asks for the tests of a name, or for a list of them.
    if std::env::args().nth(1).is_some_and(|word| !"rights".contains(&word)) {
        return ExitCode::SUCCESS;
    }
    // A network of this test alone, which its children have too.
    linecard_testkit::lab::inside("rights of root", |_| as_root());
    without_rights();
    say("rights: passed");
    ExitCode::SUCCESS
}

fn as_root() {
    linecard_tun::interface::set_up("lo", true).expect("root may");
    let nobody = child(&program(), "root").output();
    succeeded(&nobody.expect("it starts"), "runs as user 65534, group 65534");
    let mut by_sudo = child(&program(), "root");
    by_sudo.env("SUDO_UID", "4242").env("SUDO_GID", "4343");
    succeeded(&by_sudo.output().expect("it starts"), "runs as user 4242, group 4343");
    let kept = child(&program(), "root-keeps").output();
    succeeded(&kept.expect("it starts"), "has rights left: programs that it starts may have more");
    with_capabilities("capable", "runs as user 65534, group 65534");
    with_capabilities("capable-keeps", "has rights left: capabilities");
    with_groups();
}

/// As a program with file capabilities would be started by a user.
fn with_capabilities(role: &str, says: &str) {
    let mut starter = child(OsStr::new("setpriv"), role);
    starter
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(format!("--inh-caps={CAPABILITIES}"))
        .arg(format!("--ambient-caps={CAPABILITIES}"))
        .arg(program());
    match starter.output() {
        Err(_) => linecard_testkit::skip("rights of capabilities", "no `setpriv`"),
        Ok(output) if not_found(&output) => {
            linecard_testkit::skip("rights of capabilities", "nobody may not run this program");
        }
        Ok(output) => succeeded(&output, says),
    }
}

/// Root's supplementary groups go from all threads; a user who stays keeps the user's own.
fn with_groups() {
    let ours: &[&str] = &["--groups=27,44"];
    let inherited = format!("--inh-caps={CAPABILITIES}");
    let ambient = format!("--ambient-caps={CAPABILITIES}");
    let users: &[&str] =
        &["--reuid=65534", "--regid=65534", "--groups=27,44", &inherited, &ambient];
    for (role, arguments, left) in [("root", ours, ""), ("capable", users, "27,44")] {
        let mut starter = child(OsStr::new("setpriv"), role);
        match starter.args(arguments).arg(program()).output() {
            Err(_) => say("SKIPPED: supplementary groups: no `setpriv`"),
            Ok(output) if not_found(&output) => {
                say("SKIPPED: supplementary groups: nobody may not run this program");
            }
            Ok(output) => succeeded(&output, &format!("threads: {left}\n")),
        }
    }
}

/// The message of `setpriv` when it cannot start the program.
fn not_found(output: &Output) -> bool {
    matches!(output.status.code(), Some(126 | 127))
}

/// The user of the tests can drop all privileges.
fn without_rights() {
    let output = child(&program(), "plain").output();
    succeeded(&output.expect("it starts"), "without capabilities");
}

fn program() -> std::ffi::OsString {
    std::env::current_exe().expect("this test").into()
}

fn child(program: &OsStr, role: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env(ROLE, role)
        .env_remove("SUDO_UID")
        .env_remove("SUDO_GID")
        .current_dir(Path::new("/"));
    command
}

#[track_caller]
fn succeeded(output: &Output, says: &str) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains(says), "{output:?}");
}
