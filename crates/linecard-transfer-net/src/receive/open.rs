//! Everything between the sender's first message and the first packet: both agree, lanes are opened.

use super::accept::{Guest, refuse};
use super::lanes::{self, Lanes};
use super::{ReceiveError, ReceiveOptions};
use crate::control::Control;
use crate::end::agree::{FEC_KINDS, scheme_of_message};
use crate::end::{Endpoint, SealedSocket, random};
use crate::lane::Spec;
use linecard_transfer::control::{
    Agreed, Hello, Message, Refuse, RefuseCode, Text, VERSIONS, Welcome,
};
use linecard_transfer::lane::AckSettings;
use linecard_transfer::receive::{MAX_WINDOW, ReceiveSettings, Receiver};
use linecard_transfer::store::Store;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Resources of a receiver.
pub(super) struct Opened {
    pub(super) endpoint: Endpoint,
    pub(super) from: SocketAddr,
    pub(super) lanes: Lanes,
    pub(super) receiver: Receiver,
    pub(super) store: Store,
    pub(super) chunk_bytes: u32,
    pub(super) window: u32,
    pub(super) destination: Destination,
    /// The sender only asks what there is.
    pub(super) is_dry: bool,
    /// It may remove what it has not.
    pub(super) may_delete: bool,
    /// The sender has announced an object: how the transfer ends is how the receiver ends.
    pub(super) has_begun: bool,
}

/// Where a sender's files go.
pub(super) struct Destination {
    /// None for the standard output.
    pub(super) folder: Option<PathBuf>,
    pub(super) quota_bytes: Option<u64>,
    may_delete: bool,
}

impl Destination {
    /// As the list of senders says.
    fn of(options: &ReceiveOptions, control: &Control) -> Result<Self, ReceiveError> {
        let entry = options.access.entry(control.peer())?;
        let own = entry.as_ref().and_then(|entry| entry.folder.as_ref());
        let below = |folder: &PathBuf| match own {
            Some(own) => folder.join(own.as_path()),
            None => folder.clone(),
        };
        let quota_bytes = entry.as_ref().and_then(|entry| entry.quota_bytes);
        let may_delete =
            options.allow_delete || entry.as_ref().is_some_and(|entry| entry.may_delete);
        Ok(Self { folder: options.folder.as_ref().map(below), quota_bytes, may_delete })
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
pub(super) fn open(options: &ReceiveOptions, guest: Guest) -> Result<Opened, ReceiveError> {
    let Guest { mut control, from, hello, is_anywhere } = guest;
    let Negotiated { destination, welcome, lanes, sockets, receiver } =
        negotiate(options, &hello, &mut control, is_anywhere).inspect_err(|error| match error {
            ReceiveError::Control(_) => {}
            ReceiveError::Refused(why) => refuse(&mut control, why.code, why),
            error => refuse(&mut control, RefuseCode::Resources, error),
        })?;
    let window = welcome.window_chunks;
    control.send(&Message::Welcome(welcome))?;
    control.flush()?;
    let fec = scheme_of_message(hello.fec)?;
    let store = Store::new(hello.chunk_bytes, hello.payload_bytes, fec);
    Ok(Opened {
        endpoint: Endpoint::new(control, sockets, hello.payload_bytes),
        from,
        lanes,
        receiver,
        store,
        chunk_bytes: hello.chunk_bytes,
        window,
        destination,
        is_dry: hello.dry_run,
        may_delete: hello.delete,
        has_begun: false,
    })
}

fn negotiate(
    options: &ReceiveOptions,
    hello: &Hello,
    control: &mut Control,
    is_anywhere: bool,
) -> Result<Negotiated, ReceiveError> {
    let (local, peer) = control.addresses()?;
    let destination = Destination::of(options, control)?;
    if hello.delete && !destination.may_delete {
        return Err(ReceiveError::NoDelete);
    }
    let agreed = agree(control, hello, options)?;
    let window = window(options, hello);
    let connection = random()? as u32;
    let settings = ReceiveSettings {
        connection,
        lanes: hello.lanes.len(),
        payload_bytes: hello.payload_bytes,
        chunk_bytes: hello.chunk_bytes,
        fec: scheme_of_message(hello.fec)?,
        window,
        ack: AckSettings::default(),
    };
    let receiver = Receiver::new(settings, &[], random()?)?;
    let places = lanes::places(hello, (local.ip(), peer.ip()), is_anywhere);
    let specs = specs(options, hello, places);
    let (lanes, sockets) = Lanes::open(&specs, control, (agreed.suite, connection))?;
    let welcome = Welcome {
        version: agreed.version,
        suite: agreed.suite,
        connection,
        window_chunks: window,
        lanes: lanes.addresses.clone(),
    };
    Ok(Negotiated { destination, welcome, lanes, sockets, receiver })
}

/// The common capabilities of both ends, within the memory of this end.
fn agree(control: &Control, hello: &Hello, options: &ReceiveOptions) -> Result<Agreed, Refuse> {
    let agreed = hello.agree(&VERSIONS, control.suites(), &FEC_KINDS)?;
    let chunk_bytes = chunk_memory(hello);
    if chunk_bytes > options.memory_bytes {
        let text = format!(
            "chunks of {chunk_bytes} bytes with their repair do not fit into {} bytes of memory: send \
             smaller chunks, or less repair",
            options.memory_bytes
        );
        let text = Text::of(text.as_bytes());
        return Err(Refuse { code: RefuseCode::Resources, text });
    }
    Ok(agreed)
}

/// Memory of a chunk while it arrives, with its repair packets.
fn chunk_memory(hello: &Hello) -> u64 {
    let (chunk, repair) = (u64::from(hello.chunk_bytes), u64::from(hello.fec.m));
    chunk + (chunk * repair).div_ceil(u64::from(hello.fec.k.max(1)))
}

fn window(options: &ReceiveOptions, hello: &Hello) -> u32 {
    let fits = options.memory_bytes / chunk_memory(hello).max(1);
    u32::try_from(fits).unwrap_or(u32::MAX).clamp(1, MAX_WINDOW)
}

/// One lane for each of the sender's, of its kind.
fn specs(options: &ReceiveOptions, hello: &Hello, places: Vec<IpAddr>) -> Vec<Spec> {
    let given = options.lanes.iter().cloned().map(Some).chain(std::iter::repeat(None));
    hello
        .lanes
        .iter()
        .zip(places)
        .zip(given)
        .map(|((lane, place), spec)| match spec {
            Some(spec) => Spec { kind: lane.kind, ..spec },
            None => Spec::new(lane.kind, place),
        })
        .collect()
}
