//! Two hosts with an attachment between them, and measurements on them.

use super::super::error::LiveError;
use super::super::iperf3::{self, Test};
use super::scenario::Scenario;
use crate::{Error, Failure};
use linecard_io::attach::{AttachStats, Attached, PortKind, PortSpec, Prepared, Settings};
use linecard_io::calibrate;
use linecard_io::lab::{CABLE, Cable, DEVICE, Host, Lab, LabError};
use std::fs;

pub(super) use super::super::iperf3::failed;

/// Why this host cannot have a lab, if it cannot: rights or a program are missing.
pub(super) fn missing() -> Option<String> {
    if let Some(why) = iperf3::missing() {
        return Some(why);
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
    ) -> Result<Self, Error> {
        let lab = lab(scenario, old_sender)?;
        let near = match scenario.cable.port.name() {
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
        lab.add_address(Host::Own, DEVICE).map_err(failed)?;
        Ok(Self { lab, attached })
    }

    /// Ends, and returns the statistics.
    pub(super) fn finish(self) -> Result<AttachStats, Error> {
        self.attached.stop();
        let (account, failures) = self.attached.finish();
        match failures.into_iter().next() {
            Some(failure) => Err(Failure::Thread.with(failure)),
            None => Ok(account),
        }
    }

    /// TCP from the peer to the host by `iperf3`, in bits per second received.
    pub(super) fn iperf(&self, connections: u32, seconds: u64) -> Result<f64, Error> {
        iperf(&self.lab, connections, seconds)
    }

    /// Segments that a host has sent again.
    pub(super) fn retransmitted(&self, host: Host) -> Result<u64, Error> {
        let text = self.read(host, "snmp")?;
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
        let (names, values) = (lines.next(), lines.next());
        let found = names.zip(values).and_then(|(names, values)| {
            let mut pairs = names.split(' ').zip(values.split(' '));
            pairs.find(|(name, _)| *name == "RetransSegs")?.1.parse().ok()
        });
        Ok(found.ok_or(LiveError::NoRetransmissions)?)
    }

    /// A file of `/proc/net` of a host.
    fn read(&self, host: Host, name: &str) -> Result<String, Error> {
        let path = format!("/proc/thread-self/net/{name}");
        let text = self.lab.enter(host, || fs::read_to_string(path).map_err(LabError::Enter));
        text.and_then(|text| text).map_err(failed)
    }
}

fn lab(scenario: &Scenario, old_sender: bool) -> Result<Lab, Error> {
    let cable = Cable { mtu: scenario.cable.mtu, old_sender, ..Cable::default() };
    Lab::new(cable).map_err(failed)
}

fn iperf(lab: &Lab, connections: u32, seconds: u64) -> Result<f64, Error> {
    let ends = (Host::Peer, Host::Own);
    Test::begin(lab, ends, Host::Own.address(), (connections, seconds))?.finish()
}

/// TCP over the same cable where linecard is not, and Linux merges what it receives (GRO), in bits per second received.
pub(super) fn by_linux(scenario: &Scenario, connections: u32) -> Result<f64, Error> {
    let lab = lab(scenario, false)?;
    lab.features(Host::Own, CABLE, &["gro", "on"]).map_err(failed)?;
    lab.add_address(Host::Own, CABLE).map_err(failed)?;
    iperf(&lab, connections, scenario.throughput.seconds)
}

/// The middle one of some values; 0 of none.
pub(super) fn median(values: Vec<f64>) -> f64 {
    calibrate::median(values).unwrap_or(0.0)
}
