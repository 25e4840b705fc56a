//! Captures that jobs read and write.

use crate::error::Kind;
use crate::{Context, Error, Failure};
use linecard_io::capture::{CaptureError, Compression, Lost, OutputFile, decompressed};
use linecard_io::convert::Unknown;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a capture; `-` is the standard input. The context expects its bytes, and reading fails once the job is
/// cancelled.
///
/// # Errors
///
/// A file that cannot be opened, or is a folder.
pub fn open(path: &Path, context: &Context<'_>) -> Result<Box<dyn Read>, Error> {
    if path == Path::new("-") {
        return Ok(decompressed(io::stdin().lock()));
    }
    Ok(decompressed(context.input(file(path, context)?)))
}

/// The same for a conversion, whose input ends once the job is cancelled, so that it has statistics of what was read.
///
/// # Errors
///
/// As [`open`].
pub fn open_until_stopped(path: &Path, context: &Context<'_>) -> Result<Box<dyn Read>, Error> {
    let refuse = |source| Error::Open { path: path.into(), source };
    if path == Path::new("-") {
        // A copy of the descriptor: what `Stdin` has buffered cannot be waited for.
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(refuse)?;
        return Ok(decompressed(context.input_until_stopped(File::from(stdin))));
    }
    Ok(decompressed(context.input_until_stopped(file(path, context)?)))
}

/// Opens a file, whose bytes the context expects; not those of a compressed one, since it is told of others.
fn file(path: &Path, context: &Context<'_>) -> Result<File, Error> {
    let refuse = |source| Error::Open { path: path.into(), source };
    let file = File::open(path).map_err(refuse)?;
    let metadata = file.metadata().ok();
    if metadata.as_ref().is_some_and(std::fs::Metadata::is_dir) {
        return Err(refuse(io::ErrorKind::IsADirectory.into()));
    }
    let mut start = [0; 4];
    let read = file.read_at(&mut start, 0).unwrap_or(0);
    if Compression::of_start(&start[..read]) == Compression::None {
        context.progress.expect(metadata.map_or(0, |metadata| metadata.len()) as usize);
    }
    Ok(file)
}

/// Opens the output, which must not be the input.
///
/// # Errors
///
/// A file that cannot be written, or is the input.
pub fn create(input: &Path, output: &Path) -> Result<OutputFile, Error> {
    OutputFile::create_capture(output, &[input]).map_err(|source| Error::of_capture(input, source))
}

/// Whether a path names the standard output: a report would end up among the data there.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(Path::new).contains(&path)
}

/// A conversion that was stopped, or that could not follow any packet.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum ConversionError {
    #[error("nothing was read or written")]
    Nothing,
    #[error("{} has the packets read until then", output.display())]
    Part { output: PathBuf },
    #[error("{} was not written (--keep-partial writes the packets read until then)", output.display())]
    NotWritten { output: PathBuf },
    #[error("{input}: {}", passed_unchanged(links))]
    UnknownLinks { input: String, links: Unknown },
}

impl Kind for ConversionError {
    fn failure(&self) -> Failure {
        match self {
            Self::UnknownLinks { .. } => Failure::UnknownLink,
            _ => Failure::Stopped,
        }
    }
}

/// Why a conversion has no outcome, if that is because it was cancelled before it had read anything.
pub(crate) fn stopped(context: &Context<'_>) -> Option<Error> {
    context.progress.is_stopped().then(|| ConversionError::Nothing.into())
}

/// Completes the output of a conversion, or removes it if the job was cancelled and the user does not want the part.
/// Returns the state of the incomplete file in the latter case.
pub(crate) fn complete(
    writer: OutputFile,
    output: &Path,
    keeps_part: bool,
    context: &Context<'_>,
) -> Result<Option<ConversionError>, CaptureError> {
    if !context.progress.is_stopped() {
        return writer.commit().map(|()| None);
    }
    let output = output.to_owned();
    if keeps_part {
        writer.commit()?;
        return Ok(Some(ConversionError::Part { output }));
    }
    drop(writer);
    Ok(Some(ConversionError::NotWritten { output }))
}

