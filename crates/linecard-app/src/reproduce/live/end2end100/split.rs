//! The plain way to use several lanes: a chunk in equal parts over as many TCP connections.

use super::super::error::LiveError;
use crate::Error;
use linecard_io::lab::{Host, Lab};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

/// The port of each connection's receiver.
const PORT: u16 = 4_790;

/// Sends `chunks` of `part` bytes on each of `lanes`, one after the other; the median time of one until
/// all its parts are confirmed, in ns.
pub(super) fn run(lab: &Lab, lanes: usize, part: usize, chunks: usize) -> Result<u64, Error> {
    let numbers = || (0..=u8::MAX).take(lanes);
    let listeners = lab.enter(Host::Peer, || {
        let bind = |lane| TcpListener::bind((Host::Peer.lane_address(lane), PORT));
        numbers().map(bind).collect::<io::Result<Vec<_>>>()
    });
    let listeners = listeners.map_err(failed)?.map_err(failed)?;
    std::thread::scope(|scope| {
        for listener in &listeners {
            scope.spawn(move || confirm(listener, part, chunks));
        }
        let streams = lab.enter(Host::Own, || {
            let connect = |lane| TcpStream::connect((Host::Peer.lane_address(lane), PORT));
            numbers().map(connect).collect::<io::Result<Vec<_>>>()
        });
        let mut streams = streams.map_err(failed)?.map_err(failed)?;
        let mut times = Vec::with_capacity(chunks);
        for _ in 0..chunks {
            let start = Instant::now();
            send_parts(&mut streams, part).map_err(failed)?;
            times.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or(0))
    })
}

fn send_parts(streams: &mut [TcpStream], part: usize) -> io::Result<()> {
    let bytes = vec![7; part];
    std::thread::scope(|scope| {
        let parts: Vec<_> = streams
            .iter_mut()
            .map(|stream| {
                let bytes = &bytes;
                scope.spawn(move || {
                    stream.write_all(bytes)?;
                    stream.read_exact(&mut [0])
                })
            })
            .collect();
        parts.into_iter().try_for_each(|part| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

/// Reads each part, and reports its arrival.
fn confirm(listener: &TcpListener, part: usize, chunks: usize) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    let mut bytes = vec![0; part];
    for _ in 0..chunks {
        stream.read_exact(&mut bytes)?;
        stream.write_all(&[1])?;
    }
    Ok(())
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    LiveError::Split(Box::new(error)).into()
}
