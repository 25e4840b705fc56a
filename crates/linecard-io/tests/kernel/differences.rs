//! Where Linux 6.18 and ours differ, and why: every row is checked, and so is the document.

use std::collections::BTreeMap;

/// The kernel that the table is of.
pub(crate) const WRITTEN_FOR: &str = "6.18.";

/// Why rows differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// We want it so.
    Design,
    /// The kernel of the machine may or may not have been built with it.
    Lacking,
}

/// Rows with one reason.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    pub(crate) title: &'static str,
    pub(crate) why: &'static str,
    pub(crate) rows: &'static [Row],
}

/// One case: which frames were merged, by number, in the order in which they came out.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) case: &'static str,
    pub(crate) kernel: &'static str,
    pub(crate) ours: &'static str,
}

/// The expected result of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) kind: Kind,
    pub(crate) kernel: String,
    pub(crate) ours: String,
}

/// Rows by case.
pub(crate) fn by_case(groups: &'static [Group]) -> BTreeMap<&'static str, Expected> {
    let one = |kind, row: &Row| {
        let (kernel, ours) = (row.kernel.to_owned(), row.ours.to_owned());
        Expected { kind, kernel, ours }
    };
    let rows =
        |group: &'static Group| group.rows.iter().map(move |row| (row.case, one(group.kind, row)));
    groups.iter().flat_map(rows).collect()
}

/// Differences of packets in packets.
pub(crate) const IN_TUNNELS: &[Group] = &[
    Group {
        kind: Kind::Design,
        title: "Tunnels in tunnels",
        why: "Linux merges through one tunnel of a kind. Here as many are followed as are \
              configured; each header has its rules, and segmenting restores all of them.",
        rows: &[row("IPv4 in IP over IPv4, twice", "1 2 3 4 5", "1+2+3+4+5")],
    },
    Group {
        kind: Kind::Lacking,
        title: "PPPoE",
        why: "This kernel was built without PPP, so it merges nothing in a PPPoE session.",
        rows: &[
            row("IPv4 in PPPoE", "1 2 3 4 5", "1+2+3+4+5"),
            row("IPv4 in PPPoE, session, third", "1 2 3 4 5", "1+2 3 4+5"),
            row("IPv4 in PPPoE, TTL, third", "1 2 3 4 5", "1+2 3 4+5"),
            row("IPv4 in PPPoE, ECN, third", "1 2 3 4 5", "1+2 3 4+5"),
            row("IPv4 in PPPoE, FIN, third", "1 2 3 4 5", "1+2+3 4+5"),
            row("IPv4 in PPPoE, PSH, third", "1 2 3 4 5", "1+2+3 4+5"),
            row("IPv4 in PPPoE, ports, third", "1 2 3 4 5", "1+2 3 4+5"),
            row("IPv6 in PPPoE", "1 2 3 4 5", "1+2+3+4+5"),
            row("IPv6 in PPPoE, session, third", "1 2 3 4 5", "1+2 3 4+5"),
            row("IPv6 in PPPoE, TTL, third", "1 2 3 4 5", "1+2 3 4+5"),
            row("IPv6 in PPPoE, ECN, third", "1 2 3 4 5", "1+2 3 4+5"),
            row("IPv6 in PPPoE, FIN, third", "1 2 3 4 5", "1+2+3 4+5"),
            row("IPv6 in PPPoE, PSH, third", "1 2 3 4 5", "1+2+3 4+5"),
            row("IPv6 in PPPoE, ports, third", "1 2 3 4 5", "1+2 3 4+5"),
        ],
    },
];

pub(crate) const DIFFERENCES: &[Group] = &[
    Group {
        kind: Kind::Design,
        title: "Nothing overtakes held data",
        why: "Linux forwards a packet that cannot be merged while earlier ones of its \
              connection are still held. Here the packet waits behind them, which keeps the \
              order within a connection. In UDP, Linux even merges across the forwarded \
              packet.",
        rows: &[
            row("TCP checksum wrong, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("TCP checksum wrong, last", "5 1+2+3+4", "1+2+3+4 5"),
            row("IPv4 checksum wrong, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("IPv4 checksum wrong, last", "5 1+2+3+4", "1+2+3+4 5"),
            row("IPv4 options, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("IPv4 first fragment, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("IPv4 later fragment, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("IPv6 first fragment, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("IPv6 atomic fragment, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("UDP over IPv4, checksum wrong, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("UDP over IPv4, checksum none, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("UDP over IPv4, empty, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("UDP over IPv4, trailer, third", "3 1+2 4+5", "1+2 3 4+5"),
            row("UDP over IPv6, checksum wrong, third", "3 1+2+4+5", "1+2 3 4+5"),
            row("UDP over IPv6, checksum none, third", "3 1+2+4+5", "1+2 3 4+5"),
            row("UDP over IPv6, empty, third", "3 1+2+4+5", "1+2 3 4+5"),
            row("UDP over IPv6, trailer, third", "3 1+2+4+5", "1+2 3 4+5"),
        ],
    },
    Group {
        kind: Kind::Design,
        title: "What cannot be restored is not merged",
        why: "Linux does not compare the urgent pointer, and accepts the TCP checksum \
              0xFFFF where a sender computes 0x0000. Segmenting could restore neither.",
        rows: &[
            row("TCP urgent pointer without URG, third", "1+2+3+4+5", "1+2 3 4+5"),
            row("TCP checksum 0xFFFF for 0x0000, third", "1+2+3+4+5", "1+2 3 4+5"),
        ],
    },
    Group {
        kind: Kind::Design,
        title: "What can be restored is merged",
        why: "Segmenting restores UDP over IPv4 without checksums, frames padded to 60 bytes, \
              and an equal reserved flag of IPv4. Linux merges none of them.",
        rows: &[
            row("UDP over IPv4, checksum none, all", "1 2 3 4 5", "1+2+3+4+5"),
            row("short frames, padded", "1 2 3 4 5", "1+2+3+4+5"),
            row("padded tail", "1+2 3", "1+2+3"),
            row("IPv4 reserved flag, all", "1 2 3 4 5", "1+2+3+4+5"),
        ],
    },
    Group {
        kind: Kind::Design,
        title: "CWR as in Linux 7.2",
        why: "Accurate ECN (RFC 9768) makes CWR part of a counter. Linux 7.2 merges packets \
              with equal ECN flags and says so to the segmenting side; 6.18 merges none with \
              CWR.",
        rows: &[
            row("TCP CWR, all", "1 2 3 4 5", "1+2+3+4+5"),
            row("TCP CWR, first two", "1 2 3+4+5", "1+2 3+4+5"),
            row("TCP AE, CWR and ECE, all", "1 2 3 4 5", "1+2+3+4+5"),
        ],
    },
    Group {
        kind: Kind::Design,
        title: "More flows at once",
        why: "Linux holds eight flows of one hash bucket, and all are in one here; a ninth \
              flushes the oldest. The flow table here has 4,096 places.",
        rows: &[row(
            "nine flows",
            "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36",
            "1+10+19+28 2+11+20+29 3+12+21+30 4+13+22+31 5+14+23+32 6+15+24+33 7+16+25+34 8+17+26+35 9+18+27+36",
        )],
    },
    Group {
        kind: Kind::Lacking,
        title: "VLAN tags",
        why: "This kernel was built without 802.1Q, so it merges nothing with a tag in its \
              bytes.",
        rows: &[
            row("VLAN 802.1Q, all", "1 2 3 4 5", "1+2+3+4+5"),
            row("VLAN 802.1ad, all", "1 2 3 4 5", "1+2+3+4+5"),
            row("VLAN two tags, all", "1 2 3 4 5", "1+2+3+4+5"),
        ],
    },
];

const fn row(case: &'static str, kernel: &'static str, ours: &'static str) -> Row {
    Row { case, kernel, ours }
}
