//! The command line.

use crate::Result;
use crate::programs::{PROGRAMS, Program};

const USAGE: &str =
    "peers/tunnel.sh [--rounds 3] [--seconds 5] [--round-trips 5000] [--congestion NAME] [--only NAME,...]

--rounds       measurements of each program, in turns: 1 to 100
--seconds      time of a measurement of throughput: 1 to 600
--round-trips  round trips of a measurement of latency: 100 to 1000000
--congestion   congestion control of the kernel's sending TCP: cubic by default, which most systems have; reno, bbr
--only         only these programs

Needs root, ip, iperf3 and setpriv. Programs:";

/// How often each is measured, and which are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub rounds: u32,
    pub seconds: u32,
    pub round_trips: u32,
    /// Of the kernel's end that sends.
    pub congestion: String,
    pub programs: Vec<Program>,
}

impl Options {
    /// Nothing if only help was asked for, which is printed.
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let programs = PROGRAMS.to_vec();
        let congestion = "cubic".to_owned();
        let mut options = Self { rounds: 3, seconds: 5, round_trips: 5_000, congestion, programs };
        while let Some(name) = arguments.next() {
            if matches!(name.as_str(), "--help" | "-h") {
                println!("{USAGE} {}.", names());
                return Ok(None);
            }
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--rounds" => options.rounds = number(&name, &value, 1, 100)?,
                "--seconds" => options.seconds = number(&name, &value, 1, 600)?,
                "--round-trips" => options.round_trips = number(&name, &value, 100, 1_000_000)?,
                "--congestion" => options.congestion = value,
                "--only" => options.programs = only(&value)?,
                _ => return Err(format!("{name} is not an option: see --help").into()),
            }
        }
        Ok(Some(options))
    }
}

fn names() -> String {
    PROGRAMS.map(|program| program.name).join(", ")
}

fn number(name: &str, value: &str, min: u32, max: u32) -> Result<u32> {
    let number = value.parse().ok().filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("{name} {value}: give a number from {min} to {max}").into())
}

fn only(value: &str) -> Result<Vec<Program>> {
    let find = |name: &str| {
        let found = PROGRAMS.iter().find(|program| program.name == name).cloned();
        found.ok_or_else(|| format!("--only {name}: no such program; there are {}", names()).into())
    };
    value.split(',').map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(line: &str) -> Result<Options, String> {
        let words = line.split_whitespace().map(str::to_owned);
        let options = Options::parse(words).map_err(|error| error.to_string())?;
        options.ok_or_else(|| "help".to_owned())
    }

    #[test]
    fn options_are_read() {
        let options = parse("--rounds 2 --seconds 1 --congestion reno --only tun-rs,plain")
            .expect("they are right");
        assert_eq!((options.rounds, options.seconds), (2, 1));
        assert_eq!(options.congestion, "reno");
        let names: Vec<_> = options.programs.iter().map(|program| program.name).collect();
        assert_eq!(names, ["tun-rs", "plain"]);
    }

    #[test]
    fn wrong_values_are_refused() {
        for line in ["--rounds 0", "--rounds x", "--rounds", "--only nobody", "--fast 1"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
