//! The programs that are measured. One more is a file in `bin`, and a row here.

use std::path::{Path, PathBuf};

/// The work of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Carries packets between a TUN device and a UDP socket: two processes.
    Tunnel,
    /// Is an end of TCP on a TAP device, the kernel being the other: one process.
    Stack,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub name: &'static str,
    /// The name of the executable, beside this one.
    pub executable: &'static str,
    /// Its source, below this package.
    pub source: &'static str,
    /// Its arguments behind those that all have.
    pub arguments: &'static [&'static str],
    pub kind: Kind,
}

/// Crates whose versions are printed.
pub const CRATES: [&str; 5] = ["ring", "tun-rs", "quinn-udp", "boringtun", "smoltcp"];

/// In the order in which they are measured and printed.
pub const PROGRAMS: [Program; 15] = [
    tunnel("plain", "plain", "src/bin/plain.rs", &[]),
    tunnel("plain-clear", "plain", "src/bin/plain.rs", &["clear"]),
    tunnel("tun-rs", "tun-rs", "src/bin/tun-rs.rs", &[]),
    tunnel("tun-rs-clear", "tun-rs", "src/bin/tun-rs.rs", &["clear"]),
    tunnel("linecard", "linecard", "src/bin/linecard.rs", &[]),
    tunnel("linecard-clear", "linecard", "src/bin/linecard.rs", &["clear"]),
    tunnel("floor", "floor", "src/bin/floor.rs", &[]),
    tunnel("floor-clear", "floor", "src/bin/floor.rs", &["clear"]),
    // Tunnels with Linecard in C and with an executor belong here.
    tunnel("boringtun", "boringtun", "src/bin/boringtun.rs", &[]),
    tunnel("boringtun-gso", "boringtun-gso", "src/bin/boringtun-gso.rs", &[]),
    tunnel("boringtun-linecard", "boringtun-linecard", "src/bin/boringtun-linecard.rs", &[]),
    stack("smoltcp-up", "smoltcp", "src/bin/smoltcp.rs", &["up"]),
    stack("smoltcp-down", "smoltcp", "src/bin/smoltcp.rs", &["down"]),
    stack("smoltcp-linecard-up", "smoltcp-linecard", "src/bin/smoltcp-linecard.rs", &["up"]),
    stack("smoltcp-linecard-down", "smoltcp-linecard", "src/bin/smoltcp-linecard.rs", &["down"]),
];

const fn tunnel(
    name: &'static str,
    executable: &'static str,
    source: &'static str,
    arguments: &'static [&'static str],
) -> Program {
    Program { name, executable, source, arguments, kind: Kind::Tunnel }
}

const fn stack(
    name: &'static str,
    executable: &'static str,
    source: &'static str,
    arguments: &'static [&'static str],
) -> Program {
    Program { name, executable, source, arguments, kind: Kind::Stack }
}

impl Program {
    /// Where its executable is, if it was built with this one.
    pub fn path(&self) -> Result<PathBuf, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let path = own.with_file_name(self.executable);
        if path.exists() {
            Ok(path)
        } else {
            Err(format!("{} is missing: build the whole package", path.display()))
        }
    }

    /// Its source.
    pub fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::PROGRAMS;

    #[test]
    fn names_are_unique_and_sources_exist() {
        for (at, program) in PROGRAMS.iter().enumerate() {
            assert!(program.source().exists(), "{}", program.source);
            assert!(PROGRAMS[..at].iter().all(|other| other.name != program.name));
        }
    }
}
