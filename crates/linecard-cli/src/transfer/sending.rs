//! `linecard send`: a file, a folder or a pipe to another host.

use super::access::{self, AccessArguments};
use super::bar::Bar;
use super::ending;
use super::place::Peer;
use super::report;
use super::values;
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::mode::ModeName;
use crate::say;
use crate::signals::signals;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use linecard_transfer::fec::Scheme;
use linecard_transfer_net::control::{Access, ControlError, Policy, Trust};
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::file::{ChunkBytes, Input};
use linecard_transfer_net::keys::{Fingerprint, KnownPeers};
use linecard_transfer_net::lane::Spec;
use linecard_transfer_net::send::{SendError, SendOptions, SendProgress, Sent, send};
use std::io::{BufRead, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often is looked whether to end before anything has begun.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct SendArguments {
    /// A file, a folder with all in it, - for stdin, or test:SIZE, as test:2G: so many bytes from memory,
    /// which the receiver drops (a file of such a name is ./test:2G).
    #[arg(value_name = "PATH", value_parser = OsStringValueParser::new().try_map(values::input))]
    input: Input,
    /// Where `linecard recv` runs: a name or an address, with :PORT if it is not 4780.
    #[arg(value_name = "PEER")]
    peer: Peer,
    /// A lane from here to the receiver, once for each: an interface or an address of this host, as
    /// eth1, 10.0.0.1:7000, tcp:10.0.0.1; behind it ,rate=200M (bit/s, if it is known and ours alone)
    /// and ,shared=NAME (lanes of one name share a bottleneck) [default: one, over UDP].
    #[arg(long = "lane", value_name = "LANE")]
    pub(super) lanes: Vec<Spec>,
    /// How chunks are spread over lanes: whole (stable), in parts over all (low-latency), or by how much
    /// there is to send (auto).
    #[arg(long, value_name = "MODE", default_value = "auto")]
    mode: ModeName,
    /// What repairs lost packets without sending again: none, xor:K (one for K), rs:K,M (M for K), or
    /// duplicate.
    #[arg(long, value_name = "SCHEME", default_value = "none")]
    pub(super) fec: Scheme,
    /// Rate of each lane that says none, in bit/s, as 200M [default: as much as gets through].
    #[arg(long, value_name = "RATE", value_parser = values::rate)]
    pub(super) rate: Option<u64>,
    /// Data bytes of a packet, 512 to 65467 [default: the most of 8896, 4096 and 1408 that fits].
    #[arg(long, value_name = "BYTES", value_parser = values::payload)]
    payload: Option<u32>,
    /// Length of a chunk, a power of two from 64K to 64M: after an interruption those that were under way
    /// are sent again.
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = values::chunk)]
    chunk: ChunkBytes,
    #[command(flatten)]
    access: AccessArguments,
    /// Keys that receivers had before [default: `~/.config/linecard/known_peers`].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["psk", "insecure_none"])]
    known_peers: Option<PathBuf>,
    /// Believe a receiver whose key is not known yet, and remember it. One that has changed is refused
    /// all the same.
    #[arg(long, conflicts_with_all = ["psk", "insecure_none"])]
    accept_new: bool,
    /// Refuse a key that is not known, without asking. Without a terminal it is so anyway.
    #[arg(long, conflicts_with_all = ["accept_new", "psk", "insecure_none"])]
    strict: bool,
    /// Cores for this end's two threads, as 2,3: for lanes and encryption, and for files and hashes; or for
    /// the first alone [default: wherever there is room].
    #[arg(long, value_name = "CORE[,CORE]")]
    cores: Option<Cores>,
    /// How long to wait for the receiver to answer, 0.1 to 86400.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = values::patience)]
    patience: Duration,
    /// Print the account as JSON, also when not all could be sent.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &SendArguments) -> Result<(), Failure> {
    let stop = signals()?;
    let addresses = arguments.peer.addresses()?;
    let mut access = arguments.access(arguments.policy())?;
    let mut shown = Shown::new(Arc::clone(&stop));
    let mut outcome = arguments.try_all(&addresses, &access, &stop, &mut shown);
    if let Err(error) = &outcome
        && let Some(found) = arguments.asks_about(error)
    {
        arguments.remember(found)?;
        access = arguments.access(Policy::Strict)?;
        outcome = arguments.try_all(&addresses, &access, &stop, &mut shown);
    }
    shown.bar.done();
    match outcome {
        Ok((sent, address)) => {
            say_skipped(&sent);
            let report = report::of_sent(&sent, arguments, address.is_ipv6());
            account::print(&report, arguments.json, None)?;
            ending::of_part(&sent.failures, sent.objects)
        }
        Err(error) => {
            let failure = arguments.explain(error);
            if arguments.json {
                let report = report::of_part_sent(&shown.progress, &failure.to_string());
                account::print(&report, true, None)?;
            }
            Err(failure)
        }
    }
}

/// What was sent, and to which of the receiver's addresses.
type Outcome = Result<(Sent, SocketAddr), SendError>;

