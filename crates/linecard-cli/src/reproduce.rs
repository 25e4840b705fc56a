//! `linecard reproduce`: published figures beside ours.

use crate::codes::all_exit_codes;
use crate::page::PageArguments;
use crate::{account, interrupt, say, signals};
use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Args, Command, ValueEnum};
use linecard_app::Context;
#[cfg(target_os = "linux")]
use linecard_app::reproduce::live;
use linecard_app::reproduce::{Reproduced, check, reproduce, reproduce_file, total};
use linecard_app::{Error, Failure};
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct ReproduceArguments {
    /// The publication to reproduce, or a file (.toml) of your own with published values, jobs and figures. Without one the
    /// names are listed.
    #[arg(value_name = "NAME", value_parser = SubjectParser)]
    pub(crate) name: Option<Subject>,
    /// Reproduce all, one after the other, with models only, and sum up by class: a minute.
    #[arg(long, conflicts_with_all = ["name", "scenario"])]
    pub(crate) all: bool,
    /// Scenario to use instead of the one that comes with the command.
    #[arg(long, value_name = "FILE")]
    pub(crate) scenario: Option<PathBuf>,
    /// Only the model: no real traffic, no privileges.
    #[arg(long)]
    pub(crate) modelled: bool,
    /// Write each of the paper's figures, its points over our curves, as a picture (SVG) into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) figures: Option<PathBuf>,
    /// Print the comparison as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    page: PageArguments,
}

/// The subject of a reproduction.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// A publication that comes with the command.
    Known(Reproduction),
    /// A file of one's own.
    File(PathBuf),
}

/// A name that is known, or that of a TOML file.
#[derive(Debug, Clone)]
struct SubjectParser;

