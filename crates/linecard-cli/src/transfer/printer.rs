//! Statistics of a receiver that goes on: whether somebody reads them or not, it receives.

use crate::account;
use crate::say;
use linecard_report::Report;
use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::Duration;

/// Reports that wait while nobody reads: as many as transfers may run at once.
const MAX_WAITING: usize = 64;
/// How long those that wait are waited for at the end.
const END: Duration = Duration::from_secs(2);

/// Hands reports to a thread that prints them to stdout.
#[derive(Debug)]
pub(super) struct Printer(SyncSender<Report>);

/// The thread.
#[derive(Debug)]
pub(super) struct Printing(Receiver<()>);

impl Printer {
    /// Starts the thread.
    pub(super) fn start(json: bool) -> io::Result<(Self, Printing)> {
        let (reports, waiting) = mpsc::sync_channel(MAX_WAITING);
        let (ending, ended) = mpsc::sync_channel::<()>(0);
        // Not joined: it may wait for a reader when the process ends.
        thread::Builder::new().name("printer".into()).spawn(move || {
            let _ending = ending;
            waiting.iter().for_each(|report| print(&report, json));
        })?;
        Ok((Self(reports), Printing(ended)))
    }

    /// Has a report printed, unless too many wait.
    pub(super) fn print(&self, report: Report) {
        if let Err(TrySendError::Full(_)) = self.0.try_send(report) {
            say("the statistics of a transfer are left out: stdout is not read");
        }
    }
}

impl Printing {
    /// Waits until all is printed that was handed over, but not for somebody who does not read.
    pub(super) fn end(self) {
        let _ended = self.0.recv_timeout(END);
    }
}

fn print(report: &Report, json: bool) {
    if let Err(error) = account::print(report, json, None) {
        say(&error.to_string());
    }
}
