//! The arguments of `linecard attach`.

use crate::args::Checksum;
use crate::failure::EXIT_CODES;
use crate::page::PageArguments;
use crate::units;
use clap::{Args, ValueEnum};
use linecard_io::attach::PortSpec;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_help = EXIT_CODES)]
pub(crate) struct AttachArguments {
    /// The port on the side of the wire, as `xdp:eth0` (by AF_XDP) or `packet:eth0` (by a packet
    /// socket), which both take all that the interface receives, `tap:NAME`, `tun:NAME` or
    /// `file:CAPTURE`, which is read. Options follow behind commas: offloads or no-offloads (whether
    /// the kernel gives and takes large packets; by default only at FAR), copy (xdp), promiscuous
    /// (packet), mirror (packet: the kernel gets all packets too), recorded (file: as far apart as
    /// they were captured).
    #[arg(value_name = "NEAR")]
    pub(crate) near: PortSpec,
    /// The port on the side of the host, as `tap:lc0`, which is made when it is not there; `file:CAPTURE`
    /// is written.
    #[arg(value_name = "FAR")]
    pub(crate) far: PortSpec,
    /// On which way packets are merged.
    #[arg(long, value_name = "WAY", default_value = "inward")]
    pub(crate) merge: MergeWay,
    /// Whose word to take for checksums that no port vouches for.
    #[arg(long, value_name = "POLICY", default_value = "verify")]
    pub(crate) checksum: Checksum,
    /// Longest time a packet is held, 1us to 1s.
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration)]
    pub(crate) hold: Duration,
    /// How long a flow has to pause at least before what is held of it is let go: ten times its average
    /// interval, but no less than this, 1us to 1s.
    #[arg(long, alias = "pause", value_name = "TIME", default_value = "20us", value_parser = units::duration)]
    pub(crate) idle_timeout: Duration,
    /// Let go what is held when nothing more has come at once, as kernels do at the end of a poll:
    /// less delay, smaller packets.
    #[arg(long)]
    pub(crate) flush_batches: bool,
    /// Largest merged packet, 576 to 65535 bytes from the IP header.
    #[arg(long, value_name = "BYTES", default_value = "65535", value_parser = units::bytes)]
    pub(crate) max_size: usize,
    /// Flows remembered at once by each worker, 8 to 4194304.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = units::count)]
    pub(crate) max_flows: u64,
    /// When a flow is remembered: with its first data, or with its SYN.
    #[arg(long, alias = "create-on", value_name = "EVENT", default_value = "data")]
    pub(crate) learn_on: LearnOn,
    /// Put TCP data into sequence before it is merged, waiting at most 250us for what is missing.
    #[arg(long)]
    pub(crate) reorder: bool,
    /// Acknowledge data from NEAR on behalf of its receiver; see docs/design/modes.md for what that gives up.
    #[arg(long, value_name = "WINDOW", num_args = 0..=1, default_missing_value = "receiver")]
    pub(crate) active_ack: Option<ActiveAckWindow>,
    /// Workers, 1 to 1024; with inline deployment each has a queue of both ports.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = units::count)]
    pub(crate) workers: u64,
    /// Cores to pin threads to, as 0,2-3: the workers first [default: none].
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) cores: Option<Cores>,
    /// Which threads there are.
    #[arg(long, value_name = "HOW", default_value = "inline")]
    pub(crate) deployment: DeploymentKind,
    /// What a thread does when there is nothing to do.
    #[arg(long, value_name = "POLICY", default_value = "interrupt")]
    pub(crate) idle: IdlePolicy,
    /// Packets taken from a port at a time, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = units::count)]
    pub(crate) batch: u64,
    /// Buffers of each port and worker, 128 to 1048576; three quarters may be held.
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = units::count)]
    pub(crate) buffers: u64,
    /// Whose packet goes out next, where workers share a port.
    #[arg(long, value_name = "ORDER", default_value = "round-robin")]
    pub(crate) output_order: OutputOrder,
    /// Packets in the rings between threads, 1 to 65536.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = units::count)]
    pub(crate) ring: u64,
    /// End after so long, 0.01 to 1000000000 seconds [default: at Ctrl-C].
    #[arg(long, value_name = "SECONDS", value_parser = units::seconds)]
    pub(crate) seconds: Option<f64>,
    /// Time between two updates of the view, or two lines of JSON.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    pub(crate) interval: Duration,
    /// Serve Prometheus metrics at this address, as 127.0.0.1:9100; a port alone is on loopback.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) metrics: Option<SocketAddr>,
    /// Keep all rights, for debuggers.
    #[arg(long)]
    pub(crate) keep_rights: bool,
    #[command(flatten)]
    pub(crate) page: PageArguments,
    /// Print a line of JSON for each interval, and the account as the last one.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What `--merge` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MergeWay {
    /// From NEAR to FAR.
    Inward,
    /// From FAR to NEAR.
    Outward,
    /// Both ways.
    Both,
    /// Nothing is merged.
    None,
}

/// What `--learn-on` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LearnOn {
    /// With its first data.
    Data,
    /// With its SYN; connections that were there before are not merged.
    Syn,
}

/// What `--active-ack` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActiveAckWindow {
    /// Promise what the receiver has promised.
    Receiver,
    /// Promise 65,535 bytes, as the paper does.
    Paper,
}

/// What `--deployment` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeploymentKind {
    /// Each worker has queues of both ports.
    Inline,
    /// One thread has the ports, workers merge.
    Shared,
    /// Each port has a thread, workers merge.
    Dedicated,
}

/// What `--idle` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IdlePolicy {
    /// Look again at once: least delay, all of a core.
    Spin,
    /// Let others run first.
    Yield,
    /// Sleep 50us.
    Sleep,
    /// Sleep until something comes; while 150,000 packets or more pass in a second, sleep 50us at a time
    /// instead (up to 100us with the system's timer slack), so that each wake-up moves several.
    Interrupt,
}

/// What `--output-order` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputOrder {
    /// Workers in turn: none waits for busy ones.
    RoundRobin,
    /// First come, first served.
    Fifo,
    /// Last come, first served, as the paper's engine.
    Stack,
}

/// Numbers of cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores(pub(crate) Vec<usize>);

/// Reads `0,2-3`.
fn cores(text: &str) -> Result<Cores, String> {
    const MOST: usize = 1_024;
    let wrong = || format!("{text} is no list of cores: write 0,2-3");
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse().map_err(|_| wrong());
        let range: std::ops::RangeInclusive<usize> = number(first)?..=number(last)?;
        if range.is_empty() || *range.end() >= MOST {
            return Err(wrong());
        }
        cores.extend(range);
    }
    Ok(Cores(cores))
}

/// Reads an address, or a port of loopback.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.trim_start_matches(':').parse::<u16>();
    port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)))
        .or_else(|_| text.parse())
        .map_err(|_| format!("{text} is no address: write 127.0.0.1:9100, or 9100 for loopback"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(cores("0,2-3"), Ok(Cores(vec![0, 2, 3])));
        for bad in ["", "a", "3-2", "0-99999", "1,,2", "-1"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn metrics_are_on_loopback_unless_told_otherwise() {
        assert_eq!(address("9100").map(|a| a.to_string()), Ok("127.0.0.1:9100".into()));
        assert_eq!(address(":9100").map(|a| a.to_string()), Ok("127.0.0.1:9100".into()));
        assert_eq!(address("[::]:1").map(|a| a.to_string()), Ok("[::]:1".into()));
        assert!(address("localhost").is_err() && address("99999").is_err());
    }
}
