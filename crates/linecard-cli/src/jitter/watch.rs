//! `linecard jitter watch`: options, lines on stderr, and the figures.

use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use crate::log;
use crate::page::{PageArguments, PageFile};
use crate::say;
use crate::signals;
use clap::Args;
use linecard_app::attach::Observer;
use linecard_app::jitter::watch::{self, Config};
use linecard_app::{Error, Level};
use linecard_report::{Page, Report};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = all_exit_codes())]
pub(crate) struct WatchArguments {
    #[command(flatten)]
    flags: Flags<Config>,
    #[command(flatten)]
    page: PageArguments,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &WatchArguments) -> Result<(), Error> {
    let events = arguments.flags.value("events").map(|name| [name.to_owned(), format!("{name}.1")]);
    let events: Vec<&Path> = events.iter().flatten().map(Path::new).collect();
    let page = arguments.page.check(&events)?;
    let wanted = signals::statistics_wanted()?;
    let mut show = Show { wanted, json: arguments.json, page: &page };
    let finished = arguments
        .flags
        .until_signal(|config: &Config, context| watch::run(config, context, &mut show))?;
    account::show(finished, arguments.json, None, &page)
}

/// Lines on stderr, and figures on stdout.
struct Show<'a> {
    /// Set by a signal that asks for the figures so far.
    wanted: Arc<AtomicBool>,
    json: bool,
    page: &'a PageFile,
}

impl Observer for Show<'_> {
    fn say(&mut self, level: Level, line: &str) {
        log::write(level, line);
    }

    fn wants_statistics(&mut self) -> bool {
        self.wanted.swap(false, Ordering::Relaxed)
    }

    fn statistics(&mut self, report: &Report) {
        // An error of stdout is reported when the figures are printed there at the end.
        drop(account::print(report, self.json, None));
    }

    fn page(&mut self, page: Page) {
        if let Err(error) = self.page.write(|| page, Ok(())) {
            say(&error.to_string());
        }
    }
}
