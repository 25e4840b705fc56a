//! `linecard coalesce` and `linecard segment`: the offloads on captures.

use crate::account;
use crate::args::{CoalesceArguments, SegmentArguments};
use crate::flags::Flags;
use crate::interrupt;
use crate::page::PageFile;
use crate::progress::{BYTES, shown};
use linecard_app::Error;
use linecard_app::offload::coalesce::{self, Coalesce};
use linecard_app::offload::segment::{self, Segment};
use linecard_app::{Context, Finished, Job, finish_with};
use std::sync::Arc;

/// Runs `linecard coalesce`.
pub(crate) fn coalesce(arguments: &CoalesceArguments) -> Result<(), Error> {
    let CoalesceArguments { input, output, flags, json, page, .. } = arguments;
    let page = page.check(&[input, output])?;
    let files =
        |config| coalesce::Config { input: input.clone(), output: output.clone(), ..config };
    account::show(run::<Coalesce>(flags, files)?, *json, Some(output), &page)
}

/// Runs `linecard segment`.
pub(crate) fn segment(arguments: &SegmentArguments) -> Result<(), Error> {
    let SegmentArguments { input, output, flags, json, .. } = arguments;
    let files = |config| segment::Config { input: input.clone(), output: output.clone(), ..config };
    account::show(run::<Segment>(flags, files)?, *json, Some(output), &PageFile::default())
}

/// Runs a job with the options that were given. `files` adds the names of files, which need not be UTF-8.
fn run<J: Job>(
    flags: &Flags<J::Config>,
    files: impl FnOnce(J::Config) -> J::Config,
) -> Result<Finished, Error> {
    let progress = Arc::default();
    let interrupt = interrupt::stop(&progress)?;
    let document = flags.document()?;
    let context = Context { progress: &progress, document: Some(&document) };
    let config = files(document.config()?);
    let finished = shown(BYTES, &progress, || finish_with::<J>(J::COMMAND, &config, &context));
    let mut finished = finished.map_err(|failure| interrupt.named(failure))?;
    finished.failure = finished.failure.map(|failure| interrupt.named(failure));
    Ok(finished)
}
