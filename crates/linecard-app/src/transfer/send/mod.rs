//! Sending a file, a folder or a pipe to another host.

mod config;
mod dry;
mod hosts;
mod limits;
mod lines;
mod outcome;
mod probe;

pub use config::Config;
pub use dry::{DryRun, Step};
pub use hosts::Resolved;
pub use lines::{LaneLine, ProgressLine, ProgressLines};
pub use outcome::{Bound, Lane, LaneOutcome, Latency, SendOutcome, Transfer};
pub use probe::{LaneProbe, Probe, ProbedLane};

use self::probe::{Findings, GivenOptions, Samples};
use super::access::{file, file_of};
use super::error::{TransferError, of_key, of_send};
use super::started::{Commands, Purpose, StartedReceiver};
use super::{CodeSource, DEFAULT_PORT, Failed, Peer, RemoteFolder, cores, objects};
use crate::{Context, Error, Failure, Job};
use linecard_config::{Bytes, ConfigError, Rate};
use linecard_transfer_net::control::{Access, ControlError, Policy, Trust};
use linecard_transfer_net::file::{Choice, ChunkBytes, FileError, Input, Name, Patterns, Source};
use linecard_transfer_net::keys::{Fingerprint, KnownPeers, Pairing};
use linecard_transfer_net::send::{SendError, SendOptions, SendProgress, Sent};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The job.
#[derive(Debug)]
pub struct SendJob;

/// Sees how far it is, and answers what only a user knows.
pub trait Observer {
    /// A line for the user.
    fn line(&mut self, text: &str) {
        let _ = text;
    }

    /// A command begins or stops logging in at the receiver's host. It is ended if the transfer is stopped.
    fn login(&mut self, is_running: bool) {
        let _ = is_running;
    }

    /// Called some times a second, and once more at the end.
    fn progress(&mut self, progress: &SendProgress) {
        let _ = progress;
    }

    /// Whether the user knows this key, which the peer has shown for the first time, to be right.
    fn is_right(&mut self, peer: &Peer, key: Fingerprint) -> bool {
        let _ = (peer, key);
        false
    }

    /// The pairing code that the user reads at the receiver.
    ///
    /// # Errors
    ///
    /// There is no user to ask.
    fn pairing_code(&mut self) -> io::Result<String> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "nobody can be asked: give the code itself"))
    }
}

/// Looks at nothing and trusts no new key.
impl Observer for () {}

impl Job for SendJob {
    const NAME: &'static str = "send";
    type Config = Config;
    type Outcome = SendOutcome;

    fn run(config: &Config, context: &Context<'_>) -> Result<SendOutcome, Error> {
        let Resolved { config, document, .. } = config.with_host(context.document)?;
        let context = Context { document: Some(&document), ..*context };
        let sent = send(&config, &context, &mut ());
        sent.map_err(|failed| context.placed(failed.error))
    }

