//! Everything between the sender's first message and the first packet: both agree, lanes are opened.

use super::accept::{Guest, refuse};
use super::descriptors::files_of_transfer;
use super::lanes::{self, Lanes};
use super::{Acceptor, ReceiveError, ReceiveOptions};
use crate::control::Control;
use crate::end::agree::{FEC_KINDS, scheme_of_message};
use crate::end::{Endpoint, SealedSocket, challenges, random};
use crate::file::{FileError, Folder, Name, Quota};
use crate::keys::Entry;
use crate::lane::Spec;
use linecard_transfer::control::{
    Hello, MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, Message, Refuse, RefuseCode, Text, VERSIONS, Welcome,
};
use linecard_transfer::fec::Scheme;
use linecard_transfer::lane::AckSettings;
use linecard_transfer::layout::Layout;
use linecard_transfer::receive::{ReceiveSettings, Receiver, max_window};
use linecard_transfer::store::Store;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Resources of a receiver.
pub(super) struct Opened {
    pub(super) endpoint: Endpoint,
    pub(super) from: SocketAddr,
    pub(super) lanes: Lanes,
    pub(super) receiver: Receiver,
    pub(super) store: Store,
    pub(super) chunk_bytes: u32,
    pub(super) window: u32,
    /// Files that are open at once.
    pub(super) max_files: usize,
    /// A dry run: the sender only asks for the stored objects.
    pub(super) is_dry: bool,
    /// It may remove files that it does not have.
    pub(super) may_delete: bool,
    /// The sender has announced an object: how the transfer ends is how the receiver ends.
    pub(super) has_begun: bool,
}

/// Where a sender's files go.
#[derive(Default)]
pub(super) struct Destination {
    /// None for the standard output and for an object store, and in a dry run where there is none.
    pub(super) folder: Option<Folder>,
    pub(super) quota: Option<Arc<Quota>>,
    pub(super) may_delete: bool,
    /// Links are made that lead out of the folders that are sent.
    pub(super) may_link_out: bool,
}

impl Destination {
    /// Ready for files, with a thread that flushes them until `over` is set.
    pub(super) fn with_flusher(self, over: &Arc<AtomicBool>) -> io::Result<Self> {
        let ready = |folder: Folder| {
            folder.with_links_out(self.may_link_out).with_flusher(Arc::clone(over))
        };
        Ok(Self { folder: self.folder.map(ready).transpose()?, ..self })
    }

    /// As the list of senders says.
    fn of(acceptor: &Acceptor, control: &Control, is_dry: bool) -> Result<Self, ReceiveError> {
        let options = &acceptor.options;
        let entry = options.access.entry(control.peer())?;
        let has_right = |right: fn(&Entry) -> bool| entry.as_ref().is_some_and(right);
        let may_delete = options.allow_delete || has_right(|entry| entry.may_delete);
        let may_link_out = options.allow_links_out || has_right(|entry| entry.may_link_out);
        if options.bucket.is_some() {
            let is_plain = |entry: &Entry| entry.folder.is_none() && entry.quota_bytes.is_none();
            return match entry.as_ref().is_none_or(is_plain) {
                true => Ok(Self::default()),
                false => {
                    Err(ReceiveError::NotInBucket("folder= and quota= in the list of senders"))
                }
            };
        }
        let Some(folder) = &options.folder else {
            return Ok(Self { may_delete, may_link_out, ..Self::default() });
        };
        let Some(Entry { folder: Some(own), quota_bytes, .. }) = &entry else {
            let quota_bytes = entry.and_then(|entry| entry.quota_bytes);
            let (folder, quota) = acceptor.places(folder, None, (quota_bytes, is_dry))?;
            return Ok(Self { folder, quota, may_delete, may_link_out });
        };
        let quota_bytes = *quota_bytes;
        let opened = acceptor.places(folder, Some(own), (quota_bytes, is_dry));
        let opened = opened.and_then(|(folder, quota)| {
            folder.as_ref().map_or(Ok(()), Folder::check_writable)?;
            Ok((folder, quota))
        });
        let (folder, quota) =
            opened.map_err(|error| ReceiveError::Place { folder: own.to_string(), error })?;
        Ok(Self { folder, quota, may_delete, may_link_out })
    }
}

impl Acceptor {
    /// Opens a folder, or one below it, with what may still be put there.
    fn places(
        &self,
        path: &Path,
        own: Option<&Name>,
        (quota_bytes, is_dry): (Option<u64>, bool),
    ) -> Result<(Option<Folder>, Option<Arc<Quota>>), FileError> {
        let folder = if is_dry { Folder::look(path)? } else { Some(Folder::open(path)?) };
        let folder = match (folder, own) {
            (Some(folder), Some(own)) => folder.below(own)?,
            (folder, _) => folder,
        };
        let quota = |limit| match &folder {
            Some(folder) => self.quotas.of(folder, limit),
            None => Ok(Arc::new(Quota::unused(limit))),
        };
        let quota = quota_bytes.map(quota).transpose()?;
        if is_dry {
            // Objects that do not come take no room from others.
            return Ok((folder, quota.map(|quota| Arc::new(quota.copied()))));
        }
        Ok((folder.map(|folder| folder.with_quota(quota.clone())), quota))
    }
}

/// The agreement of both ends, and its lanes.
struct Negotiated {
    destination: Destination,
    welcome: Welcome,
    lanes: Lanes,
    sockets: Vec<SealedSocket>,
    receiver: Receiver,
}

