//! `linecard recv`: what another host sends, into a folder or a pipe.

use super::access::{self, AccessArguments};
use super::bar::Bar;
use super::visitors::Visitors;
use super::{ending, place, report, values};
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use crate::say;
use crate::signals::signals;
use crate::units;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use linecard_transfer_net::control::{Access, Trust};
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::file::Folder;
use linecard_transfer_net::keys::Authorized;
use linecard_transfer_net::lane::Spec;
use linecard_transfer_net::receive::{Acceptor, ReceiveError, ReceiveOptions, ReceiveProgress};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Memory for chunks: at least for the shortest.
const MEMORY_BYTES: std::ops::RangeInclusive<usize> = (64 << 10)..=(1 << 40);

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RecvArguments {
    /// The folder that files are put into, made if it is missing; - is stdout, for one file or pipe.
    #[arg(value_name = "DIR", value_parser = PathBufValueParser::new().map(units::output))]
    folder: PathBuf,
    /// Where to listen, with :PORT if it is not 4780 [default: all addresses; with --insecure-none
    /// 127.0.0.1].
    #[arg(long, value_name = "ADDRESS", value_parser = place::listen_at)]
    listen: Option<SocketAddr>,
    /// This host's end of a lane, once for each in the sender's order: an interface or an address, with
    /// :PORT to let it through a firewall [default: the address that this host uses towards the sender's
    /// end of the lane].
    #[arg(long = "lane", value_name = "LANE")]
    lanes: Vec<Spec>,
    #[command(flatten)]
    access: AccessArguments,
    /// Who may send: a fingerprint on each line, looked at whenever somebody comes [default:
    /// ~/.config/linecard/authorized].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["psk", "insecure_none"])]
    authorized: Option<PathBuf>,
    /// Let everybody send who reaches the port, whatever key they have.
    #[arg(long, conflicts_with_all = ["authorized", "psk", "insecure_none"])]
    accept_any: bool,
    /// Replace files that are there and differ from what is sent. Without it they are kept, and are not
    /// transferred.
    #[arg(long)]
    overwrite: bool,
    /// Memory for chunks that are under way, 64K to 1T.
    #[arg(long, value_name = "BYTES", default_value = "512M", value_parser = memory)]
    memory: usize,
    /// Receive from one sender after the other, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Cores for this end's two threads, as 2,3: for lanes and encryption, and for files and hashes; or for
    /// the first alone [default: wherever there is room].
    #[arg(long, value_name = "CORE[,CORE]")]
    cores: Option<Cores>,
    /// How long to wait for a sender that has begun and goes silent, 0.1 to 86400.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = values::patience)]
    patience: Duration,
    /// Print an account of each transfer as JSON, also when not all came; on stderr if the data goes to
    /// stdout.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn command(arguments: &RecvArguments) -> Result<(), Failure> {
    if arguments.keep && arguments.is_pipe() {
        return Err(Failure::Usage("--keep is for a folder: stdout takes one file or pipe".into()));
    }
    let access = arguments.access()?;
    if let Some(folder) = arguments.folder() {
        Folder::open(folder).map_err(|error| Failure::Storage(error.to_string()))?;
    }
    let listener = place::listen(arguments.listen, arguments.access.insecure_none)?;
    let stop = signals()?;
    let at = listener.local_addr()?;
    let visitors = Arc::new(arguments.visitors());
    let turned_away = Arc::clone(&visitors);
    let notice = Box::new(move |visitor| turned_away.turned_away(visitor));
    let options = arguments.options(access.clone(), Arc::clone(&stop));
    let acceptor = Acceptor::start(listener, options, notice).map_err(ending::of_receive)?;
    arguments.announce(&access, at)?;
    loop {
        let mut shown = Shown { bar: Bar::new(), progress: None };
        visitors.set_bar(shown.bar.handle());
        let outcome = acceptor.receive(&mut |progress| shown.show(progress));
        visitors.set_bar(None);
        shown.bar.done();
        match outcome {
            Ok(got) => {
                account::print(&report::of_got(&got), arguments.json, arguments.output())?;
                match ending::of_part(&got.failures, got.objects) {
                    Err(failure) if arguments.keep => say(&failure.to_string()),
                    outcome => outcome?,
                }
            }
            Err(ReceiveError::Stopped) if shown.progress.is_none() => {
                return arguments.stopped_idle();
            }
            Err(error) => arguments.failed(error, &shown)?,
        }
        if !arguments.keep || stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

impl RecvArguments {
    fn is_pipe(&self) -> bool {
        self.folder == Path::new("-")
    }

    fn folder(&self) -> Option<&Path> {
        (!self.is_pipe()).then_some(&*self.folder)
    }

    /// Where the data goes, for what is printed beside it.
    fn output(&self) -> Option<&Path> {
        self.is_pipe().then_some(&*self.folder)
    }

    fn access(&self) -> Result<Access, Failure> {
        if let Some(access) = self.access.without_identity()? {
            return Ok(access);
        }
        let authorized = match self.accept_any {
            true => Authorized::Anybody,
            false => {
                let path = self.list()?;
                // What is wrong with it is said now, and not to those who come.
                access::allowed(&path)?;
                Authorized::Listed(path)
            }
        };
        Ok(Access::Keys { identity: self.access.identity()?, trust: Trust::Authorized(authorized) })
    }

    fn list(&self) -> Result<PathBuf, Failure> {
        access::file(self.authorized.as_deref(), "authorized", "--authorized")
    }

    /// Where it listens, what it is known by, and who may send.
    fn announce(&self, access: &Access, at: SocketAddr) -> Result<(), Failure> {
        let into = if self.is_pipe() { "stdout".into() } else { self.folder.display().to_string() };
        match access {
            Access::Keys { identity, .. } => {
                say(&format!("receiving into {into}, listening at {at}"));
                say(&format!("the key of this end is {}", identity.fingerprint()));
                self.announce_senders()
            }
            Access::Shared(_) => {
                say(&format!(
                    "receiving into {into}, listening at {at}: who has the shared key may send"
                ));
                Ok(())
            }
            Access::Open => {
                say(&format!(
                    "receiving into {into}, listening at {at} WITHOUT KEYS: every program of this \
                     machine may send, and can read and change what is sent"
                ));
                Ok(())
            }
        }
    }

    fn announce_senders(&self) -> Result<(), Failure> {
        if self.accept_any {
            say("everybody who reaches the port may send, whatever key they have");
            return Ok(());
        }
        let path = self.list()?;
        match access::allowed(&path)? {
            0 => {
                let (before, behind) = self.authorize();
                say(&format!(
                    "nobody may send yet: run `linecard keys` on the sender, and here \
                     {before}FINGERPRINT{behind}"
                ));
            }
            count => say(&format!("{count} may send, as {} says", path.display())),
        }
        Ok(())
    }

    /// How a key is allowed, in the list that is used: what is before the key, and behind it.
    fn authorize(&self) -> (String, String) {
        let list = match &self.authorized {
            Some(path) => format!(" --authorized {}`", path.display()),
            None => "`".into(),
        };
        ("`linecard keys authorize ".into(), list)
    }

    fn visitors(&self) -> Visitors {
        let (before, behind) = self.authorize();
        Visitors::new(&before, &behind)
    }

    fn options(&self, access: Access, stop: Arc<AtomicBool>) -> ReceiveOptions {
        ReceiveOptions {
            folder: self.folder().map(Path::to_owned),
            overwrite: self.overwrite,
            access,
            lanes: self.lanes.clone(),
            memory_bytes: self.memory as u64,
            cores: self.cores.unwrap_or_default(),
            patience: self.patience,
            stop,
        }
    }

    /// Nobody had come.
    fn stopped_idle(&self) -> Result<(), Failure> {
        match self.keep {
            true => Ok(()),
            false => Err(Failure::Stopped("stopped before anything came".into())),
        }
    }

    /// A transfer has ended early; the next may come if there is to be one.
    fn failed(&self, error: ReceiveError, shown: &Shown) -> Result<(), Failure> {
        let is_over = !self.keep || matches!(error, ReceiveError::Stopped);
        let failure = ending::of_receive(error);
        if let Some(progress) = shown.progress.as_ref().filter(|_| self.json) {
            let report = report::of_part_got(progress, &failure.to_string());
            account::print(&report, true, self.output())?;
        }
        if is_over {
            return Err(failure);
        }
        say(&failure.to_string());
        Ok(())
    }
}

/// What the user sees meanwhile.
struct Shown {
    bar: Bar,
    /// None until a sender is there.
    progress: Option<ReceiveProgress>,
}

impl Shown {
    fn show(&mut self, progress: &ReceiveProgress) {
        let total = (progress.total_bytes > 0).then_some(progress.total_bytes);
        self.bar.show(progress.done_bytes, total, std::iter::empty());
        self.progress = Some(progress.clone());
    }
}

fn memory(text: &str) -> Result<usize, String> {
    let bytes = units::bytes(text)?;
    match MEMORY_BYTES.contains(&bytes) {
        true => Ok(bytes),
        false => Err(format!("{bytes} is out of range: choose 64K to 1T")),
    }
}