    fn title(config: &Config) -> String {
        let more = match config.inputs.len() {
            0 | 1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let first =
            config.inputs.first().map_or("nothing".into(), |path| path.display().to_string());
        format!("{first}{more} to {}", config.peer.0)
    }

    fn check(outcome: &SendOutcome) -> Result<(), Error> {
        outcome.check()
    }
}

/// Sends as configured: entries of hosts are [`Config::with_host`]'s. Progress counts bytes.
///
/// # Errors
///
/// Which end failed and why, with what was sent until then. The same configuration resumes from there.
pub fn send(
    config: &Config,
    context: &Context<'_>,
    observer: &mut dyn Observer,
) -> Result<SendOutcome, Failed<SendOutcome>> {
    // Before a name is looked up, which may take long.
    config.check_input(observer)?;
    config.patterns()?;
    let (started, addresses) = match &config.peer.0 {
        Peer::Listening { host, port } => {
            (None, Peer::addresses(host, port.unwrap_or(DEFAULT_PORT))?)
        }
        Peer::Started(place) => {
            let started = config.start(place, context, observer)?;
            let addresses = started.addresses.clone();
            (Some(started), addresses)
        }
    };
    let access = started.as_ref().map(|started| Access::Shared(started.key.clone()));
    let pairing = config.pairing(observer)?;
    let mut options = config.options(context, access, pairing.as_ref())?;
    let mut run = Run::new(context, observer);
    let mut result = match &pairing {
        None => run.try_all(&options, &addresses),
        Some(_) => config.pair(context, &mut run, &options, &addresses)?,
    };
    if let Err(SendError::Control(ControlError::UnknownPeer { found, .. })) = &result
        && !config.strict
        && run.observer.is_right(&config.peer.0, *found)
    {
        let mut known = config.known(context)?;
        known.remember(&config.peer.0.to_string(), *found).map_err(of_key)?;
        // The list that `options` has does not name it yet.
        options = config.options(context, None, None)?;
        result = run.try_all(&options, &addresses);
    }
    if config.probe && pairing.is_some() && result.is_ok() {
        // Both know each other from now on.
        options = config.options(context, None, None)?;
    }
    let probed = match &result {
        Ok((sent, address)) if config.probe => {
            Some(config.probe(&mut run, (sent, *address), &options))
        }
        _ => None,
    };
    let result = result.and_then(|found| match probed.transpose()? {
        Some(findings) => Ok((found, Some(findings))),
        None => Ok((found, None)),
    });
    let mut lost_login = None;
    match (started, &result) {
        // It waits for a transfer, and is not to.
        (Some(started), Ok(_)) if config.dry_run || config.probe => drop(started),
        (Some(started), Ok(_)) => started.finish(),
        (Some(started), Err(_)) => lost_login = started.lost_login(),
        (None, _) => {}
    }
    let failed = |error: SendError| {
        let error = match (&error, lost_login) {
            (error, Some(status)) if error.is_of_other_end() => {
                TransferError::LostLogin { peer: config.peer.0.to_string(), status }.into()
            }
            _ => config.explain(context, error),
        };
        Failed { outcome: Some(Box::new(SendOutcome::part(&run.progress, &error))), error }
    };
    let ((sent, address), probed) = result.map_err(failed)?;
    let outcome = SendOutcome::new(&sent, config, address.is_ipv6());
    Ok(match probed {
        Some((findings, notes)) => outcome.with_probe(findings, &notes, config.dry_run),
        None => outcome,
    })
}

/// Progress of a transfer.
struct Run<'a> {
    context: &'a Context<'a>,
    observer: &'a mut dyn Observer,
    progress: SendProgress,
    /// Notes about lanes that were shown.
    lines: usize,
    /// Of a probe.
    samples: Option<Samples>,
}

impl<'a> Run<'a> {
    fn new(context: &'a Context<'a>, observer: &'a mut dyn Observer) -> Self {
        Self { context, observer, progress: SendProgress::default(), lines: 0, samples: None }
    }

