//! Two hosts with an attachment between them, and what is measured on them.

use super::scenario::Scenario;
use crate::failure::Failure;
use linecard_host::attach::{Account, Attached, PortKind, PortSpec, Prepared, Settings};
use linecard_host::lab::{CABLE, Cable, DEVICE, Host, Lab, LabError};
use std::fs;
use std::io::Read;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than told `iperf3` may take: it is killed then.
const PATIENCE: Duration = Duration::from_secs(10);

/// What fails in a lab fails for want of rights or programs.
#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
pub(super) fn failed(error: impl ToString) -> Failure {
    Failure::Attach(error.to_string())
}

/// Why this host cannot have a lab, if it cannot: rights or a program are missing.
pub(super) fn missing() -> Option<String> {
    let mut iperf3 = std::process::Command::new("iperf3");
    let said = iperf3.arg("--version").stdin(Stdio::null()).output();
    if let Err(error) = said {
        return Some(format!("`iperf3` cannot be run ({error}): install the package iperf3"));
    }
    Lab::new(Cable::default()).err().map(|error| error.to_string())
}

/// A lab in which linecard is attached.
pub(super) struct Session {
    pub(super) lab: Lab,
    attached: Attached,
}

impl Session {
    /// Attaches the cable to a new device, with what `change` makes of the settings.
    pub(super) fn start(
        scenario: &Scenario,
        old_sender: bool,
        change: impl FnOnce(&mut Settings) + Send,
    ) -> Result<Self, Failure> {
        let cable = Cable { mtu: scenario.mtu, old_sender, ..Cable::default() };
        let lab = Lab::new(cable).map_err(failed)?;
        let near = match scenario.port.as_str() {
            "packet" => PortKind::Packet(CABLE.into()),
            _ => PortKind::Xdp(CABLE.into()),
        };
        let far = PortKind::Tap(DEVICE.into());
        let mut settings = Settings::new(PortSpec::new(near), PortSpec::new(far));
        // This process goes on to make and remove hosts.
        settings.keep_rights = true;
        change(&mut settings);
        let prepared = lab.enter(Host::Own, || Prepared::new(settings)).map_err(failed)?;
        let attached = prepared.map_err(failed)?.start();
        lab.give_address(Host::Own, DEVICE).map_err(failed)?;
        Ok(Self { lab, attached })
    }

    /// Ends, and gives the account.
    pub(super) fn finish(self) -> Result<Account, Failure> {
        self.attached.stop();
        let (account, failures) = self.attached.finish();
        match failures.into_iter().next() {
            Some(failure) => Err(Failure::Thread(failure.to_string())),
            None => Ok(account),
        }
    }

    /// TCP from the peer to the host by `iperf3`, in bits per second received.
    pub(super) fn iperf(&self, connections: u32, seconds: u64) -> Result<f64, Failure> {
        let address = Host::Own.address().to_string();
        let mut server = self.lab.command(Host::Own, "iperf3");
        let _server = Running(iperf(server.args(["-s", "-1", "-B", &address]))?);
        self.wait_for_listener(5201)?;
        let mut client = self.lab.command(Host::Peer, "iperf3");
        let number = connections.to_string();
        client.args(["-c", &address, "-P", &number, "-t", &seconds.to_string(), "-J"]);
        let said = Running(iperf(&mut client)?).output(Duration::from_secs(seconds) + PATIENCE)?;
        let result: serde_json::Value = serde_json::from_slice(&said)
            .map_err(|error| failed(format!("`iperf3` said nothing that can be read: {error}")))?;
        let rate = &result["end"]["sum_received"]["bits_per_second"];
        rate.as_f64().ok_or_else(|| {
            failed(format!("`iperf3` failed: {}", result["error"].as_str().unwrap_or("no result")))
        })
    }

    /// Waits for a listener on the host.
    fn wait_for_listener(&self, port: u16) -> Result<(), Failure> {
        let wanted = format!(":{port:04X} ");
        for _ in 0..200 {
            let table = self.read(Host::Own, "tcp")?;
            // State 0A is LISTEN.
            if table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A ")) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(failed("`iperf3` does not listen after two seconds"))
    }

    /// Segments that a host has sent again.
    pub(super) fn retransmitted(&self, host: Host) -> Result<u64, Failure> {
        let text = self.read(host, "snmp")?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next(), lines.next());
        let found = names.zip(values).and_then(|(names, values)| {
            let mut pairs = names.split(' ').zip(values.split(' '));
            pairs.find(|(name, _)| *name == "RetransSegs")?.1.parse().ok()
        });
        found.ok_or_else(|| failed("the kernel does not say how much it has sent again"))
    }

    /// A file of `/proc/net` of a host.
    fn read(&self, host: Host, name: &str) -> Result<String, Failure> {
        let path = format!("/proc/thread-self/net/{name}");
        let text = self.lab.enter(host, || fs::read_to_string(path).map_err(LabError::Enter));
        text.and_then(|text| text).map_err(failed)
    }
}

fn iperf(command: &mut std::process::Command) -> Result<Child, Failure> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().map_err(|error| {
        failed(format!("`iperf3` cannot be run ({error}): install the package iperf3"))
    })
}

/// A process that does not outlive this.
struct Running(Child);

impl Running {
    /// What it prints until it ends, which it has to within this time.
    fn output(mut self, time: Duration) -> Result<Vec<u8>, Failure> {
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
                return Err(failed(format!("`iperf3` has not ended after {time:?}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        reader.join().map_err(|_| failed("what `iperf3` said was not read"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Most often it has ended.
        let _killed = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The middle one of some values; 0 of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
