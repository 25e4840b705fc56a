//! Handshakes over loopback: the time until both ends are authenticated, and what each end takes of the processor; and
//! what the accepting end takes for a stranger.
//!
//! One connection at a time, kinds in turns. Beside them a TCP connection over which one byte goes each way, which is the
//! least that any handshake takes. The accepting end is one thread that exists already; `recv` starts one for each
//! connection.
//!
//! `cargo bench -p linecard-transfer-net --bench handshake [-- --rounds N]`; with `--smoke` it runs once, small.
#![expect(clippy::print_stdout, reason = "the figures are the output")]

mod support;

use linecard_transfer_net::control::{Access, Control, ControlError, Trust};
use linecard_transfer_net::end::thread_time;
use linecard_transfer_net::keys::{Authorized, Fingerprint, Identity, SharedKey};
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};
use support::{median, rounds};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Connections of each kind in a round.
const CONNECTIONS: usize = 200;
const SMALL_CONNECTIONS: usize = 2;
const PATIENCE: Duration = Duration::from_secs(20);

/// What connects.
enum Visitor {
    /// An end of linecard that is accepted.
    Accepted(Access),
    /// One that is refused when its key is seen.
    Refused(Access),
    /// Something else: this many bytes of it.
    Garbage(usize),
    /// The least: one byte each way.
    Echo,
}

/// A kind of connection, and what connections took in each round.
struct Case {
    name: &'static str,
    visitor: Visitor,
    /// How the other end authenticates.
    access: Access,
    /// Medians in us: time, processor of the connecting end, of the accepting end.
    rounds: [Vec<f64>; 3],
}

fn main() -> Result<()> {
    let (rounds, connections) =
        rounds(5).map_or((1, SMALL_CONNECTIONS), |rounds| (rounds, CONNECTIONS));
    let mut cases = cases()?;
    for _ in 0..rounds {
        for case in &mut cases {
            let figures = case.measure(connections)?;
            for (medians, figure) in case.rounds.iter_mut().zip(figures) {
                medians.push(figure);
            }
        }
    }
    println!("us, medians of {connections} connections, then of {rounds} rounds in turns");
    println!("    time   connecting   accepting end (processor)");
    for Case { name, rounds, .. } in cases {
        let [time, connecting, accepting] = rounds.map(median);
        println!("{time:8.0} {connecting:12.0} {accepting:11.0}   {name}");
    }
    Ok(())
}

fn cases() -> Result<Vec<Case>> {
    let [sender, receiver, stranger] =
        [Identity::generate()?, Identity::generate()?, Identity::generate()?];
    let (here, there) = (sender.fingerprint(), receiver.fingerprint());
    let shared = || Access::Shared(SharedKey::new(&[7; 32]));
    let expects = keys(receiver, here);
    let case = |name, visitor, access: &Access| Case {
        name,
        visitor,
        access: access.clone(),
        rounds: Default::default(),
    };
    Ok(vec![
        case("one byte each way over TCP", Visitor::Echo, &expects),
        case("keys that both know", Visitor::Accepted(keys(sender, there)), &expects),
        case("a shared key", Visitor::Accepted(shared()), &shared()),
        case("a stranger's key, refused", Visitor::Refused(keys(stranger, there)), &expects),
        case("1,024 bytes of something else", Visitor::Garbage(1_024), &expects),
        case("closed without a byte", Visitor::Garbage(0), &expects),
    ])
}

/// An end with this key that knows one other.
fn keys(identity: Identity, other: Fingerprint) -> Access {
    let trust = Trust::Authorized(Authorized::Only(vec![other.into()]));
    Access::Keys { identity, trust, pairing: None }
}

impl Case {
    /// Medians of this many connections in us: time, processor of the connecting end, of the accepting end.
    fn measure(&self, connections: usize) -> Result<[f64; 3]> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let mut figures = [(); 3].map(|()| Vec::new());
        thread::scope(|scope| {
            let accepting = scope.spawn(|| {
                (0..connections)
                    .map(|_| self.accept(&listener).map_err(|error| error.to_string()))
                    .collect()
            });
            for _ in 0..connections {
                let (begun, used) = (Instant::now(), thread_time());
                self.connect(address)?;
                figures[0].push(micros(begun.elapsed()));
                figures[1].push(micros(thread_time() - used));
            }
            let used: Result<Vec<Duration>, String> =
                accepting.join().map_err(|_| "the accepting end panicked")?;
            figures[2].extend(used?.into_iter().map(micros));
            Ok::<_, Box<dyn Error>>(())
        })?;
        Ok(figures.map(median))
    }

    fn connect(&self, address: SocketAddr) -> Result<()> {
        let authenticated =
            |access| Control::connect(address, "bench", access, Instant::now() + PATIENCE);
        match &self.visitor {
            Visitor::Accepted(access) => drop(authenticated(access)?),
            Visitor::Refused(access) => match authenticated(access) {
                Err(ControlError::NotAccepted { .. }) => {}
                other => return Err(format!("not refused as a stranger: {other:?}").into()),
            },
            Visitor::Garbage(bytes) => {
                let mut stream = TcpStream::connect(address)?;
                stream.write_all(&vec![b'x'; *bytes])?;
            }
            Visitor::Echo => {
                let mut stream = TcpStream::connect(address)?;
                stream.write_all(b"x")?;
                stream.read_exact(&mut [0])?;
            }
        }
        Ok(())
    }

    /// What a connection takes of the processor.
    fn accept(&self, listener: &TcpListener) -> Result<Duration> {
        let (mut stream, _) = listener.accept()?;
        let used = thread_time();
        match &self.visitor {
            Visitor::Echo => {
                let mut byte = [0];
                stream.read_exact(&mut byte)?;
                stream.write_all(&byte)?;
            }
            visitor => {
                let is_accepted =
                    Control::accept(stream, &self.access, Instant::now() + PATIENCE).is_ok();
                if is_accepted != matches!(visitor, Visitor::Accepted(_)) {
                    return Err(format!(
                        "{}: the other end was accepted: {is_accepted}",
                        self.name
                    )
                    .into());
                }
            }
        }
        Ok(thread_time() - used)
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
