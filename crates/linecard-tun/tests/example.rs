//! The example `tun`: TCP through a tunnel of two such programs, in namespaces of the test. It needs
//! root; without it, it says so and passes.

use linecard_testkit::{lab::tunnel, root};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// Where cargo puts what it builds for this run.
fn build() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let profile = program.ancestors().nth(2).expect("cargo's folders");
    let target = profile.parent().expect("a folder for all profiles");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--package", "linecard-tun", "--example", "tun"]);
    cargo.arg("--target-dir").arg(target).current_dir(root());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo is there").success(), "the example does not build");
    profile.join("examples/tun")
}

#[test]
fn tcp_goes_through_the_example() {
    let folder = TempDir::new().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).expect("a file in our folder");
    let arguments = |[own, peer]: [&str; 2]| {
        vec![
            "tun0".into(),
            format!("{own}:5000").into(),
            format!("{peer}:5000").into(),
            key.clone().into(),
        ]
    };
    tunnel::tcp_goes_through("TCP through the example `tun`", build, arguments);
}
