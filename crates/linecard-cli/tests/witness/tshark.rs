//! Verdict of tshark on each packet of a capture.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Checksum fields of tshark have this value when they are wrong.
const BAD: &str = "0";

/// Faults of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    IpChecksum,
    TcpChecksum,
    UdpChecksum,
    GreChecksum,
    Malformed,
}

/// A packet as tshark sees it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    len: String,
    time: String,
    /// All protocols, outermost first.
    protocols: String,
    checksums: String,
    faults: BTreeSet<Fault>,
}

/// A capture as tshark sees it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict(Vec<Seen>);

const FIELDS: [&str; 10] = [
    "frame.len",
    "frame.time_epoch",
    "frame.protocols",
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "gre.checksum.status",
    "_ws.malformed",
    "tcp.checksum",
    "udp.checksum",
];

impl Verdict {
    pub(crate) fn of(capture: &Path) -> Self {
        let mut tshark = Command::new("tshark");
        for layer in ["ip", "tcp", "udp"] {
            tshark.args(["-o", &format!("{layer}.check_checksum:TRUE")]);
        }
        tshark.args(["-n", "-T", "fields"]).args(FIELDS.iter().flat_map(|field| ["-e", field]));
        let output = tshark.arg("-r").arg(capture).output().unwrap();
        // A damaged capture gives the packets before the damage and exit code 2.
        assert!(
            matches!(output.status.code(), Some(0 | 2)),
            "{}: {}",
            capture.display(),
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout);
        Self(text.lines().map(seen).collect())
    }

    /// Faults that the original packets do not have: `origins` has, for each packet, the numbers of
    /// those, from 0.
    pub(crate) fn complaints(&self, before: &Self, origins: &[Vec<usize>]) -> Vec<String> {
        if self.0.len() != origins.len() {
            return vec![format!("tshark sees {} of {} packets", self.0.len(), origins.len())];
        }
        let mut complaints = Vec::new();
        for (number, (seen, origins)) in self.0.iter().zip(origins).enumerate() {
            let was = |fault| {
                let had = |origin: &usize| before.0.get(*origin).map(|seen| &seen.faults);
                origins.iter().filter_map(had).any(|faults| faults.contains(fault))
            };
            for fault in seen.faults.iter().filter(|fault| !was(fault)) {
                complaints.push(seen.complaint(number, *fault));
            }
        }
        complaints
    }

    /// Packets with this protocol among theirs.
    pub(crate) fn with(&self, protocol: &str) -> usize {
        let has = |seen: &&Seen| seen.protocols.split(':').any(|name| name == protocol);
        self.0.iter().filter(has).count()
    }

    /// Packets with this fault.
    pub(crate) fn with_fault(&self, fault: Fault) -> usize {
        self.0.iter().filter(|seen| seen.faults.contains(&fault)).count()
    }

    /// The first thing that is wrong.
    pub(crate) fn wrong(&self) -> Option<String> {
        assert!(!self.0.is_empty(), "tshark sees no packet");
        let mut faults = self.0.iter().enumerate().flat_map(|(number, seen)| {
            seen.faults.iter().map(move |fault| seen.complaint(number, *fault))
        });
        faults.next()
    }
}

impl Seen {
    fn complaint(&self, number: usize, fault: Fault) -> String {
        let Self { len, protocols, .. } = self;
        let what = match fault {
            Fault::IpChecksum => "bad ip checksum",
            Fault::TcpChecksum => "bad tcp checksum",
            Fault::UdpChecksum => "bad udp checksum",
            Fault::GreChecksum => "bad gre checksum",
            Fault::Malformed => "malformed",
        };
        format!("packet {} of {len} bytes ({protocols}): {what}", number + 1)
    }
}

fn seen(line: &str) -> Seen {
    let columns: Vec<&str> = line.split('\t').collect();
    let [len, time, protocols, ip, tcp, udp, gre, malformed, tcp_field, udp_field] = columns[..]
    else {
        panic!("tshark gives {} columns: {line}", columns.len())
    };
    // Packets inside packets have fields of their own.
    let is_bad = |status: &str| status.split(',').any(|status| status == BAD);
    let found = [
        (Fault::IpChecksum, is_bad(ip)),
        (Fault::TcpChecksum, is_bad(tcp)),
        (Fault::UdpChecksum, is_bad(udp)),
        (Fault::GreChecksum, is_bad(gre)),
        (Fault::Malformed, !malformed.is_empty() || protocols.contains("_ws.malformed")),
    ];
    Seen {
        len: len.to_owned(),
        time: time.to_owned(),
        protocols: protocols.to_owned(),
        checksums: format!("{tcp_field} {udp_field}"),
        faults: found.into_iter().filter(|(_, found)| *found).map(|(fault, _)| fault).collect(),
    }
}
