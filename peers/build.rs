//! Links DPDK where its development files are installed; without them, the harness is built
//! without it and says so when it runs.

use std::process::Command;

/// In the order that a static linker wants; those that a version of DPDK does not have are left
/// out.
const LIBRARIES: [&str; 11] = [
    "gro",
    "gso",
    "net",
    "mbuf",
    "mempool",
    "ring",
    "eal",
    "telemetry",
    "kvargs",
    "argparse",
    "log",
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(dpdk)");
    println!("cargo::rerun-if-changed=src/dpdk.c");
    // run.sh says what is installed: another version is another build.
    println!("cargo::rerun-if-env-changed=DPDK_VERSION");
    println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
    let Some(flags) = ask(&["--cflags", "libdpdk"]) else { return };
    let Some(folder) = ask(&["--variable=libdir", "libdpdk"]) else { return };
    let mut build = cc::Build::new();
    build.file("src/dpdk.c").opt_level(3).define("ALLOW_EXPERIMENTAL_API", None);
    // The distribution's flags name the oldest processor it runs on; who builds DPDK into a
    // program builds for his own. It is the better case for DPDK's inline checksums.
    for flag in flags.split_whitespace().filter(|flag| !flag.starts_with("-march=")) {
        build.flag(flag);
    }
    build.flag("-march=native").flag("-Wno-unused-parameter").compile("linecard_peers_dpdk");
    link(folder.trim());
    println!("cargo::rustc-cfg=dpdk");
}

/// Static libraries: no calls through a table, and no search for drivers at the start.
fn link(folder: &str) {
    println!("cargo::rustc-link-search=native={folder}");
    let argument = |text: &str| println!("cargo::rustc-link-arg={text}");
    // Drivers register themselves before main, so nothing refers to this one.
    argument("-Wl,--whole-archive");
    argument("-l:librte_mempool_ring.a");
    argument("-Wl,--no-whole-archive");
    argument("-Wl,--start-group");
    argument("-llinecard_peers_dpdk");
    for library in LIBRARIES.map(|name| format!("librte_{name}.a")) {
        if std::path::Path::new(folder).join(&library).exists() {
            argument(&format!("-l:{library}"));
        }
    }
    argument("-Wl,--end-group");
    // A DPDK that was built here lies apart from the system's libraries.
    let system = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    for library in ["numa", "archive", "bsd"] {
        let is_in =
            |folder: &&str| std::path::Path::new(folder).join(format!("lib{library}.so")).exists();
        if [folder, system.as_str()].iter().any(is_in) {
            argument(&format!("-l{library}"));
        }
    }
}

/// The output of pkg-config, if it is installed and knows the package.
fn ask(arguments: &[&str]) -> Option<String> {
    let output = Command::new("pkg-config").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
