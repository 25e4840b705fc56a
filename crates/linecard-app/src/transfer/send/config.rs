//! The parameters of `send`.

use crate::model::transfer::Spreading;
use crate::transfer::{Access, CodeSource, Peer};
use garde::Validate;
use linecard_config::{Bytes, Duration, Maybe, Parsed, Rate};
use linecard_transfer::control::{MAX_CHUNK_BYTES, MIN_CHUNK_BYTES, MIN_PAYLOAD_BYTES};
use linecard_transfer::fec::Repair;
use linecard_transfer::wire::MAX_BODY_BYTES;
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::file::{ChunkBytes, MAX_OBJECTS};
use linecard_transfer_net::lane::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::PathBuf;

/// Data to send, its receiver, and the options.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// files, folders with their contents, - for stdin, `s3://BUCKET/KEY` for an object of an object store or those below
    /// it, or test:SIZE, as test:2G: that many bytes from memory, which the receiver discards (write ./test:2G for a file
    /// of that name); the last three alone
    #[default(vec![PathBuf::from("-")])]
    pub inputs: Vec<PathBuf>,
    /// name of the data of - at the receiver
    #[schemars(extend("x-flag" = "name", "x-value" = "NAME", "x-default" = "stdin"))]
    pub name: Option<String>,
    /// where `linecard recv` runs: a name of the file of hosts, another name or an address, with :PORT if it is not 4780; or
    /// HOST:DIR, USER@HOST:DIR, to have it started there by ssh with a key for once
    pub peer: Parsed<Peer>,
    /// short names of receivers: a TOML file with a table for each, which has its address and parameters of `send`; what
    /// is given here outweighs them
    #[schemars(extend(
        "x-flag" = "hosts",
        "x-value" = "FILE",
        "x-default" = "~/.config/linecard/hosts.toml"
    ))]
    pub hosts: Option<PathBuf>,
    /// with HOST:DIR, the command that logs in, as "ssh -p 2222"
    #[default("ssh".to_owned())]
    #[schemars(extend("x-flag" = "ssh", "x-value" = "COMMAND"))]
    pub ssh: String,
    /// with HOST:DIR, the command that receives there, with its options, as "/opt/bin/linecard recv --overwrite"
    #[default("linecard recv".to_owned())]
    #[schemars(extend("x-flag" = "receiver", "x-value" = "COMMAND"))]
    pub receiver: String,
    /// a lane from here to the receiver, repeated for each: an interface or an address of this host, as eth1,
    /// 10.0.0.1:7000, tcp:10.0.0.1; followed by ,rate=200M (bit/s, if it is known and not shared), ,congestion=cubic (to
    /// share as TCP does) and ,shared=NAME (lanes of one name share a bottleneck)
    #[schemars(extend(
        "x-flag" = "lane",
        "x-default" = "one over UDP from each interface of this host by which the receiver is reached"
    ))]
    pub lanes: Vec<Parsed<Spec>>,
    /// how chunks are spread over lanes: whole (stable), in parts over all (low-latency), or chosen by the amount of
    /// data (auto)
    #[default(Spreading::Auto)]
    #[schemars(extend("x-flag" = "mode"))]
    pub mode: Spreading,
    /// repair of lost packets without retransmission: none, xor:K (one for K), rs:K,M (M for K), duplicate, or auto: as
    /// much as brings chunks earlier, by losses and round-trip times, and at most 4 for 28
    #[default(Parsed(Repair::Auto))]
    #[schemars(extend("x-flag" = "fec", "x-value" = "SCHEME"))]
    pub fec: Parsed<Repair>,
    /// rate of each lane that names none, in bit/s, as 200M, of one lane if none is named; unlimited sends as fast as the path allows
    #[garde(range(min = Rate::KILO, max = Rate::tera(10)))]
    #[schemars(extend("x-flag" = "rate"))]
    pub rate: Maybe<Rate>,
    /// data bytes of a packet
    #[garde(range(min = Bytes::new(u64::from(MIN_PAYLOAD_BYTES)), max = Bytes::new(MAX_BODY_BYTES as u64)))]
    #[schemars(extend(
        "x-flag" = "payload",
        "x-default" = "the largest of 8896, 4096 and 1408 that fits"
    ))]
    pub payload: Option<Bytes>,
    /// length of a chunk, a power of two: after an interruption those in flight are sent again
    #[default(Bytes::new(ChunkBytes::default().bytes()))]
    #[garde(
        range(min = Bytes::new(u64::from(MIN_CHUNK_BYTES)), max = Bytes::new(u64::from(MAX_CHUNK_BYTES))),
        custom(length_of_chunks)
    )]
    #[schemars(extend("x-flag" = "chunk"))]
    pub chunk: Bytes,
    /// of the files of a folder, send only those with such a name, as *.mxf or /day1/**/*.wav, repeated for each: a
    /// pattern as in .gitignore
    #[schemars(extend("x-flag" = "include", "x-value" = "PATTERN"))]
    pub include: Vec<String>,
    /// leave such files and folders out of a folder, as *.tmp or /cache/, repeated for each; it outweighs --include
    #[schemars(extend("x-flag" = "exclude", "x-value" = "PATTERN"))]
    pub exclude: Vec<String>,
    /// read and compare files that are there with the same length and time, too; otherwise these count as the same
    #[schemars(extend("x-flag" = "checksum"))]
    pub checksum: bool,
    /// send files of folders that are hard links of one another once, and link them at the receiver; otherwise they become
    /// files of their own
    #[schemars(extend("x-flag" = "hard-links"))]
    pub hard_links: bool,
    /// send symbolic links that lead out of the folder that is sent, too, as links; the receiver must permit it
    #[schemars(extend("x-flag" = "links-out"))]
    pub links_out: bool,
    /// print what would be sent, and change nothing at the receiver; with --json a line of JSON for each file, folder
    /// and link, and one for all
    #[schemars(extend("x-flag" = "dry-run"))]
    pub dry_run: bool,
    /// measure the lanes with test data for five seconds, and say how long sending would take and which options fit; nothing
    /// at the receiver is changed
    #[schemars(extend("x-flag" = "probe"))]
    pub probe: bool,
    /// when all has arrived, remove from the folders that are sent what the receiver has and this host has not, but not
    /// what patterns leave out here; the receiver must permit it
    #[schemars(extend("x-flag" = "delete"))]
    pub delete: bool,
    /// with --delete, remove nothing if it would be more files and folders than this; if it is given, a folder that is
    /// empty here is emptied there, too
    #[garde(range(min = 0, max = MAX_OBJECTS as u64))]
    #[schemars(extend("x-flag" = "max-delete", "x-value" = "N", "x-default" = "1000"))]
    pub max_delete: Option<u64>,
    /// How the ends know each other.
    #[garde(dive)]
    pub access: Access,
    /// keys of known receivers
    #[schemars(extend(
        "x-flag" = "known-peers",
        "x-value" = "FILE",
        "x-default" = "~/.config/linecard/known_peers",
        "x-conflicts" = ["psk", "insecure-none"]
    ))]
    pub known_peers: Option<PathBuf>,
    /// the code that `linecard recv --pair` shows: afterwards the ends know each other's keys; - reads it from the
    /// terminal or from stdin, so that other users of this host do not see it
    #[schemars(extend(
        "x-flag" = "pair",
        "x-value" = "CODE",
        "x-conflicts" = ["accept-new", "strict", "psk", "insecure-none"]
    ))]
    pub pair: Option<Parsed<CodeSource>>,
    /// trust and remember a receiver whose key is not known yet; a changed key is still refused
    #[schemars(extend("x-flag" = "accept-new", "x-conflicts" = ["psk", "insecure-none"]))]
    pub accept_new: bool,
    /// refuse an unknown key without asking; this is the default without a terminal
    #[schemars(extend("x-flag" = "strict", "x-conflicts" = ["accept-new", "psk", "insecure-none"]))]
    pub strict: bool,
    /// cores for this end's threads, as 2,3: the first for lanes and encryption, the second for files and hashes, others for
    /// threads that share the work of several lanes with the first
    #[schemars(extend(
        "x-flag" = "cores",
        "x-value" = "CORE[,CORE…]",
        "x-default" = "not pinned"
    ))]
    pub cores: Option<Parsed<Cores>>,
    /// how long to wait for the receiver to answer, and for a turn if it is busy with others
    #[default(Duration::from_secs(30))]
    #[garde(range(min = Duration::from_ms(100), max = Duration::from_secs(86_400)))]
    #[schemars(extend("x-flag" = "patience", "x-bare" = "s"))]
    pub patience: Duration,
}

fn length_of_chunks(bytes: &Bytes, (): &()) -> garde::Result {
    let is_good = ChunkBytes::new(bytes.get()).is_ok();
    let wrong = || garde::Error::new(format!("{bytes} is not a power of two: choose 64K to 64M"));
    is_good.then_some(()).ok_or_else(wrong)
}