/// Agrees with a sender, or tells it why not.
pub(super) fn open(
    acceptor: &Acceptor,
    guest: Guest,
) -> Result<(Opened, Destination), ReceiveError> {
    let Guest { mut control, from, hello, is_anywhere } = guest;
    let Negotiated { destination, welcome, lanes, sockets, receiver } =
        negotiate(acceptor, &hello, &mut control, is_anywhere).inspect_err(
            |error| match error {
                ReceiveError::Control(_) => {}
                ReceiveError::Refused(why) => refuse(&mut control, why.code, why),
                error => refuse(&mut control, RefuseCode::Resources, error),
            },
        )?;
    let (version, window) = (welcome.version, max_window(welcome.version));
    control.send(&Message::Welcome(welcome))?;
    control.pack(version);
    control.flush()?;
    let fec = scheme_of_message(hello.fec)?;
    let store = Store::new(hello.chunk_bytes, hello.payload_bytes, fec);
    let opened = Opened {
        endpoint: Endpoint::new(control, sockets, hello.payload_bytes),
        from,
        lanes,
        receiver,
        store,
        chunk_bytes: hello.chunk_bytes,
        window,
        max_files: files_of_transfer(acceptor.options.at_once.unwrap_or(1)),
        is_dry: hello.dry_run,
        may_delete: hello.delete,
        has_begun: false,
    };
    Ok((opened, destination))
}

fn negotiate(
    acceptor: &Acceptor,
    hello: &Hello,
    control: &mut Control,
    is_anywhere: bool,
) -> Result<Negotiated, ReceiveError> {
    let (local, peer) = control.addresses();
    let options = &acceptor.options;
    let agreed = hello.agree(&VERSIONS, control.suites(), &FEC_KINDS)?;
    let fec = scheme_of_message(hello.fec)?;
    check_memory(hello, fec, options.memory_bytes)?;
    let mut destination = Destination::of(acceptor, control, hello.dry_run)?;
    if hello.delete && options.bucket.is_some() {
        return Err(ReceiveError::NotInBucket("--delete"));
    }
    if hello.delete && !destination.may_delete {
        return Err(ReceiveError::NoDelete);
    }
    // Object stores refuse every link, the standard output every folder.
    if hello.links_out && options.folder.is_some() && !destination.may_link_out {
        return Err(ReceiveError::NoLinksOut);
    }
    // It has to say so: a link may have changed since the sender has looked at it.
    destination.may_link_out &= hello.links_out;
    let connection = random()? as u32;
    let settings = ReceiveSettings {
        connection,
        lanes: hello.lanes.len(),
        payload_bytes: hello.payload_bytes,
        chunk_bytes: hello.chunk_bytes,
        fec,
        window: max_window(agreed.version),
        memory_bytes: options.memory_bytes,
        ack: AckSettings::default(),
    };
    let receiver = Receiver::new(settings, &[], challenges()?)?;
    let is_known = (is_anywhere, !options.lanes.is_empty());
    let places = lanes::places(hello, (local.ip(), peer.ip()), is_known);
    let specs = specs(options, hello, places);
    let (lanes, sockets) = Lanes::open(&specs, control, (agreed.suite, connection))?;
    let welcome = Welcome {
        version: agreed.version,
        suite: agreed.suite,
        connection,
        window_chunks: receiver.window_end(),
        lanes: lanes.addresses.clone(),
    };
    Ok(Negotiated { destination, welcome, lanes, sockets, receiver })
}

/// Checks that a full chunk fits into memory while it arrives, with its repair packets.
fn check_memory(hello: &Hello, fec: Scheme, memory_bytes: u64) -> Result<(), Refuse> {
    let refuse = |text: String| {
        let text = Text::of(text.as_bytes());
        Refuse { code: RefuseCode::Resources, text }
    };
    let full = Layout::new(hello.chunk_bytes, hello.payload_bytes, fec);
    let bytes = full.map_err(|error| refuse(error.to_string()))?.memory_bytes();
    if bytes <= memory_bytes {
        return Ok(());
    }
    let advice = match fitting_chunk(hello.payload_bytes, fec, memory_bytes) {
        Some(chunk) => {
            format!("send with --chunk {}K, or receive with more --memory", chunk >> 10)
        }
        None => "receive with more --memory, or from fewer --at-once".into(),
    };
    Err(refuse(format!(
        "chunks of {bytes} bytes with their repair do not fit into {memory_bytes} bytes of memory for one sender: {advice}"
    )))
}

/// The longest chunk, a power of two, that fits into memory with its repair packets.
#[must_use]
pub fn fitting_chunk(payload_bytes: u32, fec: Scheme, memory_bytes: u64) -> Option<u32> {
    let halves = std::iter::successors(Some(MAX_CHUNK_BYTES), |bytes| Some(bytes / 2));
    let mut lengths = halves.take_while(|bytes| *bytes >= MIN_CHUNK_BYTES);
    let full = |bytes: u32| Layout::new(bytes, payload_bytes, fec);
    lengths.find(|bytes| full(*bytes).is_ok_and(|full| full.memory_bytes() <= memory_bytes))
}

/// One lane for each of the sender's that has a place, of its kind.
fn specs(
    options: &ReceiveOptions,
    hello: &Hello,
    places: Vec<Option<IpAddr>>,
) -> Vec<Option<Spec>> {
    let given = options.lanes.iter().cloned().map(Some).chain(std::iter::repeat(None));
    hello
        .lanes
        .iter()
        .zip(places)
        .zip(given)
        .map(|((lane, place), spec)| match spec {
            Some(spec) => Some(Spec { kind: lane.kind, ..spec }),
            None => Some(Spec::new(lane.kind, place?)),
        })
        .collect()
}
