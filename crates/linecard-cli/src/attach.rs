//! `linecard attach`: options, the live view, and lines of JSON.

mod lines;
mod view;

use crate::account;
use crate::codes::exit_codes;
use crate::flags::Flags;
use crate::log::{self, LogFormat};
use crate::page::PageArguments;
use crate::signals;
use clap::Args;
use linecard_app::attach::{self, Config, Observer, Rates};
use linecard_app::{Error, Level};
use linecard_io::attach::PortSpec;
use linecard_report::Report;
use lines::Lines;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use view::View;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = exit_codes(&[0, 1, 2, 3, 4, 6, 7, 8, 12, 130]))]
pub(crate) struct AttachArguments {
    #[command(flatten)]
    flags: Flags<Config>,
    #[command(flatten)]
    page: PageArguments,
    /// Print a line of JSON for each interval, and the statistics as the last one.
    #[arg(long)]
    json: bool,
    /// Form of the lines on stderr.
    #[arg(long, value_name = "FORM", value_enum, default_value_t = LogFormat::Auto, hide_default_value = true)]
    log: LogFormat,
}

/// Runs the command.
pub(crate) fn command(arguments: &AttachArguments) -> Result<(), Error> {
    arguments.log.set();
    let wanted = signals::statistics_wanted()?;
    arguments.flags.until_signal(|config: &Config, context| {
        let settings = config.settings()?;
        let captures: Vec<&Path> =
            [&settings.near, &settings.far].into_iter().filter_map(PortSpec::file).collect();
        let page = arguments.page.check(&captures)?;
        let files: Vec<PathBuf> = page.files().map(Path::to_owned).collect();
        let output = settings.far.file();
        let kind = Kind::of(arguments.json, output);
        let mut show = Show { kind, wanted, output };
        let finished = attach::run(config, context, &files, &mut show)?;
        show.last(&finished.report)?;
        page.write(|| finished.page, finished.failure.map_or(Ok(()), Err))
    })
}

/// How rates are shown.
enum Kind {
    Lines(Lines<Box<dyn Write>>),
    View(View),
    /// Only the statistics, at the end.
    Nothing,
}

/// Shows what happens, and the statistics.
struct Show<'p> {
    kind: Kind,
    /// Set by a signal that asks for the statistics so far.
    wanted: Arc<AtomicBool>,
    /// The capture that is written.
    output: Option<&'p Path>,
}

impl Kind {
    fn of(json: bool, output: Option<&Path>) -> Self {
        if !json {
            return View::on_terminal().map_or(Self::Nothing, Self::View);
        }
        // As for captures: other output goes to stderr when data goes to stdout.
        let is_data = output == Some(Path::new("-"));
        Self::Lines(Lines::new(if is_data {
            Box::new(io::stderr())
        } else {
            Box::new(io::stdout())
        }))
    }
}

impl Show<'_> {
    fn last(&mut self, report: &Report) -> Result<(), Error> {
        match &mut self.kind {
            Kind::Lines(lines) => Ok(lines.last(report)?),
            _ => account::print(report, false, self.output),
        }
    }
}

impl Observer for Show<'_> {
    fn say(&mut self, level: Level, line: &str) {
        log::write(level, line);
    }

    fn interval(&mut self, rates: &Rates, elapsed: Duration) {
        match &mut self.kind {
            // An error of stdout is reported when the statistics are printed there.
            Kind::Lines(lines) => drop(lines.interval(elapsed.as_secs_f64(), rates)),
            Kind::View(view) => view.show(rates, elapsed),
            Kind::Nothing => {}
        }
    }

    fn wants_statistics(&mut self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }

    fn statistics(&mut self, report: &Report) {
        match &mut self.kind {
            Kind::Lines(lines) => drop(lines.statistics(report)),
            // As for intervals.
            _ => drop(account::print(report, false, self.output)),
        }
    }
}
