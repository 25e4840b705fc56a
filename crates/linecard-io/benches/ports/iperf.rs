//! `iperf3` on both sides, which ends in time.

use super::Result;
use linecard_io::lab::{Host, Lab};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than told a run may take: it is killed then.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a server may take to listen.
const START: Duration = Duration::from_secs(2);
pub(crate) const PORT: u16 = 5201;

/// Where the data goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the peer: merged.
    In,
    /// To the peer: cut.
    Out,
}

/// The measurements of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) bits_per_second: f64,
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
    pub(crate) retransmits: f64,
}

/// A server that listens, for one run.
pub(crate) struct Server {
    address: String,
    _process: Running,
}

impl Server {
    /// At an address of this host.
    pub(crate) fn start(lab: &Lab, host: Host, address: Ipv4Addr) -> Result<Self> {
        let address = address.to_string();
        let mut command = lab.command(host, "iperf3");
        command.args(["-s", "-1", "-B", &address]);
        let server = Self { address, _process: Running::start(&mut command)? };
        let end = Instant::now() + START;
        while !lab.enter(host, is_listening)?? {
            if Instant::now() > end {
                return Err("`iperf3` does not listen after two seconds".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// Runs a client on the peer.
    pub(crate) fn run(
        self,
        lab: &Lab,
        direction: Direction,
        connections: u32,
        seconds: u64,
    ) -> Result<Run> {
        let (address, number) = (self.address.clone(), connections.to_string());
        let mut client = lab.command(Host::Peer, "iperf3");
        client.args(["-J", "-c", &address, "-P", &number, "-t", &seconds.to_string()]);
        if direction == Direction::Out {
            client.arg("-R");
        }
        let said = Running::start(&mut client)?.output(Duration::from_secs(seconds) + PATIENCE)?;
        let said: Value = serde_json::from_slice(&said)?;
        if let Some(error) = said["error"].as_str() {
            return Err(format!("`iperf3` failed: {error}").into());
        }
        let number = |sum: &str, name: &str| {
            let value = said["end"][sum][name].as_f64();
            value.ok_or_else(|| format!("`iperf3` does not say {name} of {sum}"))
        };
        Ok(Run {
            bits_per_second: number("sum_received", "bits_per_second")?,
            bytes: number("sum_received", "bytes")?,
            seconds: number("sum_received", "seconds")?,
            retransmits: number("sum_sent", "retransmits")?,
        })
    }
}

/// Whether a socket listens in the calling thread's namespace.
fn is_listening() -> std::io::Result<bool> {
    let wanted = format!(":{PORT:04X} ");
    let table = fs::read_to_string("/proc/thread-self/net/tcp")?;
    // State 0A is LISTEN.
    Ok(table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A ")))
}

/// A process that does not outlive this.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> std::io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().map(Self)
    }

    /// Its output until it ends, which it has to within this time.
    fn output(mut self, time: Duration) -> Result<Vec<u8>> {
        let mut stdout = self.0.stdout.take().ok_or("`iperf3` has no output")?;
        let reader = thread::spawn(move || {
            let mut said = Vec::new();
            stdout.read_to_end(&mut said).map(|_| said)
        });
        let end = Instant::now() + time;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > end {
                return Err(format!("`iperf3` has not ended after {time:?}").into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(reader.join().map_err(|_| "what `iperf3` said was not read")??)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Most often it has ended.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}
