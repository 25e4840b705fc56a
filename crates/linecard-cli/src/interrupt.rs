//! Ctrl-C while a file is being written: the incomplete file is removed, and a line says so.

use linecard::progress::Progress;
use linecard_app::{Error, Failure};
use linecard_io::capture::{Incomplete, OutputFile};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const SIGNALS: [(i32, &str); 3] =
    [(SIGINT, "SIGINT (Ctrl-C)"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// In place of an index of [`SIGNALS`]: none has come.
const NONE: usize = usize::MAX;

/// How long a conversion that was told to stop may take to give its account: it has 32 MB to write at most.
const PATIENCE: Duration = Duration::from_secs(10);

/// The signal that ended a conversion.
#[derive(Debug)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// The failure of a job that was cancelled, with the signal; others as they are.
    pub(crate) fn named(&self, failure: Error) -> Error {
        if failure.failure() != Some(Failure::Stopped) {
            return failure;
        }
        match SIGNALS.get(self.0.load(Ordering::Relaxed)) {
            Some((_, signal)) => {
                Failure::Stopped.with(format!("stopped by {signal} before the end; {failure}"))
            }
            None => failure,
        }
    }
}

/// From now on a signal cancels a conversion by its progress, so that it ends with its statistics. A job that has not
/// ended after [`PATIENCE`] ends as by [`remove_incomplete_output`].
pub(crate) fn stop(progress: &Arc<Progress>) -> Result<Interrupt, Error> {
    let progress = Arc::clone(progress);
    let which = at_signal(move || {
        progress.stop();
        thread::sleep(PATIENCE);
    })?;
    Ok(Interrupt(which))
}

/// From now on a signal removes output that is not complete, says so in a line, and ends the process
/// with the documented code; a second one ends it at once. For commands that write files, before their job: signals of
/// a program that calls jobs belong to it.
pub(crate) fn remove_incomplete_output() -> Result<(), Error> {
    at_signal(|| {}).map(drop)
}

/// At a signal, does something first. Returns which signal that was.
fn at_signal(first: impl FnOnce() + Send + 'static) -> Result<Arc<AtomicUsize>, Error> {
    let (mut woken, wake) = UnixStream::pair()?;
    let (asked, which) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(NONE)));
    for (index, (signal, _)) in SIGNALS.into_iter().enumerate() {
        if is_ignored(signal) {
            continue;
        }
        let code = Failure::Stopped.code().into();
        // The first, from which on the signal ends nothing by itself: one that comes before the last is seen below.
        flag::register_usize(signal, Arc::clone(&which), index)?;
        flag::register_conditional_shutdown(signal, code, Arc::clone(&asked))?;
        flag::register(signal, Arc::clone(&asked))?;
        pipe::register(signal, wake.try_clone()?)?;
    }
    let told = Arc::clone(&which);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if which.load(Ordering::Relaxed) != NONE || woken.read_exact(&mut [0]).is_ok() {
            first();
            // Nothing takes its final name while this is held.
            let removed = OutputFile::remove_incomplete();
            crate::say(&text(SIGNALS[which.load(Ordering::Relaxed)].1, removed.files()));
            process::exit(Failure::Stopped.code().into());
        }
    })?;
    Ok(told)
}

/// Under `nohup`, SIGHUP stays ignored, and so does SIGINT in the background of a script.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

fn text(signal: &str, files: &[Incomplete]) -> String {
    let mut text = format!("stopped by {signal} before the end");
    for Incomplete { output, partial, left } in files {
        let (output, partial) = (output.display(), partial.display());
        text += &match left {
            None => format!("; {output} was not written, and its incomplete file is removed"),
            Some(error) => format!("; {output} was not written: remove {partial} ({error})"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_became_of_every_file() {
        let file =
            |left| Incomplete { output: "out".into(), partial: "out.a.partial".into(), left };
        assert_eq!(text("SIGTERM", &[]), "stopped by SIGTERM before the end");
        let all = text("SIGINT", &[file(None), file(Some(std::io::ErrorKind::NotFound.into()))]);
        assert_eq!(
            all,
            "stopped by SIGINT before the end; out was not written, and its incomplete file is \
             removed; out was not written: remove out.a.partial (entity not found)"
        );
    }
}
