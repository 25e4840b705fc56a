//! Names the shared library after the version of its interface, so that the dynamic linker refuses a library that a
//! program was not compiled for.

use std::env::var;
use std::fs;

const HEADER: &str = "include/linecard.h";
const VERSION: &str = "#define LINECARD_ABI_VERSION ";

fn main() {
    println!("cargo::rerun-if-changed={HEADER}");
    let header = fs::read_to_string(HEADER).expect("the header is there");
    let version = header.lines().find_map(|line| line.strip_prefix(VERSION));
    let version = version.expect("the header has a version");
    // A soname is a matter of ELF.
    let is_elf = !matches!(var("CARGO_CFG_TARGET_VENDOR").as_deref(), Ok("apple"));
    if is_elf && var("CARGO_CFG_UNIX").is_ok() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblinecard.so.{version}");
    }
}
