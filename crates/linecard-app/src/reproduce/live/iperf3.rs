//! `iperf3` between the hosts of a lab.

use super::error::LiveError;
use crate::{Error, Failure};
use linecard_io::lab::{Host, Lab, LabError};
use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where it listens unless told otherwise.
const PORT: u16 = 5_201;
/// How much longer than told it may take: it is killed then.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why it cannot be run, if it cannot.
pub(super) fn missing() -> Option<String> {
    let said = Command::new("iperf3").arg("--version").stdin(Stdio::null()).output();
    said.err().map(|error| LiveError::NotRun(error).to_string())
}

/// A running TCP transfer between two hosts.
pub(super) struct Test {
    client: Running,
    /// Ends with it.
    _server: Running,
    most: Duration,
}

impl Test {
    /// Begins to send for this time, over this many connections, from a host to the address of
    /// another.
    pub(super) fn begin(
        lab: &Lab,
        (from, to): (Host, Host),
        address: Ipv4Addr,
        (connections, seconds): (u32, u64),
    ) -> Result<Self, Error> {
        let place = address.to_string();
        let server = start(lab.command(to, "iperf3").args(["-s", "-1", "-B", &place]))?;
        wait_for_listener(lab, to, address)?;
        let (number, time) = (connections.to_string(), seconds.to_string());
        let arguments = ["-c", &place, "-P", &number, "-t", &time, "-J"];
        let client = start(lab.command(from, "iperf3").args(arguments))?;
        Ok(Self { client, _server: server, most: Duration::from_secs(seconds) + PATIENCE })
    }

    /// Waits for its end; bits per second received.
    pub(super) fn finish(self) -> Result<f64, Error> {
        let said = self.client.output(self.most)?;
        let result: serde_json::Value = serde_json::from_slice(&said).map_err(LiveError::Output)?;
        let rate = &result["end"]["sum_received"]["bits_per_second"];
        Ok(rate.as_f64().ok_or_else(|| LiveError::Failed {
            said: result["error"].as_str().map(str::to_owned),
        })?)
    }
}

/// Waits until it listens.
fn wait_for_listener(lab: &Lab, host: Host, address: Ipv4Addr) -> Result<(), Error> {
    // As the kernel has it: the bytes of the address as a number of this processor.
    let number = u32::from_ne_bytes(address.octets());
    let wanted = format!("{number:08X}:{PORT:04X} ");
    for _ in 0..200 {
        let read = || fs::read_to_string("/proc/thread-self/net/tcp").map_err(LabError::Enter);
        let table = lab.enter(host, read).and_then(|table| table).map_err(failed)?;
        // State 0A is LISTEN.
        if table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A ")) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(LiveError::NotListening.into())
}

fn start(command: &mut Command) -> Result<Running, LiveError> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map(Running).map_err(LiveError::NotRun)
}

/// A process that does not outlive this.
struct Running(Child);

impl Running {
    /// Its output until it ends, which must be within this time.
    fn output(mut self, time: Duration) -> Result<Vec<u8>, Error> {
        let stdout = self.0.stdout.take();
        let reader = thread::spawn(move || {
            let mut said = Vec::new();
            // Cut short, it cannot be understood later.
            let _read = stdout.map(|mut stdout| stdout.read_to_end(&mut said));
            said
        });
        let end = Instant::now() + time;
        while self.0.try_wait().map_err(failed)?.is_none() {
            if Instant::now() > end {
                return Err(LiveError::NotEnded { time }.into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        reader.join().map_err(|_| LiveError::NotRead.into())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Most often it has ended.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// Failures in a lab are due to missing privileges or programs.
pub(super) fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Failure::Attach.with(error)
}
