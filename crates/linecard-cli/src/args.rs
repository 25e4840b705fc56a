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

/// A line card in software: segments large sends into packets (LSO), merges received packets (LRO), and shows where the
/// time goes.
#[derive(Debug, Parser)]
#[command(name = "linecard", version, after_long_help = all_exit_codes(), max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the main job: segment large sends, carry them over lanes, merge, and verify every byte.
    ///
    /// Needs no privileges and no interface: lanes are in memory, or with `--lanes sim` in virtual time. Values given
    /// here take precedence over those of the scenario, which can also choose the IP version, corruption, hold budget
    /// and checksum policy; `linecard schema run` prints every key.
    Run(RunArguments),
    /// Join two live ports: packets from NEAR are merged (LRO) on their way to FAR, and large packets from
    /// FAR are segmented (LSO).
    ///
    /// NEAR stands for the wire, FAR for the host: a new TAP device gets the MTU and the MAC address of the near
    /// interface and takes its place. Runs until Ctrl-C, then flushes held packets. Needs root to open the ports (or
    /// the capabilities `net_admin` for TUN and TAP devices, and `net_raw` and `bpf` too for interfaces), and drops
    /// all privileges before the first packet.
    #[cfg(target_os = "linux")]
    Attach(AttachArguments),
    /// Model a network interface in virtual time, before it is built: cores with real firmware,
    /// DMA, bus and line.
    #[command(subcommand_required = true, arg_required_else_help = true)]
    Model(ModelArguments),
    /// Find the cause of each late packet of a stream, from the wire to the application, and the setting to change.
    Jitter(JitterArguments),
    /// Measure the cost of the stages of offloads and transfers on this machine, for plans.
    ///
    /// Takes some seconds, in which other programs do not get the core, where that is permitted.
    #[cfg(target_os = "linux")]
    Calibrate(JobArguments<Calibrate>),
    /// Compute whether stages fit on cores at a rate: replicas, batches, mapping, rings and expected rates; or why they
    /// do not, and what would help.
    ///
    /// How long a transfer takes over the links of two hosts, `linecard send PATH HOST --probe` measures.
    #[cfg(target_os = "linux")]
    Plan(PlanArguments),
    /// Print published figures and ours side by side.
    Reproduce(ReproduceArguments),
    /// Merge the packets of a capture as a receiver with LRO would.
    ///
    /// Writes a capture in which merged packets carry segment size and count, so that `linecard segment` restores the
    /// originals, and reports why packets did or did not merge.
    Coalesce(CoalesceArguments),
    /// Segment the large packets of a capture, or restore the packets that `coalesce` has merged.
    Segment(SegmentArguments),
    /// List what this host supports: kinds of ports, missing kernel facilities, interfaces.
    ///
    /// Tries each kind with the privileges of the caller: opens sockets on the loopback interface and creates a TAP
    /// device, for a moment, and touches no other interface. Missing facilities are reported, and are not an error.
    #[cfg(target_os = "linux")]
    Ports(PortsArguments),
    /// Send a file, a folder or a pipe to `linecard recv`, over one or several lanes.
    ///
    /// Everything is encrypted; each end authenticates the other by its key (`linecard keys`) or by a shared key file
    /// (--psk). When a transfer ends early, the data that has arrived is kept, and the same command resumes from there.
    #[cfg(target_os = "linux")]
    Send(SendArguments),
    /// Receive from `linecard send` into a folder, or to stdout.
    ///
    /// A file appears under its name when it is complete and its hash is that of the sender's.
    #[cfg(target_os = "linux")]
    Recv(RecvArguments),
    /// Show the key of this host, create a shared key, or authorize a sender.
    #[cfg(target_os = "linux")]
    Keys(KeysArguments),
    /// Print a shell's completion script for this command, its options and their values.
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
    /// Print the statistics as JSON.
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
    /// Print the statistics as JSON.
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
    /// Print the statistics as JSON.
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
