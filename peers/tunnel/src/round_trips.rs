//! Round trips of one small datagram after the other: a client at one end, an echo at the other.

use crate::Result;
use crate::lab::{Lab, Side};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a datagram.
const SIZE: usize = 64;
/// The port of the echo.
const PORT: u16 = 7;
/// How long an answer may take.
const LIMIT: Duration = Duration::from_millis(200);
/// How long the path may take until it carries its first packet.
const START_LIMIT: Duration = Duration::from_secs(10);
/// Round trips that are not counted, at the beginning.
const WARM_UP: u32 = 200;
/// Answers that may be missing.
const MAX_LOST: u32 = 20;
/// An empty datagram ends the echo; it is repeated, should it be lost.
const ENDS: usize = 3;

/// Waits until the path carries packets, and returns the times of `count` round trips, sorted.
pub fn measure(lab: &Lab, count: u32) -> Result<Vec<Duration>> {
    let bind = |side: Side, port| lab.at(side).inside(|| UdpSocket::bind((side.inner(), port)));
    let echo = bind(Side::Far, PORT)?;
    echo.set_read_timeout(Some(START_LIMIT))?;
    let client = bind(Side::Near, 0)?;
    client.connect((Side::Far.inner(), PORT))?;
    client.set_read_timeout(Some(LIMIT))?;
    thread::scope(|scope| {
        scope.spawn(move || answer(&echo));
        let times = ask(&client, count);
        for _ in 0..ENDS {
            // The echo may have ended with an earlier one.
            let _sent = client.send(&[]);
        }
        times
    })
}

/// Sends back what comes, until it is nothing.
fn answer(echo: &UdpSocket) {
    let mut buffer = [0; SIZE];
    while let Ok((len, from)) = echo.recv_from(&mut buffer)
        && len > 0
    {
        // A lost answer is the client's to count.
        let _sent = echo.send_to(&buffer[..len], from);
    }
}

fn ask(client: &UdpSocket, count: u32) -> Result<Vec<Duration>> {
    let start = Instant::now();
    while round_trip(client, 0)?.is_none() {
        if start.elapsed() > START_LIMIT {
            return Err("no packet passes through the tunnel".into());
        }
    }
    let mut times = Vec::with_capacity(count as usize);
    let mut lost = 0;
    for number in 1..=WARM_UP + count {
        match round_trip(client, number)? {
            Some(time) if number > WARM_UP => times.push(time),
            Some(_) => {}
            None => lost += 1,
        }
        if lost > MAX_LOST {
            return Err(
                format!("more than {MAX_LOST} of {number} round trips had no answer").into()
            );
        }
    }
    times.sort_unstable();
    Ok(times)
}

/// The time of a round trip, or nothing if there was no answer.
fn round_trip(client: &UdpSocket, number: u32) -> io::Result<Option<Duration>> {
    let mut datagram = [0; SIZE];
    datagram[..4].copy_from_slice(&number.to_le_bytes());
    let start = Instant::now();
    match client.send(&datagram) {
        Err(error) if error.kind() != ErrorKind::ConnectionRefused => return Err(error),
        _ => {}
    }
    let mut answer = [0; SIZE];
    loop {
        match client.recv(&mut answer) {
            Ok(_) if answer == datagram => return Ok(Some(start.elapsed())),
            // The late answer to an earlier one.
            Ok(_) => {}
            Err(error) if is_silence(&error) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::ConnectionRefused
    )
}
