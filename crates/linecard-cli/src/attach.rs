//! `linecard attach`: options, the live view, and lines of JSON.

mod lines;
mod view;

use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::flags::Flags;
use crate::page::PageArguments;
use crate::say;
use clap::Args;
use linecard_app::attach::{self, Config, Observer, Rates};
use linecard_io::attach::PortSpec;
use linecard_report::Report;
use lines::Lines;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use view::View;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = EXIT_CODES)]
pub(crate) struct AttachArguments {
    #[command(flatten)]
    flags: Flags<Config>,
    #[command(flatten)]
    page: PageArguments,
    /// Print a line of JSON for each interval, and the statistics as the last one.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &AttachArguments) -> Result<(), Failure> {
    arguments.flags.until_signal(|config: &Config, context| {
        let settings = config.settings()?;
        let captures: Vec<&Path> =
            [&settings.near, &settings.far].into_iter().filter_map(PortSpec::file).collect();
        let page = arguments.page.check(&captures)?;
        let files: Vec<PathBuf> = page.files().map(Path::to_owned).collect();
        let output = settings.far.file();
        let mut show = Show::of(arguments.json, output);
        let finished = attach::run(config, context, &files, &mut show)?;
        show.last(&finished.report, output)?;
        page.write(|| finished.page, finished.failure.map_or(Ok(()), Err))
    })
}

/// How rates are shown.
enum Show {
    Lines(Lines<Box<dyn Write>>),
    View(View),
    /// Only the statistics, at the end.
    Nothing,
}

impl Show {
    fn of(json: bool, output: Option<&Path>) -> Self {
        if !json {
            return View::on_terminal().map_or(Self::Nothing, Self::View);
        }
        // As for captures: what is not data goes to stderr when data goes to stdout.
        let is_data = output == Some(Path::new("-"));
        Self::Lines(Lines::new(if is_data {
            Box::new(io::stderr())
        } else {
            Box::new(io::stdout())
        }))
    }

    fn last(&mut self, report: &Report, output: Option<&Path>) -> Result<(), Failure> {
        match self {
            Self::Lines(lines) => Ok(lines.last(report)?),
            _ => account::print(report, false, output),
        }
    }
}

impl Observer for Show {
    fn say(&mut self, line: &str) {
        say(line);
    }

    fn interval(&mut self, rates: &Rates, elapsed: Duration) {
        match self {
            // An error of stdout is reported when the statistics are printed there.
            Self::Lines(lines) => drop(lines.interval(elapsed.as_secs_f64(), rates)),
            Self::View(view) => view.show(rates, elapsed),
            Self::Nothing => {}
        }
    }
}
