//! `linecard send`: a file, a folder or a pipe to another host.

use super::bar::Bar;
use crate::account;
use crate::codes::exit_codes;
use crate::flags::Flags;
use crate::say;
use crate::signals;
use clap::Args;
use linecard::progress::Progress;
use linecard_app::transfer::keys::Fingerprint;
use linecard_app::transfer::send::{
    Config, Observer, ProgressLines, Resolved, SendJob, SendOutcome, send,
};
use linecard_app::transfer::{Failed, Peer};
use linecard_app::{Context, Job, finished_with};
use linecard_app::{Error, Failure};
use linecard_config::Parsed;
use linecard_transfer_net::send::SendProgress;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most bytes of a line with a pairing code.
const MAX_LINE_BYTES: u64 = 1_000;
/// How often is looked whether to end before anything has begun.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(after_long_help = exit_codes(&[0, 1, 2, 5, 6, 14, 15, 16, 17, 130]))]
#[command(override_usage = "linecard send [OPTIONS] <PATH>... <PEER>")]
pub(crate) struct SendArguments {
    /// Files, folders with their contents, - for stdin, `s3://BUCKET/KEY` for an object of an object store or those below
    /// it, or test:SIZE, as test:2G: that many bytes from memory, which the receiver discards (write ./test:2G for a file
    /// of that name); the last three alone.
    /// Behind them PEER, where `linecard recv` runs: a name of the file of hosts, another name or an address, with :PORT if
    /// it is not 4780; or HOST:DIR, USER@HOST:DIR, to have it started there by ssh with a key for once.
    // One list: with two, options could not stand between paths and PEER.
    #[arg(value_name = "PATH", required = true)]
    inputs_and_peer: Vec<PathBuf>,
    #[command(flatten)]
    flags: Flags<Config>,
    /// Print the statistics as JSON, also if the transfer is incomplete.
    #[arg(long)]
    json: bool,
    /// Print the progress each second as a line of JSON on stderr, in place of a bar: bytes, rate, time left, lanes.
    #[arg(long)]
    progress: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &SendArguments) -> Result<(), Error> {
    let document = arguments.flags.document()?;
    let (inputs, peer) = arguments.inputs_and_peer()?;
    let config = Config { inputs, peer: Parsed(peer), ..document.config()? };
    let Resolved { config, document, line } = config.with_host(Some(&document))?;
    let progress = signals::progress()?;
    let context = Context { progress: &progress, document: Some(&document) };
    let mut shown = Shown::new(Arc::clone(&progress), config.inputs == [Path::new("-")]);
    shown.lines = arguments.progress.then(ProgressLines::default);
    line.iter().for_each(|line| shown.line(line));
    let result = send(&config, &context, &mut shown);
    shown.bar.done();
    let print = |outcome: &SendOutcome| {
        let finished = finished_with::<SendJob>(SendJob::COMMAND, &config, &context, outcome);
        match arguments.json && config.dry_run {
            true => account::print_line(&finished.report),
            false => account::print(&finished.report, arguments.json, None),
        }
    };
    match result {
        Ok(outcome) => {
            outcome.not_sent().iter().for_each(|line| say(line));
            for step in &outcome.steps {
                match arguments.json {
                    true => account::print_line(step)?,
                    false if step.is_change() => account::print_text(&format!("{step}\n"))?,
                    false => {}
                }
            }
            print(&outcome)?;
            outcome.missing().iter().for_each(|line| say(line));
            SendJob::check(&outcome)
        }
        Err(Failed { error, outcome }) => {
            if let Some(outcome) = outcome.filter(|_| arguments.json) {
                print(&outcome)?;
            }
            Err(context.placed(error))
        }
    }
}

impl SendArguments {
    fn inputs_and_peer(&self) -> Result<(Vec<PathBuf>, Peer), Error> {
        let Some((peer, inputs @ [_, ..])) = self.inputs_and_peer.split_last() else {
            let what = "name what to send, and behind it where `linecard recv` runs: PATH... PEER";
            return Err(Failure::Usage.with(what));
        };
        if peer.to_string_lossy().starts_with("s3://") {
            let what = "PEER: a receiver stores objects: run `linecard recv s3://...` near the store, and name that host";
            return Err(Failure::Usage.with(what));
        }
        let peer = peer.to_string_lossy().parse::<Peer>();
        let peer = peer.map_err(|error| Failure::Usage.with(format!("PEER: {error}")))?;
        Ok((inputs.to_vec(), peer))
    }
}

/// A bar, notes about lanes, and the question about a new key.
#[derive(Debug)]
struct Shown {
    bar: Bar,
    begun: Arc<AtomicBool>,
    /// A command logs in at the receiver's host, which is to be ended first.
    login: Arc<AtomicBool>,
    /// The data is read from stdin.
    is_data: bool,
    /// In place of the bar.
    lines: Option<ProgressLines>,
}

impl Shown {
    /// Until it has begun, there is nothing to be put in order when the user ends it.
    fn new(stop: Arc<Progress>, is_data: bool) -> Self {
        let begun = Arc::new(AtomicBool::new(false));
        let login = Arc::new(AtomicBool::new(false));
        let (has_begun, is_logging_in) = (Arc::clone(&begun), Arc::clone(&login));
        std::thread::spawn(move || {
            loop {
                // Looked at first: what has begun before the signal ends in order.
                let is_stopped = stop.is_stopped();
                if has_begun.load(Ordering::SeqCst) {
                    return;
                }
                if is_stopped && !is_logging_in.load(Ordering::Relaxed) {
                    say("stopped before anything was sent");
                    std::process::exit(Failure::Stopped.code().into());
                }
                std::thread::sleep(LOOK);
            }
        });
        Self { bar: Bar::new(), begun, login, is_data, lines: None }
    }
}

impl Observer for Shown {
    fn line(&mut self, text: &str) {
        self.bar.say(text);
    }

    fn login(&mut self, is_running: bool) {
        self.login.store(is_running, Ordering::Relaxed);
    }

    fn progress(&mut self, progress: &SendProgress) {
        self.begun.store(true, Ordering::SeqCst);
        if let Some(lines) = &mut self.lines {
            if let Some(line) = lines.next(progress) {
                account::say_line(&line);
            }
            return;
        }
        let lanes = progress.lanes.iter().map(|lane| lane.socket.sent_bytes);
        self.bar.show(progress.there_bytes(), progress.total_bytes, lanes);
    }

    fn is_right(&mut self, peer: &Peer, key: Fingerprint) -> bool {
        let (stdin, mut stderr) = (io::stdin(), io::stderr());
        if self.is_data || !stdin.is_terminal() || !stderr.is_terminal() {
            return false;
        }
        let question = format!(
            "The key of {peer} is not known. Its fingerprint is\n  {key}\nIs that what `linecard recv` \
             prints there? [y/N] "
        );
        let mut answer = String::new();
        let asked = stderr.write_all(question.as_bytes());
        asked.and_then(|()| stdin.lock().read_line(&mut answer)).is_ok()
            && matches!(answer.trim(), "y" | "Y" | "yes")
    }

    fn pairing_code(&mut self) -> io::Result<String> {
        let (stdin, mut stderr) = (io::stdin(), io::stderr());
        if stdin.is_terminal() {
            stderr.write_all(b"Pairing code, as `linecard recv --pair` shows it there: ")?;
        }
        let mut code = String::new();
        stdin.lock().take(MAX_LINE_BYTES).read_line(&mut code)?;
        Ok(code)
    }
}
