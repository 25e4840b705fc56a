//! Everything that happens before the first packet: the sender comes, both agree, lanes are opened.

use super::lanes::Lanes;
use super::{ReceiveError, ReceiveOptions};
use crate::control::Control;
use crate::end::agree::{FEC_KINDS, scheme_of_message};
use crate::end::{Clock, Interest, Waiter, Waker, random};
use crate::lane::{Family, Place, Spec};
use linecard_transfer::control::{
    Agreed, Hello, LaneKind, Message, Refuse, RefuseCode, Text, VERSION, Welcome,
};
use linecard_transfer::lane::AckSettings;
use linecard_transfer::receive::{MAX_WINDOW, ReceiveSettings, Receiver};
use linecard_transfer::store::Store;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long somebody may take to show who it is, while others wait.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// What is needed to receive.
pub(super) struct Opened {
    pub(super) control: Control,
    pub(super) from: SocketAddr,
    pub(super) lanes: Lanes,
    pub(super) receiver: Receiver,
    pub(super) store: Store,
    pub(super) chunk_bytes: u32,
    pub(super) window: u32,
}

pub(super) fn open(
    options: &ReceiveOptions,
    listener: &TcpListener,
) -> Result<Opened, ReceiveError> {
    let mut control = accept(options, listener)?;
    let (local, from) = control.addresses()?;
    let hello = hello(&mut control, options)?;
    let agreed = match agree(&control, &hello, options) {
        Ok(agreed) => agreed,
        Err(why) => {
            refuse(control, why.code, &why)?;
            return Err(why.into());
        }
    };
    let window = window(options, &hello);
    let fec = scheme_of_message(hello.fec)?;
    let connection = random()? as u32;
    let settings = ReceiveSettings {
        connection,
        lanes: hello.lanes.len(),
        payload_bytes: hello.payload_bytes,
        chunk_bytes: hello.chunk_bytes,
        fec,
        window,
        ack: AckSettings::default(),
    };
    let receiver = Receiver::new(settings, &[], random()?)?;
    let specs = specs(options, &hello, local.ip());
    let lanes = match Lanes::open(&specs, &mut control, (agreed.suite, connection)) {
        Ok(lanes) => lanes,
        Err(error) => {
            refuse(control, RefuseCode::Resources, &error)?;
            return Err(error);
        }
    };
    let welcome = Welcome {
        version: agreed.version,
        suite: agreed.suite,
        connection,
        window_chunks: window,
        lanes: lanes.addresses()?,
    };
    control.send(&Message::Welcome(welcome))?;
    control.flush()?;
    let store = Store::new(hello.chunk_bytes, hello.payload_bytes, fec);
    Ok(Opened { control, from, lanes, receiver, store, chunk_bytes: hello.chunk_bytes, window })
}

/// The next that comes, if it shows who it is and is right.
fn accept(options: &ReceiveOptions, listener: &TcpListener) -> Result<Control, ReceiveError> {
    listener.set_nonblocking(true)?;
    let (clock, waiter) = (Clock::start(), Waiter::new(Waker::new()?));
    loop {
        if options.stop.load(Ordering::Relaxed) {
            return Err(ReceiveError::Stopped);
        }
        match listener.accept() {
            Ok((stream, from)) => {
                stream.set_nonblocking(false)?;
                let deadline = Instant::now() + options.patience.min(HANDSHAKE);
                let accepted = Control::accept(stream, &options.access, deadline);
                return accepted
                    .map_err(|why| ReceiveError::TurnedAway { from, why: Box::new(why) });
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        let now = clock.now();
        let interest = Interest { fd: listener.as_fd(), write: false, token: 0 };
        waiter.wait(&[interest], now.plus_ns(100_000_000), now)?;
    }
}

fn hello(control: &mut Control, options: &ReceiveOptions) -> Result<Hello, ReceiveError> {
    let (clock, waiter) = (Clock::start(), Waiter::new(Waker::new()?));
    let deadline = clock.now().plus(options.patience);
    loop {
        match control.receive()? {
            Some(Message::Hello(hello)) => return Ok(hello),
            Some(_) => return Err(ReceiveError::Unexpected("something before hello")),
            None => {}
        }
        let now = clock.now();
        if now >= deadline {
            return Err(ReceiveError::Silent(options.patience));
        }
        let interest = Interest { fd: control.as_fd(), write: false, token: 0 };
        waiter.wait(&[interest], deadline, now)?;
    }
}

/// Tells the sender that there will be no transfer.
fn refuse(mut control: Control, code: RefuseCode, why: &dyn Display) -> Result<(), ReceiveError> {
    let text = Text::of(why.to_string().as_bytes());
    control.send(&Message::Refuse(Refuse { code, text }))?;
    control.flush()?;
    control.close();
    Ok(())
}

/// What both can do, and what this end has room for.
fn agree(control: &Control, hello: &Hello, options: &ReceiveOptions) -> Result<Agreed, Refuse> {
    let agreed = hello.agree(&[VERSION], control.suites(), &FEC_KINDS)?;
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

/// What a chunk takes while it comes, with all that may repair it.
fn chunk_memory(hello: &Hello) -> u64 {
    let (chunk, repair) = (u64::from(hello.chunk_bytes), u64::from(hello.fec.m));
    chunk + (chunk * repair).div_ceil(u64::from(hello.fec.k.max(1)))
}

fn window(options: &ReceiveOptions, hello: &Hello) -> u32 {
    let fits = options.memory_bytes / chunk_memory(hello).max(1);
    u32::try_from(fits).unwrap_or(u32::MAX).clamp(1, MAX_WINDOW)
}

/// One lane for each of the sender's, of its kind.
fn specs(options: &ReceiveOptions, hello: &Hello, local: IpAddr) -> Vec<Spec> {
    let given = options.lanes.iter().cloned().map(Some).chain(std::iter::repeat(None));
    let families = hello.lanes.iter().map(|lane| match lane.kind {
        LaneKind::Udp => Family::Udp,
        LaneKind::Tcp => Family::Tcp,
    });
    let own = |family| Spec {
        family,
        place: Place::Address(local),
        port: None,
        rate_bps: None,
        shared: None,
    };
    families
        .zip(given)
        .map(|(family, spec)| spec.map_or_else(|| own(family), |spec| Spec { family, ..spec }))
        .collect()
}
