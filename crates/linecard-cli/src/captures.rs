//! `linecard coalesce` and `linecard segment`: the offloads on captures.

use crate::args::{CoalesceArguments, SegmentArguments};
use crate::failure::Failure;
use crate::flags::Flags;
use crate::page::PageFile;
use crate::progress::{BYTES, shown};
use crate::{found, interrupt};
use linecard::watch::Watch;
use linecard_app::offload::coalesce::{self, Coalesce};
use linecard_app::offload::segment::{self, Segment};
use linecard_app::{Context, Finished, Job, finish_with};
use std::sync::Arc;

/// Runs `linecard coalesce`.
pub(crate) fn coalesce(arguments: &CoalesceArguments) -> Result<(), Failure> {
    let (input, output) = (&arguments.input, &arguments.output);
    let page = arguments.page.check(&[input, output])?;
    interrupt::remove_incomplete_output()?;
    let progress = Arc::default();
    let finished = shown(BYTES, &progress, || find_coalesced(arguments, &progress))?;
    found::show(finished, arguments.json, Some(output), &page)
}

/// Merges the packets of a capture.
pub(crate) fn find_coalesced(
    arguments: &CoalesceArguments,
    progress: &Arc<Watch>,
) -> Result<Finished, Failure> {
    let CoalesceArguments { input, output, flags, .. } = arguments;
    let files =
        |config| coalesce::Config { input: input.clone(), output: output.clone(), ..config };
    find::<Coalesce>(flags, files, progress)
}

/// Runs `linecard segment`.
pub(crate) fn segment(arguments: &SegmentArguments) -> Result<(), Failure> {
    interrupt::remove_incomplete_output()?;
    let progress = Arc::default();
    let finished = shown(BYTES, &progress, || find_segmented(arguments, &progress))?;
    found::show(finished, arguments.json, Some(&arguments.output), &PageFile::default())
}

/// Cuts the packets of a capture.
pub(crate) fn find_segmented(
    arguments: &SegmentArguments,
    progress: &Arc<Watch>,
) -> Result<Finished, Failure> {
    let SegmentArguments { input, output, flags, .. } = arguments;
    let files = |config| segment::Config { input: input.clone(), output: output.clone(), ..config };
    find::<Segment>(flags, files, progress)
}

/// Runs a job with the options that were given. `files` adds the names of files, which need not be UTF-8.
fn find<J: Job>(
    flags: &Flags<J::Config>,
    files: impl FnOnce(J::Config) -> J::Config,
    progress: &Arc<Watch>,
) -> Result<Finished, Failure> {
    let document = flags.document()?;
    let context = Context { progress, document: Some(&document) };
    finish_with::<J>(J::COMMAND, &files(document.config()?), &context)
}
