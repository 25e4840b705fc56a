//! One measurement of a TCP implementation on a TAP device: the other end is the kernel's.

use crate::Result;
use crate::lab::{DEVICE, Lab, Side};
use crate::measure::Figures;
use crate::options::Options;
use crate::processes::Process;
use crate::programs::Program;
use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const PORT: u16 = 4_801;
/// Bytes of the largest packet on the device.
const MTU: &str = "1500";
/// Bytes of a read or write of the kernel's end.
const PIECE: usize = 128 << 10;
/// How long the program may take to accept a connection, and then may pass no byte.
const LIMIT: Duration = Duration::from_secs(10);

/// Starts the program, and lets it send or receive.
pub fn measure(program: &Program, lab: &Lab, options: &Options) -> Result<Figures> {
    let address = SocketAddr::from((Side::Far.inner(), PORT));
    let own = address.to_string();
    let arguments = [&[DEVICE, &own], program.arguments].concat();
    let mut process = Process::start(lab.at(Side::Near), program.path()?, &arguments)?;
    process.wait_for("ready")?;
    lab.configure(Side::Near, DEVICE, Side::Near.inner(), MTU)?;
    let stream = lab.at(Side::Near).inside(|| open(address, &options.congestion))?;
    let time = Duration::from_secs(options.seconds.into());
    let (before, start) = (process.cpu()?, Instant::now());
    let bytes = match program.arguments {
        ["up"] => receive(stream, time)?,
        _ => send(stream, time)?,
    };
    if bytes == 0 {
        return Err("nothing arrived".into());
    }
    let seconds = start.elapsed().as_secs_f64();
    let used = process.cpu()? - before;
    Ok(Figures {
        gbit_per_second: bytes as f64 * 8.0 / seconds / 1e9,
        cpu_seconds_per_gb: used.as_secs_f64() / (bytes as f64 / 1e9),
        round_trip_us: None,
    })
}

/// Connects to the program. A connection that was begun by BBR stays paced whatever is set later, so that congestion
/// control is set first.
fn open(address: SocketAddr, congestion: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::from(socket(AddressFamily::INET, SocketType::STREAM, None)?);
    sockopt::set_tcp_congestion(&stream, congestion).map_err(|error| {
        io::Error::other(format!("congestion control \"{congestion}\": {error}"))
    })?;
    stream.set_read_timeout(Some(LIMIT))?;
    // Connecting, too.
    stream.set_write_timeout(Some(LIMIT))?;
    connect(&stream, &address)?;
    Ok(stream)
}

fn receive(mut stream: TcpStream, time: Duration) -> Result<u64> {
    let (start, mut piece, mut bytes) = (Instant::now(), vec![0; PIECE], 0);
    while start.elapsed() < time {
        match stream.read(&mut piece)? {
            0 => return Err("the program closed its connection".into()),
            len => bytes += len as u64,
        }
    }
    Ok(bytes)
}

/// Until the program has received all, and closes in turn.
fn send(mut stream: TcpStream, time: Duration) -> Result<u64> {
    let (start, piece, mut bytes) = (Instant::now(), vec![0; PIECE], 0);
    while start.elapsed() < time {
        bytes += stream.write(&piece)? as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new())?;
    Ok(bytes)
}
