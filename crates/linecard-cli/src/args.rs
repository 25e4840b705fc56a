//! The command line.

#[cfg(target_os = "linux")]
use crate::attach::AttachArguments;
use crate::codes::{all_exit_codes, exit_codes};
use crate::completions::CompletionsArguments;
use crate::flags::Flags;
use crate::jitter::JitterArguments;
#[cfg(target_os = "linux")]
use crate::job::JobArguments;
use crate::man::ManArguments;
use crate::model::ModelArguments;
use crate::page::PageArguments;
#[cfg(target_os = "linux")]
use crate::plan::PlanArguments;
use crate::reproduce::ReproduceArguments;
use crate::run::lanes::LanesValue;
use crate::schema::SchemaArguments;
#[cfg(target_os = "linux")]
use crate::transfer::{KeysArguments, RecvArguments, SendArguments};
use crate::units;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
#[cfg(target_os = "linux")]
use linecard_app::calibrate::Calibrate;
use linecard_app::model::transfer;
use linecard_app::offload::{coalesce, segment};
use linecard_app::run;
use std::path::PathBuf;

/// A line card in software: cuts large sends into packets (LSO), merges received packets back
/// (LRO), and says where the time goes.
#[derive(Debug, Parser)]
#[command(name = "linecard", version, after_long_help = all_exit_codes(), max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the main job: large sends, segmented, over lanes, merged, every byte verified.
    ///
    /// Needs no rights and no interface: lanes are in memory, or with `--lanes sim` in virtual time. Values
    /// given here take precedence
    /// over those of the scenario, which can also choose the IP version, corruption, hold budget and
    /// checksum policy; scenarios/run.toml shows every key.
    Run(RunArguments),
    /// Join two live ports: packets from NEAR are merged (LRO) on their way to FAR, and what FAR gives
    /// in large packets is cut (LSO).
    ///
    /// NEAR stands for the wire, FAR for the host: a new TAP device gets the MTU and the MAC address of
    /// the near interface and takes its place. Runs until Ctrl-C, then lets go what it holds. Needs
    /// root to open the ports (or the capabilities `net_admin` for TUN and TAP devices, and `net_raw` and `bpf`
    /// too for interfaces), and gives up all rights before the first packet.
    #[cfg(target_os = "linux")]
    Attach(AttachArguments),
    /// Try a network interface in virtual time, before anyone builds it: cores with real firmware,
    /// DMA, bus and line.
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Model(ModelArguments),
    /// Find which cause makes each late packet of a stream, from the wire to the application, and what
    /// to change.
    Jitter(JitterArguments),
    /// Measure what the stages of the offloads and of transfers cost on this machine, for plans.
    ///
    /// Takes some seconds, in which other programs may not get the core, where that is allowed.
    #[cfg(target_os = "linux")]
    Calibrate(JobArguments<Calibrate>),
    /// Say whether stages fit on cores at a rate: replicas, batches, mapping, rings, and what to expect; or
    /// why not, and what would help.
    #[cfg(target_os = "linux")]
    Plan(PlanArguments),
    /// Print published figures and ours side by side.
    Reproduce(ReproduceArguments),
    /// Merge the packets of a capture as a receiver with LRO would.
    ///
    /// Writes a capture in which merged packets carry segment size and count, so that `linecard
    /// segment` gives back the originals, and says why packets did or did not merge.
    Coalesce(CoalesceArguments),
    /// Cut the large packets of a capture, or give back what `coalesce` has merged.
    Segment(SegmentArguments),
    /// Say what this host can do: which kinds of ports, what the kernel lacks, which interfaces.
    ///
    /// Found by trying, with the rights that it is run with: it opens sockets on the loopback
    /// interface and makes a TAP device, for a moment, and touches no other interface. What is
    /// lacking is reported, and is not a failure.
    #[cfg(target_os = "linux")]
    Ports(PortsArguments),
    /// Send a file, a folder or a pipe to `linecard recv`, over one lane or many at once.
    ///
    /// Everything is encrypted; each end knows the other by its key (`linecard keys`) or by a file that
    /// both have (--psk). What has arrived stays when a transfer ends early, and the same command goes on
    /// from there.
    #[cfg(target_os = "linux")]
    Send(SendArguments),
    /// Wait for `linecard send` and put what comes into a folder, or to stdout.
    ///
    /// A file appears under its name when all of it is there and its hash is that of what was sent.
    #[cfg(target_os = "linux")]
    Recv(RecvArguments),
    /// Show the key that this host is known by, make a shared one, or allow somebody to send.
    #[cfg(target_os = "linux")]
    Keys(KeysArguments),
    /// Print what a shell needs to complete this command, its options and their values.
    ///
    /// For bash it goes to `~/.local/share/bash-completion/completions/linecard`, where the package
    /// `bash-completion` is installed. docs/howto/packaging.md has the other shells.
    Completions(CompletionsArguments),
    /// Write a manual page for this command and each of its own into a folder, for packages.
    #[command(hide = true)]
    Man(ManArguments),
    /// Print the JSON Schema of a kind of scenario, with which editors complete and check scenario files.
    ///
    /// For an editor that reads TOML schemas: `linecard schema npu > npu.schema.json`, and in the scenario
    /// `#:schema npu.schema.json` as the first line.
    Schema(SchemaArguments),
}

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = all_exit_codes())]
pub(crate) struct RunArguments {
    /// Scenario file (TOML); see scenarios/ for examples.
    pub(crate) scenario: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: Flags<run::Config>,
    /// Parallel lanes that flows are spread over, 1 to 64 [default: 1]. With the word `sim`, lanes are
    /// links in virtual time, over which chunks are transferred: `--lanes sim --lanes 4` or
    /// `--lanes sim:4` [default: 8].
    #[arg(long, value_name = "N|sim[:N]", value_parser = LanesValue::parse)]
    pub(crate) lanes: Vec<LanesValue>,
    #[command(flatten)]
    pub(crate) page: PageArguments,
    /// Print the account as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten, next_help_heading = "Transfer over lanes in virtual time (--lanes sim)")]
    pub(crate) sim: Flags<transfer::Config>,
}

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = exit_codes(&[0, 1, 2, 3, 4, 130]))]
pub(crate) struct CoalesceArguments {
    /// Capture to read, pcap or pcapng, also compressed by gzip, zstd or lz4; - is stdin.
    pub(crate) input: PathBuf,
    /// Capture to write; - is stdout. Names ending in .pcap give pcap, which cannot hold segment
    /// sizes; all others give pcapng. With .gz, .zst or .lz4 behind that it is compressed.
    #[arg(value_parser = PathBufValueParser::new().map(units::output))]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) flags: Flags<coalesce::Config>,
    #[command(flatten)]
    pub(crate) page: PageArguments,
    /// Print the account as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(allow_negative_numbers = true, after_long_help = exit_codes(&[0, 1, 2, 3, 4, 130]))]
pub(crate) struct SegmentArguments {
    /// Capture to read, pcap or pcapng, also compressed by gzip, zstd or lz4; - is stdin.
    pub(crate) input: PathBuf,
    /// Capture to write; - is stdout. Names ending in .pcap give pcap, all others pcapng.
    #[arg(value_parser = PathBufValueParser::new().map(units::output))]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) flags: Flags<segment::Config>,
    /// Print the account as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct PortsArguments {
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