impl SendArguments {
    /// Tries the addresses of the receiver until somebody listens at one.
    fn try_all(
        &self,
        addresses: &[SocketAddr],
        access: &Access,
        stop: &Arc<AtomicBool>,
        shown: &mut Shown,
    ) -> Outcome {
        let mut left = addresses.iter().copied().peekable();
        loop {
            let Some(address) = left.next() else { unreachable!("a peer has an address") };
            let options = self.options(address, access.clone(), Arc::clone(stop));
            match send(&options, &mut |progress| shown.show(progress)) {
                Ok(sent) => return Ok((sent, address)),
                Err(SendError::Control(ControlError::Connect { .. })) if left.peek().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn options(&self, peer: SocketAddr, access: Access, stop: Arc<AtomicBool>) -> SendOptions {
        SendOptions {
            input: self.input.clone(),
            peer,
            name: self.peer.to_string(),
            access,
            lanes: self.lanes.clone(),
            rate_bps: self.rate,
            mode: self.mode.into(),
            fec: self.fec,
            chunk_bytes: self.chunk,
            payload_bytes: self.payload,
            cores: self.cores.unwrap_or_default(),
            patience: self.patience,
            stop,
        }
    }

    fn policy(&self) -> Policy {
        if self.accept_new { Policy::AcceptNew } else { Policy::Strict }
    }

    fn access(&self, policy: Policy) -> Result<Access, Failure> {
        if let Some(access) = self.access.without_identity()? {
            return Ok(access);
        }
        let identity = self.access.identity()?;
        Ok(Access::Keys { identity, trust: Trust::Known(self.known()?, policy) })
    }

    fn known(&self) -> Result<KnownPeers, Failure> {
        let path = access::file(self.known_peers.as_deref(), "known_peers", "--known-peers")?;
        KnownPeers::load(&path).map_err(|error| Failure::Storage(error.to_string()))
    }

    /// The key that the user has looked at and found to be right.
    fn asks_about(&self, error: &SendError) -> Option<Fingerprint> {
        let SendError::Control(ControlError::UnknownPeer { found, .. }) = error else {
            return None;
        };
        let (stdin, mut stderr) = (std::io::stdin(), std::io::stderr());
        let is_data = self.input == Input::Path("-".into());
        if self.strict || is_data || !stdin.is_terminal() || !stderr.is_terminal() {
            return None;
        }
        let question = format!(
            "The key of {} is not known. Its fingerprint is\n  {found}\nIs that what `linecard recv` \
             prints there? [y/N] ",
            self.peer
        );
        stderr.write_all(question.as_bytes()).ok()?;
        let mut answer = String::new();
        stdin.lock().read_line(&mut answer).ok()?;
        matches!(answer.trim(), "y" | "Y" | "yes").then_some(*found)
    }

    fn remember(&self, found: Fingerprint) -> Result<(), Failure> {
        let remembered = self.known()?.remember(&self.peer.to_string(), found);
        remembered.map(|_standing| ()).map_err(|error| Failure::Storage(error.to_string()))
    }

    /// What the user is told, and what to do about a new key.
    fn explain(&self, error: SendError) -> Failure {
        let is_new = matches!(error, SendError::Control(ControlError::UnknownPeer { .. }));
        match ending::of_send(error, &self.peer.to_string()) {
            Failure::Unauthenticated(text) if is_new => Failure::Unauthenticated(format!(
                "{text}. If `linecard recv` prints this fingerprint there, send with --accept-new \
                 once, and it is remembered"
            )),
            failure => failure,
        }
    }
}

/// What the user sees meanwhile.
#[derive(Debug)]
struct Shown {
    bar: Bar,
    progress: SendProgress,
    /// Notes about lanes that have been said.
    said: usize,
    begun: Arc<AtomicBool>,
}

impl Shown {
    /// Until it has begun, there is nothing to be put in order when the user ends it.
    fn new(stop: Arc<AtomicBool>) -> Self {
        let begun = Arc::new(AtomicBool::new(false));
        let has_begun = Arc::clone(&begun);
        std::thread::spawn(move || {
            while !has_begun.load(Ordering::Relaxed) {
                if stop.load(Ordering::Relaxed) {
                    say("stopped before anything was sent");
                    std::process::exit(130);
                }
                std::thread::sleep(LOOK);
            }
        });
        Self { bar: Bar::new(), progress: SendProgress::default(), said: 0, begun }
    }

    fn show(&mut self, progress: &SendProgress) {
        self.begun.store(true, Ordering::Relaxed);
        for note in progress.notes.iter().skip(self.said) {
            self.bar.say(note);
        }
        self.said = progress.notes.len();
        let lanes = progress.lanes.iter().map(|lane| lane.carrier);
        self.bar.show(progress.done_bytes, progress.total_bytes, lanes);
        self.progress = progress.clone();
    }
}

fn say_skipped(sent: &Sent) {
    for skipped in sent.skipped.iter().take(ending::MAX_SAID) {
        say(&format!("not sent: {} is {}", skipped.path.display(), skipped.why));
    }
    if sent.skipped.len() > ending::MAX_SAID {
        say(&format!("and {} more were not sent", sent.skipped.len() - ending::MAX_SAID));
    }
}
