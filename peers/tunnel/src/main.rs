//! Complete tunnel programs beside each other, in turns, between two network namespaces: throughput of one TCP
//! stream, processor time, and round trips. peers/README.md says how to read it; `programs.rs` lists the programs.

mod lab;
mod lines;
mod measure;
mod options;
mod processes;
mod programs;
mod report;
mod round_trips;
mod stack;

use crate::lab::Lab;
use crate::measure::Figures;
use crate::options::Options;
use crate::programs::{Kind, Program};
use crate::report::Conditions;
use std::error::Error;
use std::process::ExitCode;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let outcome = Options::parse(std::env::args().skip(1)).and_then(|options| match options {
        Some(options) => run(&options),
        None => Ok(true),
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tunnel: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every program was measured in every round.
fn run(options: &Options) -> Result<bool> {
    processes::use_two_cores()?;
    let lab = Lab::new()?;
    lab.remove_on_signal()?;
    let conditions = Conditions::new(options);
    let mut rounds: Vec<Vec<Figures>> = vec![Vec::new(); options.programs.len()];
    let mut is_complete = true;
    for round in 1..=options.rounds {
        for (program, figures) in options.programs.iter().zip(&mut rounds) {
            match measure(program, &lab, options) {
                Ok(measured) => {
                    eprintln!("round {round}, {}: {measured}", program.name);
                    figures.push(measured);
                }
                Err(error) => {
                    eprintln!("round {round}, {}: {error}", program.name);
                    is_complete = false;
                }
            }
        }
    }
    report::print(&conditions, &options.programs, &rounds)?;
    Ok(is_complete)
}

fn measure(program: &Program, lab: &Lab, options: &Options) -> Result<Figures> {
    match program.kind {
        Kind::Tunnel => measure::tunnel(program, lab, options),
        Kind::Stack => stack::measure(program, lab, options),
    }
}
