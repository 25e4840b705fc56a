//! Receiving what another host sends, into a folder or a pipe.

mod config;
mod outcome;

pub use config::Config;
pub use outcome::{Lane, LaneOutcome, ReceiveOutcome, Transfer};

use super::access::{allowed, file, file_of};
use super::error::{TransferError, of_key, of_receive};
use super::pairing;
use super::rejected::Rejected;
use super::started::{self, Wanted};
use super::{DEFAULT_PORT, Failed, Log, cores, objects, peer};
use crate::{Context, Error, Failure, Job};
use linecard_config::{Bytes, ConfigError};
use linecard_io::rights::{Use, confine, folder_of};
use linecard_transfer::fec::Repair;
use linecard_transfer_net::control::{Access, Trust};
use linecard_transfer_net::file::{ChunkBytes, FileError, Folder};
use linecard_transfer_net::keys::{Authorized, ListFile, Pairing, make_folder_of};
use linecard_transfer_net::receive::{
    Acceptor, ReceiveError, ReceiveOptions, ReceiveProgress, TurnedAway, fitting_chunk,
    reserve_descriptors,
};
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a packet of jumbo frames: the repair of a chunk in long packets is rounded up the most.
const LONG_PAYLOAD_BYTES: u32 = 8_896;

/// The job: receives from one sender.
#[derive(Debug)]
pub struct ReceiveJob;

impl Job for ReceiveJob {
    const NAME: &'static str = "recv";
    type Config = Config;
    type Outcome = ReceiveOutcome;

    fn run(config: &Config, context: &Context<'_>) -> Result<ReceiveOutcome, Error> {
        let log: Log = Arc::new(|_| {});
        let receiver = Receiver::listen(config, context, &log, Reach::AllFiles)?;
        receiver.receive(&mut |_| {}).map_err(|failed| failed.error)
    }

    fn title(config: &Config) -> String {
        format!("Received into {}", config.folder.display())
    }

    fn check(outcome: &ReceiveOutcome) -> Result<(), Error> {
        outcome.transfer.transferred.check()
    }
}

/// Files that the threads of a receiver can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those that the user can.
    AllFiles,
    /// Those in the folder and in that of the list of senders, or where that leads as a link, where the kernel has
    /// Landlock; all if what is received goes to an object store.
    OwnFolders,
}

/// Listens for senders, and receives from one after the other, or from several at once if as many threads ask.
#[derive(Debug)]
pub struct Receiver<'a> {
    context: Context<'a>,
    acceptor: Acceptor,
    port: u16,
}

impl<'a> Receiver<'a> {
    /// Listens. `log` gets the address, and rejected peers. `reach` is that of this thread afterwards, and of those that
    /// it starts.
    ///
    /// # Errors
    ///
    /// Keys, a folder or an address that cannot be used.
    pub fn listen(
        config: &Config,
        context: &Context<'a>,
        log: &Log,
        reach: Reach,
    ) -> Result<Self, Error> {
        linecard_config::check(config)?;
        let wanted = config.started.then(|| started::read_wanted(context.progress)).transpose()?;
        let is_asked = wanted.as_ref().is_some_and(|wanted| wanted.is_dry);
        let (config, access) = match wanted {
            Some(Wanted { key, folder, .. }) => {
                (&Config { folder, ..config.clone() }, Access::Shared(key))
            }
            None => (config, config.access.with_trust(context, || config.trust(context, log))?),
        };
        let options = config.options(context, access.clone())?;
        if let Some(bucket) = &options.bucket {
            let source =
                |source| FileError::System { doing: "use", path: bucket.url().into(), source };
            bucket.check().map_err(|error| Failure::Storage.with(source(error)))?;
        }
        if let Some(folder) = options.folder.as_ref().filter(|folder| !is_asked || folder.exists())
        {
            Folder::open(folder).map_err(|error| Failure::Storage.with(error))?;
        }
        let at = config.listen.map(|listen| listen.0.0);
        let port = if config.started { 0 } else { DEFAULT_PORT };
        let listener = peer::listen(at, port, config.access.insecure_none)?;
        let at = listener.local_addr()?;
        let at_once = options.at_once.unwrap_or(1);
        let few_descriptors = reserve_descriptors(at_once);
        // A receiver into an object store has to connect to it, and writes no files.
        if reach == Reach::OwnFolders && options.bucket.is_none() {
            let list = config.is_listed().then(|| config.list(context)).transpose()?;
            // The list may come later, and be a link.
            list.as_deref().map_or(Ok(()), make_folder_of).map_err(of_key)?;
            let linked = list.as_ref().and_then(|list| fs::canonicalize(list).ok());
            // Read once for the whole process, and later not to be read.
            linecard_transfer_net::file::warm_up();
            let folder = options.folder.as_deref().map(|folder| (folder, Use::Change));
            let lists = [&list, &linked].into_iter().flatten();
            let lists = lists.map(|list| (folder_of(list), Use::Read));
            let files: Vec<_> = folder.into_iter().chain(lists).collect();
            confine(&files).map_err(|error| Failure::Attach.with(error))?;
        }
        let rejected = Rejected::new(config.authorize(), Arc::clone(log));
        let is_started = config.started;
        let notice = Box::new(move |peer: TurnedAway| {
            // The sender that has started this receiver prints what it has asked.
            let is_asked = matches!(peer.why, ReceiveError::DryRun | ReceiveError::Probed { .. });
            if !(is_started && is_asked) {
                rejected.add(peer);
            }
        });
        if !config.started {
            config.small_share()?;
        }
        let acceptor = Acceptor::start(listener, options, notice).map_err(of_receive)?;
        if !config.started {
            config.announce(context, &access, at)?.iter().for_each(|line| log(line));
            if let Some((allowed, needed)) = few_descriptors {
                log(&format!(
                    "{allowed} descriptors are few (ulimit -n): {at_once} senders at once may take {needed}, and transfers that \
                     find none fail; allow more, or give a lower --at-once"
                ));
            }
        }
        Ok(Self { context: *context, acceptor, port: at.port() })
    }

