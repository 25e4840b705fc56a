//! Experiments and streams on this host, and pages of kept results.

use super::JitterArguments;
use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use crate::page::{self, PageArguments, PageFile};
use crate::signals;
use clap::Args;
use linecard_app::Context;
use linecard_app::jitter::record::{self, Record, RunRecords};
use linecard_app::jitter::{lab, trace};
use linecard_app::{Error, Failure};
use linecard_report::{Page, Report, Target};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct RunArguments {
    #[command(flatten)]
    flags: Flags<lab::Config>,
    #[command(flatten)]
    shown: ShownArguments,
}

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct TraceArguments {
    #[command(flatten)]
    flags: Flags<trace::Config>,
    #[command(flatten)]
    shown: ShownArguments,
}

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct ReportArguments {
    /// Folder with the results of `linecard jitter run --output`.
    folder: PathBuf,
    /// Folder of another run, which is compared with the first: experiments that both have.
    second: Option<PathBuf>,
    /// The page to write [default: report.html in the first folder, compared.html with a second].
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// How results are shown.
#[derive(Debug, Args)]
struct ShownArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    page: PageArguments,
}

impl ShownArguments {
    /// Prints for people only.
    fn print(&self, text: &str) -> Result<(), Error> {
        if self.json { Ok(()) } else { account::print_text(text) }
    }

    /// JSON, page and verdict.
    fn finish(&self, title: &str, records: &[Record], page: &PageFile) -> Result<(), Error> {
        if self.json {
            account::print_json(&records)?;
        }
        let verdict = lab::verdict(records);
        if records.is_empty() {
            return verdict;
        }
        page.write(|| record::page(title, records), verdict)
    }
}

/// Runs `linecard jitter run`: results are printed one by one.
pub(crate) fn run(RunArguments { flags, shown }: &RunArguments) -> Result<(), Error> {
    let page = shown.page.check(&[])?;
    let mut between = "";
    let results = flags.until_signal(|config, context| {
        lab::run(config, context, &mut |record| {
            shown.print(&format!("{between}{}", record::screen(record)))?;
            between = "\n";
            Ok(())
        })
    })?;
    if let Some(missing) = &results.missing {
        shown.print(&record::folded(missing))?;
    }
    shown.finish("Jitter of this host", &results.records, &page)
}

/// Runs `linecard jitter trace`.
pub(crate) fn trace(TraceArguments { flags, shown }: &TraceArguments) -> Result<(), Error> {
    let page = shown.page.check(&[])?;
    flags.until_signal(|config, context| {
        if config.cost.0 {
            let report = trace::cost(config)?;
            account::print(&report, shown.json, None)?;
            return page.write(|| of_report("Cost of tracing", &report), Ok(()));
        }
        let record = trace::run(config, context)?;
        shown.print(&record::screen(&record))?;
        shown.finish("A stream on this host, traced", &[record], &page)
    })
}

/// Runs `linecard jitter`, without a word: this host as it is.
pub(crate) fn first_look(
    JitterArguments { json, page, .. }: &JitterArguments,
) -> Result<(), Error> {
    let page = page.check(&[])?;
    let Some(record) = lab::first_look(&Context::new(&signals::progress()?))? else {
        return lab::verdict(&[]);
    };
    let records = std::slice::from_ref(&record);
    let finish =
        || page.write(|| record::page("Jitter of this host", records), lab::verdict(records));
    if *json {
        account::print_json(&records)?;
        return finish();
    }
    let headline = record::folded(&record::headline(records));
    let next = record::folded(
        "linecard jitter run --all --report FILE shows each source by itself; linecard jitter \
         audit lists the settings of this host.",
    );
    account::print_text(&format!("{headline}\n{}\n{next}", record::screen(&record)))?;
    finish()
}

/// A page of one report.
pub(super) fn of_report(title: &str, report: &Report) -> Page {
    let mut page = Page::new(title);
    page.summary(report);
    page
}

/// Adds all experiments to a report: the paper's figure and this host's.
pub(crate) fn reproduce(report: &mut Report, context: &Context<'_>) {
    lab::reproduce(report, context);
}

/// Runs `linecard jitter report`.
pub(crate) fn report(arguments: &ReportArguments, is_json: bool) -> Result<(), Error> {
    let records = lab::kept(&arguments.folder)?;
    let second =
        arguments.second.as_ref().map(|folder| Ok::<_, Error>((folder, lab::kept(folder)?)));
    let second = second.transpose()?;
    let name = if second.is_some() { "compared.html" } else { "report.html" };
    let path = arguments.report.clone().unwrap_or_else(|| arguments.folder.join(name));
    let target = Target::new(&path).map_err(|error| Failure::Usage.with(error))?;
    let mut page = match &second {
        None => record::page("Jitter of this host", &records),
        Some((folder, others)) => {
            let names = [&arguments.folder, folder].map(|folder| folder.display().to_string());
            let runs = [
                RunRecords { name: &names[0], records: &records },
                RunRecords { name: &names[1], records: others },
            ];
            record::compare("Two runs compared", runs)
        }
    };
    target.write(page.origin(page::origin()))?;
    if is_json {
        return match &second {
            None => account::print_json(&records),
            Some((_, others)) => account::print_json(&[&records, others]),
        };
    }
    account::print_text(&format!("{}\n", target.html().display()))
}
