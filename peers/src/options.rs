//! The command line.

use std::path::PathBuf;

const USAGE: &str = "\
Linecard beside tun-rs and DPDK, on the same packets in one run.

peers/run.sh [OPTIONS] [CAPTURE.pcap ...]

  --only NAMES   inputs whose name contains one of NAMES, which commas separate (see --list)
  --peer NAME    of the others, only those whose name contains NAME: tun-rs, dpdk
  --rounds N     rounds that are timed, 9 by default
  --quick        a smoke test of less than a minute: its figures say nothing
  --scattered    cold packets lie in random order, as buffers do after hours of use
  --list         prints the inputs
  --json FILE    writes all figures there too
  --traces DIR   where captures of real traffic lie (run.sh says it)

Captures given as arguments (pcap, Ethernet) are inputs too.";

/// The options.
#[derive(Debug, Default)]
pub struct Options {
    pub only: Vec<String>,
    pub peer: String,
    pub rounds: usize,
    pub quick: bool,
    pub scattered: bool,
    pub list: bool,
    pub json: Option<PathBuf>,
    pub traces: Option<PathBuf>,
    pub captures: Vec<PathBuf>,
}

impl Options {
    /// Whether an input of this name is asked for.
    pub fn asks_for(&self, input: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| input.contains(name))
    }

    /// Those of this process; says what is wrong with them otherwise.
    pub fn parse() -> Result<Self, String> {
        let mut options = Self::default();
        let mut rounds = None;
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
            match argument.as_str() {
                "--only" => options.only = value()?.split(',').map(String::from).collect(),
                "--peer" => options.peer = peer(value()?)?,
                "--rounds" => {
                    let count = value()?.parse().ok().filter(|count| *count > 0);
                    rounds = Some(count.ok_or("--rounds takes a number above 0")?);
                }
                "--quick" => options.quick = true,
                "--scattered" => options.scattered = true,
                "--list" => options.list = true,
                "--json" => options.json = Some(value()?.into()),
                "--traces" => options.traces = Some(value()?.into()),
                "--help" | "-h" => return Err(USAGE.into()),
                unknown if unknown.starts_with('-') => {
                    return Err(format!("unknown option {unknown}\n\n{USAGE}"));
                }
                path => options.captures.push(path.into()),
            }
        }
        options.rounds = rounds.unwrap_or(if options.quick { 1 } else { 9 });
        Ok(options)
    }
}

fn peer(name: String) -> Result<String, String> {
    let known = ["tun-rs", "dpdk"];
    if known.iter().any(|peer| peer.contains(&name)) {
        return Ok(name);
    }
    Err(format!("no peer is called {name}: there are {}", known.join(", ")))
}