/// Notes of a conversion on its input and output, beside its figures.
#[derive(Debug, Clone, Default)]
pub(crate) struct Remarks {
    /// The input as the user named it.
    pub(crate) input: String,
    pub(crate) packets_in: u64,
    /// Packets of which the capture has only the first bytes, and how many bytes.
    pub(crate) truncated: u64,
    pub(crate) snap_len: usize,
    /// Of these packets, those that were examined by their headers.
    pub(crate) by_headers: u64,
    /// Operations that are impossible on a truncated packet.
    pub(crate) cannot: &'static str,
    /// Properties that the output's format cannot hold.
    pub(crate) lost: Lost,
    /// Link types that are not known, with packets.
    pub(crate) unknown: Unknown,
    /// Why reading ended early.
    pub(crate) damage: Option<Arc<CaptureError>>,
    /// The state of the output if the job was cancelled.
    pub(crate) stopped: Option<ConversionError>,
}

impl Remarks {
    /// The note on packets that were captured only in part.
    pub(crate) fn truncated(&self) -> Option<String> {
        let Self { truncated, by_headers, snap_len, packets_in, cannot, .. } = self;
        if *truncated == 0 {
            return None;
        }
        let mut text = format!(
            "{truncated} of {packets_in} packets were cut short by the capture's snap length of {snap_len} \
             bytes."
        );
        if *by_headers > 0 {
            text += &format!(
                " {by_headers} of them were examined by their headers: the figures are those of whole packets \
                 whose checksums are right. In the output they are unchanged, since their payload \
                 is incomplete."
            );
        }
        if by_headers < truncated {
            text += &format!(
                " {} of them cannot be {cannot}, since the bytes for that are missing.",
                truncated - by_headers
            );
        }
        Some(text + " Capture whole packets: `tcpdump -s 0`.")
    }

    /// The notes on what the output lacks, and on packets that were not followed.
    pub(crate) fn notes(&self) -> impl Iterator<Item = String> {
        let Lost { blocks, options, timestamps } = self.lost;
        let lost = (blocks + options + timestamps > 0).then(|| {
            format!(
                "The output is pcap, which cannot hold {blocks} blocks, {options} options and \
                 {timestamps} timestamps of the input; name it .pcapng to keep them."
            )
        });
        let stopped = self.stopped.is_some().then(|| {
            format!(
                "Stopped before the end of the input: the figures cover the {} packets that were \
                 read.",
                self.packets_in
            )
        });
        stopped.into_iter().chain(lost).chain(self.unknown())
    }

    fn unknown(&self) -> Option<String> {
        (!self.unknown.is_empty()).then(|| passed_unchanged(&self.unknown))
    }

    /// Refuses a damaged input, and one without any packet that could be followed.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(error) = &self.stopped {
            return Err(error.clone().into());
        }
        let input = self.input.clone();
        if let Some(damage) = &self.damage {
            return Err(Error::Damaged { input, damage: Arc::clone(damage) });
        }
        let packets: u64 = self.unknown.values().sum();
        if self.unknown.is_empty() || packets != self.packets_in {
            return Ok(());
        }
        Err(ConversionError::UnknownLinks { input, links: self.unknown.clone() }.into())
    }
}

/// The note about packets of unknown link types.
fn passed_unchanged(unknown: &Unknown) -> String {
    let list = unknown.iter();
    let one = |(link, packets): (&u32, &u64)| match packets {
        1 => format!("link type {link} (1 packet)"),
        packets => format!("link type {link} ({packets} packets)"),
    };
    let list: Vec<String> = list.map(one).collect();
    format!(
        "{} passed unchanged; supported are 0, 1, 101, 108, 113, 228, 229, 276: loopback, \
         Ethernet, raw IP, Linux cooked",
        list.join(", ")
    )
}