    /// Tries the addresses of the receiver until a connection is accepted at one.
    fn try_all(
        &mut self,
        options: &SendOptions,
        addresses: &[SocketAddr],
    ) -> Result<(Sent, SocketAddr), SendError> {
        let mut left = addresses.iter().copied().peekable();
        loop {
            let Some(peer) = left.next() else { unreachable!("a peer has an address") };
            let options = SendOptions { peer, ..options.clone() };
            match linecard_transfer_net::send::send(&options, &mut |progress| self.show(progress)) {
                Ok(sent) => return Ok((sent, peer)),
                Err(SendError::Control(ControlError::Connect { .. })) if left.peek().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn show(&mut self, progress: &SendProgress) {
        for note in progress.notes.iter().skip(self.lines) {
            self.observer.line(note);
        }
        self.lines = progress.notes.len();
        if progress.waits {
            return;
        }
        let watch = self.context.progress;
        let total = progress.total_bytes.unwrap_or(0) as usize;
        if watch.counts().1 != total {
            watch.expect(total);
        }
        watch.reach(progress.done_bytes as usize);
        self.observer.progress(progress);
        if let Some(samples) = &mut self.samples {
            samples.add(progress);
        }
        self.progress = progress.clone();
    }
}

impl Config {
    /// Finds errors in what is to be sent, and says that a pipe with a name may have to be waited for.
    fn check_input(&self, observer: &mut dyn Observer) -> Result<(), Error> {
        let Input::Paths(paths) = self.input()? else { return Ok(()) };
        let [path] = &*paths else { return Ok(()) };
        let is_pipe = || std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
        if !self.dry_run && !self.probe && is_pipe() {
            let path = path.display();
            observer
                .line(&format!("{path} is a pipe: it is read as soon as a program writes into it"));
        }
        Ok(())
    }

    /// Has a receiver started.
    fn start(
        &self,
        place: &RemoteFolder,
        context: &Context<'_>,
        observer: &mut dyn Observer,
    ) -> Result<StartedReceiver, Error> {
        linecard_config::check(self)?;
        let has_keys = self.access != super::Access::default();
        if has_keys || self.accept_new || self.strict || self.pair.is_some() {
            return Err(ConfigError::of_parameter("peer", TransferError::StartedWithKeys).into());
        }
        for (name, command) in [("ssh", &self.ssh), ("receiver", &self.receiver)] {
            if command.trim().is_empty() {
                return Err(ConfigError::of_parameter(name, TransferError::NoCommand).into());
            }
        }
        // Before the user types a password.
        let wrong_lane = self.lanes.iter().find_map(|lane| lane.0.check().err());
        wrong_lane.map_or(Ok(()), |error| Err(Failure::Attach.with(error)))?;
        if let Input::Paths(paths) = self.input()? {
            for path in paths.iter().filter(|path| path.as_os_str() != "-") {
                std::fs::symlink_metadata(path)
                    .map_err(|source| TransferError::Input { path: path.clone(), source })?;
            }
            Source::check_names(&paths).map_err(|error| Failure::Storage.with(error))?;
        }
        let commands = Commands { login: &self.ssh, receiver: &self.receiver };
        observer.login(true);
        let rights = [self.delete, self.links_out];
        let purpose = Purpose { rights, is_dry: self.dry_run || self.probe };
        let started = StartedReceiver::start(place, commands, purpose, context.progress);
        observer.login(false);
        started
    }

    /// `access` is that to a receiver that was started; without, it is configured.
    fn options(
        &self,
        context: &Context<'_>,
        access: Option<Access>,
        pairing: Option<&Pairing>,
    ) -> Result<SendOptions, Error> {
        linecard_config::check(self)?;
        Ok(SendOptions {
            choice: self.choice()?,
            dry_run: self.dry_run || self.probe,
            delete: self.delete,
            max_delete: self.max_delete()?,
            input: self.input()?,
            // Replaced by each address of the peer.
            peer: SocketAddr::from(([0; 4], 0)),
            name: self.peer.0.to_string(),
            access: match access {
                Some(access) => access,
                None => {
                    let trust = || Ok((self.trust(context)?, pairing.cloned()));
                    self.access.with_trust(context, trust)?
                }
            },
            lanes: self.lanes.iter().map(|lane| lane.0.clone()).collect(),
            rate_bits_per_second: self.rate.0.map(Rate::bits_per_second),
            mode: self.mode.into(),
            fec: self.fec.0,
            chunk_bytes: ChunkBytes::new(self.chunk.get())
                .map_err(|error| ConfigError::of_parameter("chunk", error))?,
            payload_bytes: self.payload.map(|bytes| bytes.get() as u32),
            cores: cores(self.cores.as_ref()),
            patience: self.patience.into(),
            stop: Arc::clone(context.progress),
        })
    }

    /// The data to send.
    pub(super) fn input(&self) -> Result<Input, ConfigError> {
        let is_pipe = self.inputs == [Path::new("-")];
        match (&self.name, is_pipe) {
            (Some(name), true) if name.contains('/') => {
                let error = TransferError::NameInFolder { name: name.clone() };
                Err(ConfigError::of_parameter("name", error))
            }
            (Some(name), true) => {
                Name::new(name.as_bytes())
                    .map_err(|error| ConfigError::of_parameter("name", error))?;
                Ok(Input::Stdin(name.clone()))
            }
            (Some(_), false) => Err(ConfigError::of_parameter("name", TransferError::NameOfFiles)),
            (None, _) if self.delete && self.inputs.iter().any(|path| objects::is_url(path)) => {
                Err(ConfigError::of_parameter("delete", TransferError::DeleteByObjects))
            }
            (None, _) => input(&self.inputs),
        }
    }

    /// How much may be removed at the receiver.
    fn max_delete(&self) -> Result<Option<u64>, ConfigError> {
        if self.max_delete.is_some() && !self.delete {
            return Err(ConfigError::of_parameter("max_delete", TransferError::LimitWithoutDelete));
        }
        Ok(self.max_delete)
    }

    fn choice(&self) -> Result<Choice, Error> {
        Ok(Choice {
            patterns: self.patterns()?,
            by_contents: self.checksum,
            hard_links: self.hard_links,
            links_out: self.links_out,
        })
    }

    fn patterns(&self) -> Result<Patterns, Error> {
        let wrong = |error: FileError| {
            let is_excluded = |pattern| self.exclude.contains(pattern);
            let parameter = match &error {
                FileError::Pattern { pattern, .. } if is_excluded(pattern) => "exclude",
                _ => "include",
            };
            ConfigError::of_parameter(parameter, error)
        };
        Ok(Patterns::new(&self.include, &self.exclude).map_err(wrong)?)
    }

    fn trust(&self, context: &Context<'_>) -> Result<Trust, Error> {
        let policy = if self.accept_new { Policy::AcceptNew } else { Policy::Strict };
        Ok(Trust::Known(self.known(context)?, policy))
    }

    /// This end's part of a pairing, if there is a code.
    fn pairing(&self, observer: &mut dyn Observer) -> Result<Option<Pairing>, Error> {
        let Some(source) = &self.pair else { return Ok(None) };
        let is_data = self.inputs.iter().any(|path| path.as_os_str() == "-");
        if source.0 == CodeSource::Typed && is_data {
            return Err(ConfigError::of_parameter("pair", TransferError::CodeFromData).into());
        }
        Ok(Some(Pairing::typed(source.0.code(observer)?)))
    }

    /// Sends to a receiver with a code, or without if both know each other by now: a command that is given again goes on.
    fn pair(
        &self,
        context: &Context<'_>,
        run: &mut Run<'_>,
        options: &SendOptions,
        addresses: &[SocketAddr],
    ) -> Result<Result<(Sent, SocketAddr), SendError>, Error> {
        if self.known(context)?.knows(&options.name) {
            match run.try_all(&self.options(context, None, None)?, addresses) {
                Err(SendError::Control(ControlError::NotAccepted { .. })) => {}
                result => return Ok(result),
            }
        }
        let before = self.known(context)?;
        let result = run.try_all(options, addresses);
        if self.known(context).is_ok_and(|after| after != before) {
            run.observer
                .line(&format!("paired with {}: its key is known from now on", options.name));
        }
        Ok(result)
    }

    /// Sends test data where a dry run has been, for some seconds.
    fn probe(
        &self,
        run: &mut Run<'_>,
        (planned, address): (&Sent, SocketAddr),
        options: &SendOptions,
    ) -> Result<(Findings, Vec<String>), SendError> {
        let chunk_bytes = ChunkBytes::new(probe::CHUNK_BYTES)?;
        let input = Input::Probe(probe::TIME);
        let options =
            SendOptions { input, dry_run: true, delete: false, chunk_bytes, ..options.clone() };
        (run.samples, run.lines) = (Some(Samples::default()), 0);
        let (sent, _) = run.try_all(&options, &[address])?;
        let plan = DryRun::of(planned, planned.plan.as_deref().unwrap_or_default());
        let has_length = plan.has_length;
        let asked = GivenOptions { chunk_bytes: self.chunk.get(), fec: self.fec.0, has_length };
        let samples = run.samples.take().unwrap_or_default();
        Ok((Findings::of(&plan, asked, &sent, &samples), sent.notes))
    }

    fn known(&self, context: &Context<'_>) -> Result<KnownPeers, Error> {
        let given = self.known_peers.as_deref().map(|path| file_of(context, "known_peers", path));
        let path = file(given.as_deref(), "known_peers", "--known-peers")?;
        KnownPeers::load(&path).map_err(of_key)
    }

    /// The error, and the remedy for a new key.
    fn explain(&self, context: &Context<'_>, error: SendError) -> Error {
        let peer = self.peer.0.to_string();
        match error {
            SendError::Control(ControlError::UnknownPeer { found, .. }) => {
                let known = self.known(context).ok();
                let other = known.and_then(|known| known.names(found).next().map(str::to_owned));
                TransferError::NewReceiver { peer, found, other }.into()
            }
            error => of_send(error, &peer),
        }
    }
}

/// The data to send. A file's name may be any bytes.
fn input(paths: &[PathBuf]) -> Result<Input, ConfigError> {
    let refuse = |error| ConfigError::of_parameter("inputs", error);
    let size = |path: &PathBuf| path.to_str()?.strip_prefix("test:").map(str::to_owned);
    if let [path] = paths
        && let Some(size) = size(path)
    {
        let bytes =
            size.parse::<Bytes>().map_err(|error| refuse(TransferError::TestSize(error)))?;
        return Ok(Input::Test(bytes.get()));
    }
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        return Err(refuse(TransferError::EmptyName));
    }
    if let [path] = paths
        && objects::is_url(path)
    {
        return objects::bucket(path, "inputs").map(Input::Bucket);
    }
    let alone =
        |path: &&PathBuf| path.as_os_str() == "-" || objects::is_url(path) || size(path).is_some();
    match (paths, paths.iter().find(alone)) {
        ([], _) => Err(refuse(TransferError::NoInput)),
        ([_, _, ..], Some(path)) => Err(refuse(TransferError::NotAlone { path: path.clone() })),
        _ => Ok(Input::Paths(paths.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_config::Document;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn inputs() {
        let input = |paths: &[&str]| {
            let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
            input(&paths).map_err(|error| error.to_string())
        };
        let paths = |paths: &[&str]| Ok(Input::Paths(paths.iter().map(PathBuf::from).collect()));
        assert_eq!(input(&["test:2G"]), Ok(Input::Test(2 << 30)));
        assert_eq!(input(&["./test:2G"]), paths(&["./test:2G"]));
        assert_eq!(input(&["a", "b"]), paths(&["a", "b"]));
        let odd = PathBuf::from(OsString::from_vec(vec![b'a', 0xff]));
        assert_eq!(super::input(std::slice::from_ref(&odd)).unwrap(), Input::Paths(vec![odd]));
        assert!(input(&["test:"]).is_err() && input(&[""]).is_err() && input(&[]).is_err());
        for alone in ["-", "test:2G"] {
            let why = input(&["a", alone]).unwrap_err();
            assert!(why.contains(&format!("{alone} is sent alone; write ./{alone} for")), "{why}");
        }
    }

    #[test]
    fn data_of_a_pipe_may_have_a_name() {
        let config = |paths: &[&str], name: &str| Config {
            inputs: paths.iter().map(PathBuf::from).collect(),
            name: Some(name.to_owned()),
            ..Config::default()
        };
        let input = |paths, name| config(paths, name).input().map_err(|error| error.to_string());
        assert_eq!(input(&["-"], "day.tar"), Ok(Input::Stdin("day.tar".to_owned())));
        assert!(input(&["-"], "a/b").is_err_and(|why| why.contains("without /")));
        assert!(input(&["-"], "..").is_err() && input(&["-"], "").is_err());
        assert!(input(&["a"], "b").is_err_and(|why| why.contains("data of - only")));
    }

    /// A document took one of the two without a word; on the command line they were refused.
    #[test]
    fn parameters_of_a_document_that_exclude_each_other_are_refused() {
        let config = |text: &str| {
            let document = Document::of_text("send.toml", text).expect("TOML");
            document.config::<Config>().map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(config("accept_new = false\nstrict = true\n"), Ok(()));
        let refused = "send.toml:2: `strict = true`: `strict` excludes `accept_new`, which is given on \
                       line 1: leave one out";
        assert_eq!(config("accept_new = true\nstrict = true\n"), Err(refused.to_owned()));
        let refused = "send.toml:2: `psk = \"a\"`: `access.psk` excludes `access.identity`, which is \
                       given on line 3: leave one out";
        assert_eq!(config("[access]\npsk = \"a\"\nidentity = \"b\"\n"), Err(refused.to_owned()));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let config = |text: &str| {
            let document = Document::of_text("send.toml", text).expect("TOML");
            document.config::<Config>().map_err(|error| error.to_string())
        };
        for good in ["chunk = \"16M\"", "payload = 1408", "patience = \"0.5s\"", "rate = \"200M\""]
        {
            assert!(config(good).is_ok(), "{:?}", config(good));
        }
        for (bad, why) in [
            ("chunk = \"3M\"", "power of two"),
            ("chunk = \"32K\"", "choose 64K to 64M"),
            ("payload = 511", "choose 512 to 65467"),
            ("patience = \"0s\"", "choose 100ms to 86400s"),
            ("rate = 999", "choose 1K to 10T"),
            ("lanes = [\"10.0.0.300\"]", "is not an address"),
        ] {
            assert!(config(bad).is_err_and(|error| error.contains(why)), "{:?}", config(bad));
        }
    }
}
