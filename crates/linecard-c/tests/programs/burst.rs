//! Bursts in C: every byte comes back, and a tunnel carries TCP.

use super::{SANITIZER, build, compile, compiler, run, run_checked};
use linecard_testkit::{lab::tunnel, skip};

/// Promise (Offloads): In C, bursts that are merged and then cut are what they were, byte for byte, without leaks or
/// invalid accesses, under the address sanitizer and valgrind.
#[test]
fn bursts_come_back() {
    match compiler() {
        Some(cc) => run_checked(&cc, "tests/programs/burst.c", |command| drop(run(command))),
        None => skip("bursts in C", "no C compiler: install gcc, or set CC"),
    }
}

/// The address sanitizer checks, if it is installed.
#[test]
fn tcp_goes_through_the_tunnel_in_c() {
    const WHAT: &str = "TCP through the example `tunnel` in C";
    const SOURCE: &str = "examples/tunnel.c";
    let Some(cc) = compiler() else {
        return skip(WHAT, "no C compiler: install gcc, or set CC");
    };
    let library = build().join("liblinecard.a");
    let library = library.to_str().expect("a path in UTF-8");
    // It compiles also where it cannot run.
    let plain = compile(&cc, SOURCE, &[library]).expect("the example compiles");
    let checked = compile(&cc, SOURCE, &[library, SANITIZER]);
    let program = checked.as_ref().unwrap_or(&plain).program();
    let arguments = |[own, peer]: [&str; 2]| vec!["tun0".into(), own.into(), peer.into()];
    tunnel::tcp_goes_through(WHAT, || [program.clone(), program], arguments);
}