impl TypedValueParser for SubjectParser {
    type Value = Subject;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Subject, clap::Error> {
        let path = Path::new(value);
        if path.extension().is_some_and(|ending| ending == "toml") {
            return Ok(Subject::File(path.to_owned()));
        }
        let known = EnumValueParser::<Reproduction>::new();
        known.parse_ref(command, argument, value).map(Subject::Known).map_err(|mut error| {
            let tip = "or name a file that ends in .toml".into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let known = Reproduction::value_variants().iter();
        Some(Box::new(known.filter_map(ValueEnum::to_possible_value)))
    }
}

/// Publications that can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reproduction {
    /// Send offload on a RISC core: cycles of each class of packets, DMA five times as fast (table 1).
    /// This and all that begin with lso run real firmware on the modelled core, in seconds.
    LsoTable1,
    /// The same with the DMA at 2115 MHz (table 2).
    LsoTable2,
    /// The core clock that carries 40 and 100 Gbit/s (table 3), and that of our own firmware.
    LsoTable3,
    /// The core clock over the packet size (figures 9 and 11), and what the text says of clocks, rates
    /// and fragments.
    LsoClock,
    /// Receive offload on a network processor: throughput over connections (figure 13), starvation
    /// (section V.B), active acknowledgment (section V.C). First in a model of the processor, which
    /// takes seconds; then with real traffic between two network namespaces, which needs root, iperf3
    /// and ethtool, takes six minutes, and is left out where those are missing.
    #[cfg(target_os = "linux")]
    LroNpu,
    /// Sources of jitter from the wire to the application (figures 5 to 11). First formulae and a model of
    /// the way, then experiments E0 to E8 on this host, each tagged real, emulated or not testable here: half
    /// a minute, in two network namespaces with root, over the loopback interface without.
    LinuxJitter,
    /// Receiving with a RISC core and a CAM: idle cycles (figure 8), and what the remedies that the paper
    /// weighs would give. Real firmware on the modelled core, in a second.
    LsoReceive,
    /// A gigabit adapter on PCI, modelled: throughput over clients, sessions, processors and their
    /// clock (figures 2 to 5).
    GigabitThroughput,
    /// Overhead of Ethernet and TCP/IP (figures 6 and 7).
    GigabitOverhead,
    /// A frame over the PCI bus and through the server, modelled (figures 8 and 9), and what the paper
    /// suggests.
    GigabitBus,
    /// An adapter whose device fetches payload from host memory, beside one that stores and forwards
    /// it, modelled.
    ZeroCopy,
    /// Bulk transfer over one to eight lanes of 10 Gbit/s in virtual time: throughput, overhead and
    /// latency of a chunk. Both modes, without FEC and with it, in some seconds; then, where this
    /// process may make namespaces, over eight real lanes of 200 Mbit/s beside TCP: a minute.
    End2end100,
}

impl Reproduction {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Lists what can be reproduced, and refuses: nothing was named.
fn list() -> Result<(), Error> {
    let known = || Reproduction::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let wide = known().map(|one| one.get_name().len()).max().unwrap_or(0);
    for one in known() {
        let help = one.get_help().map(ToString::to_string).unwrap_or_default();
        let (name, help) = (one.get_name(), help.replace('\n', " "));
        let sentence = help.split_once(". ").map_or(help.as_str(), |(first, _)| first);
        account::print_text(&format!("{name:wide$}  {}\n", sentence.trim_end_matches('.')))?;
    }
    Err(Failure::Usage.with("give a NAME of these, a file (.toml), or --all; --help says more"))
}

/// Runs the command.
pub(crate) fn command(arguments: &ReproduceArguments) -> Result<(), Error> {
    if arguments.name.is_none() && !arguments.all {
        return list();
    }
    // Live experiments end at a signal by themselves, with what they have found.
    let is_jitter = matches!(arguments.name, Some(Subject::Known(Reproduction::LinuxJitter)));
    let has_experiments = !arguments.modelled && is_jitter;
    let progress = if has_experiments {
        signals::progress()?
    } else {
        interrupt::remove_incomplete_output()?;
        Arc::default()
    };
    let context = Context::new(&progress);
    let own = arguments.scenario.as_deref();
    let others: Vec<&Path> = own.into_iter().collect();
    let page = arguments.page.check(&others)?;
    if let Some(folder) = &arguments.figures {
        fs::create_dir_all(folder)?;
    }
    let name = match &arguments.name {
        Some(Subject::Known(name)) if !arguments.all => name.name(),
        Some(Subject::File(path)) if own.is_some() => {
            let what = format!("{}: has jobs of its own: leave out --scenario", path.display());
            return Err(Failure::Usage.with(what));
        }
        subject => {
            let (found, title) = match subject {
                Some(Subject::File(path)) => {
                    let found = reproduce_file(path, &context)?;
                    found.iter().try_for_each(|one| show(one, arguments.json))?;
                    (found, format!("{}, reproduced", path.display()))
                }
                _ => (all(arguments.json, &context)?, "The papers, reproduced".to_owned()),
            };
            match found.len() {
                _ if arguments.json => print_json(&found)?,
                1 => {}
                _ => account::print_text(&format!("\n{}", total(&found)))?,
            }
            save_figures(arguments.figures.as_deref(), &found)?;
            return page.write(|| linecard_app::reproduce::page(title, &found), check(&found));
        }
    };
    #[cfg(target_os = "linux")]
    if !arguments.modelled {
        live::check(&name, own)?;
    }
    let mut reproduced = reproduce(&name, own, &context)?;
    reproduced.report.add_config(&json!({ "modelled": arguments.modelled }));
    #[cfg(target_os = "linux")]
    if !arguments.modelled {
        live::add(&name, own, &|line| say(line), &mut reproduced.report)?;
        if is_jitter {
            live::add_path(&context, &|line| say(line), &mut reproduced.report);
            crate::jitter::reproduce(&mut reproduced.report, &context);
            reproduced.report.note(JITTER);
        }
    }
    account::print(&reproduced.report, arguments.json, None)?;
    context.go_on()?;
    let found = std::slice::from_ref(&reproduced);
    save_figures(arguments.figures.as_deref(), found)?;
    let title = format!("{name}, reproduced");
    page.write(|| linecard_app::reproduce::page(title, found), check(found))
}

#[cfg(target_os = "linux")]
const JITTER: &str = "Live figures are this host's, at this moment: they need not match the \
     paper's, whose server was dedicated hardware. Emulated conditions are produced in another \
     way; see docs/design/jitter.md.";

/// All that come with the command, models only; as text, each as soon as it is ready.
fn all(json: bool, context: &Context<'_>) -> Result<Vec<Reproduced>, Error> {
    let one = |name: &Reproduction| {
        let mut found = reproduce(&name.name(), None, context)?;
        found.report.add_config(&json!({ "modelled": true }));
        show(&found, json)?;
        Ok(found)
    };
    Reproduction::value_variants().iter().map(one).collect()
}

/// Prints one of several as text, unless all are printed as JSON.
fn show(one: &Reproduced, json: bool) -> Result<(), Error> {
    if json { Ok(()) } else { account::print(&one.report, false, None) }
}

/// Prints several as JSON by their names.
fn print_json(found: &[Reproduced]) -> Result<(), Error> {
    let mut reports = serde_json::Map::new();
    for one in found {
        let report = serde_json::to_value(&one.report).map_err(std::io::Error::from)?;
        reports.insert(one.name.clone(), report);
    }
    if found.len() > 1 {
        let sum = serde_json::to_value(total(found)).map_err(std::io::Error::from)?;
        reports.insert("total".to_owned(), sum);
    }
    account::print_json(&reports)
}

/// Writes figures as files.
fn save_figures(folder: Option<&Path>, all: &[Reproduced]) -> Result<(), Error> {
    let Some(folder) = folder else { return Ok(()) };
    for one in all {
        for (file, svg) in one.pictures()? {
            fs::write(folder.join(file), svg)?;
        }
    }
    Ok(())
}