    /// The line by which a sender that has started this receiver learns where it listens.
    #[must_use]
    pub fn ready(&self) -> String {
        started::ready(self.port)
    }

    /// Receives from the next sender. Progress counts bytes.
    ///
    /// # Errors
    ///
    /// Which end failed and why, with what was received until then. Complete chunks are kept, and
    /// the sender can resume from them.
    pub fn receive(
        &self,
        observer: &mut dyn FnMut(&ReceiveProgress),
    ) -> Result<ReceiveOutcome, Failed<ReceiveOutcome>> {
        let mut last = None;
        let result = self.acceptor.receive(&mut |progress| {
            let watch = self.context.progress;
            if watch.counts().1 as u64 != progress.total_bytes {
                watch.expect(progress.total_bytes as usize);
            }
            watch.reach(progress.done_bytes as usize);
            observer(progress);
            last = Some(progress.clone());
        });
        result.map(|got| ReceiveOutcome::new(&got)).map_err(|error| {
            let error = match (error, &last) {
                (ReceiveError::Stopped, None) => TransferError::NothingArrived.into(),
                (error, _) => of_receive(error),
            };
            let outcome = last.map(|progress| Box::new(ReceiveOutcome::part(&progress, &error)));
            Failed { error, outcome }
        })
    }
}

impl Config {
    fn options(&self, context: &Context<'_>, access: Access) -> Result<ReceiveOptions, Error> {
        let is_url = objects::is_url(&self.folder);
        if is_url && self.allow_delete {
            let error = TransferError::DeleteFromObjects;
            return Err(ConfigError::of_parameter("allow_delete", error).into());
        }
        if is_url && self.allow_links_out {
            let error = TransferError::LinksInObjects;
            return Err(ConfigError::of_parameter("allow_links_out", error).into());
        }
        let is_folder = !self.is_pipe() && !is_url;
        Ok(ReceiveOptions {
            folder: is_folder.then(|| file_of(context, "folder", &self.folder)),
            bucket: is_url.then(|| objects::bucket(&self.folder, "folder")).transpose()?,
            overwrite: self.overwrite,
            allow_delete: self.allow_delete,
            allow_links_out: self.allow_links_out,
            access,
            lanes: self.lanes.iter().map(|lane| lane.0.clone()).collect(),
            at_once: self.at_once.map(usize::from),
            memory_bytes: self.memory.get() / u64::from(self.at_once()),
            cores: cores(self.cores.as_ref()),
            patience: self.patience.into(),
            stop: Arc::clone(context.progress),
        })
    }

    /// Senders have to be on a list.
    fn is_listed(&self) -> bool {
        !self.accept_any && !self.started && self.access.psk.is_none() && !self.access.insecure_none
    }

