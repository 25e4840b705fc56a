//! The examples `tun` and `tokio`: TCP through a tunnel of two such programs, in namespaces of the
//! test. It needs root; without it, it says so and passes.

use linecard_testkit::{lab::tunnel, root};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The folder of the examples, which it builds.
fn build() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let profile = program.ancestors().nth(2).expect("cargo's folders");
    let target = profile.parent().expect("a folder for all profiles");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "--package", "linecard-tun", "--examples"]);
    cargo.arg("--target-dir").arg(target).current_dir(root());
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().expect("cargo is there").success(), "the examples do not build");
    profile.join("examples")
}

#[test]
fn tcp_goes_through_tun() {
    tcp_goes_through(["tun", "tun"]);
}

#[test]
fn tcp_goes_through_tokio() {
    tcp_goes_through(["tokio", "tokio"]);
}

#[test]
fn tun_and_tokio_are_each_others_peers() {
    tcp_goes_through(["tun", "tokio"]);
}

/// A tunnel between these two examples.
fn tcp_goes_through(examples: [&str; 2]) {
    let folder = TempDir::new().expect("a folder");
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).expect("a file in our folder");
    let programs = || {
        let built = build();
        examples.map(|name| built.join(name))
    };
    let arguments = |[own, peer]: [&str; 2]| {
        let ends = [own, peer].map(|end| format!("{end}:5000").into());
        ["tun0".into()].into_iter().chain(ends).chain([key.clone().into()]).collect()
    };
    let what = format!("TCP through the examples {examples:?}");
    tunnel::tcp_goes_through(&what, programs, arguments);
}