    fn at_once(&self) -> u16 {
        self.at_once.unwrap_or(1)
    }

    fn trust(&self, context: &Context<'_>, log: &Log) -> Result<(Trust, Option<Pairing>), Error> {
        if self.accept_any {
            return Ok((Trust::Authorized(Authorized::Anybody), None));
        }
        let path = self.list(context)?;
        // Errors in it are reported now, and not at the first connection.
        allowed(&path)?;
        let pairing =
            self.pair.then(|| pairing::shown(ListFile::open(path.clone()).map_err(of_key)?, log));
        Ok((Trust::Authorized(Authorized::Listed(path)), pairing.transpose()?))
    }

    fn list(&self, context: &Context<'_>) -> Result<PathBuf, Error> {
        let given = self.authorized.as_deref().map(|path| file_of(context, "authorized", path));
        file(given.as_deref(), "authorized", "--authorized")
    }

    /// Its address, its identity, and the authorized senders.
    fn announce(
        &self,
        context: &Context<'_>,
        access: &Access,
        at: SocketAddr,
    ) -> Result<Vec<String>, Error> {
        let into = if self.is_pipe() { "stdout".into() } else { self.folder.display().to_string() };
        let listening = format!("receiving into {into}, listening at {at}");
        let mut lines = match access {
            Access::Keys { identity, pairing, .. } => vec![
                listening,
                format!("the key of this end is {}", identity.fingerprint()),
                match pairing {
                    Some(pairing) => pairing::announced(pairing, at.port()),
                    None => self.senders(context)?,
                },
            ],
            Access::Shared(_) => vec![format!("{listening}: holders of the shared key may send")],
            Access::Open => vec![format!(
                "{listening} WITHOUT KEYS: every program of this machine may send, and can read and change the data"
            )],
        };
        lines.extend(self.small_share()?);
        Ok(lines)
    }

    /// A line where the memory for a sender does not hold a chunk as senders send it if nothing is said.
    ///
    /// # Errors
    ///
    /// It holds no chunk at all.
    fn small_share(&self) -> Result<Option<String>, Error> {
        let share = self.memory.get() / u64::from(self.at_once());
        let fitting = fitting_chunk(LONG_PAYLOAD_BYTES, Repair::Auto.scheme(), share);
        let share = Bytes::new(share);
        let chunk = fitting.map(u64::from).ok_or(TransferError::SmallMemory { share })?;
        let is_small = chunk < ChunkBytes::default().bytes();
        let chunk = Bytes::new(chunk);
        Ok(is_small.then(|| {
            format!(
                "each sender has {share} of --memory: senders have to give --chunk {chunk} or less"
            )
        }))
    }

    fn senders(&self, context: &Context<'_>) -> Result<String, Error> {
        if self.accept_any {
            return Ok("everybody who reaches the port may send, with any key".to_owned());
        }
        let path = self.list(context)?;
        Ok(match allowed(&path)? {
            0 => {
                let (before, behind) = self.authorize();
                format!(
                    "nobody may send yet: start this again with --pair, or run `linecard keys` on the sender, and here \
                     {before}FINGERPRINT{behind}"
                )
            }
            count => format!("{count} may send, as {} says", path.display()),
        })
    }

    /// The command that allows a key in the list that is used: the text before the key, and behind it.
    fn authorize(&self) -> (String, String) {
        let list = match &self.authorized {
            Some(path) => format!(" --authorized {}`", path.display()),
            None => "`".to_owned(),
        };
        ("`linecard keys authorize ".to_owned(), list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A receiver that could take nothing waited without a word, and refused each sender.
    #[test]
    fn memory_that_is_too_little_for_a_sender_is_said() {
        let said = |at_once, memory| {
            let memory = Bytes::new(memory);
            Config { at_once: Some(at_once), memory, ..Config::default() }.small_share()
        };
        for at_once in [1, 4, 64] {
            assert_eq!(said(at_once, 512 << 20).unwrap(), None);
        }
        let shares = said(64, 128 << 20).unwrap().unwrap();
        assert!(shares.contains("2M of --memory") && shares.contains("--chunk 1M"), "{shares}");
        let none = said(4, 64 << 10).unwrap_err().to_string();
        assert!(none.contains("16K of --memory, in which no chunk fits"), "{none}");
    }
}
