//! The parameters of `recv`.

use crate::transfer::{Access, Listen};
use garde::Validate;
use linecard_config::{Bytes, Duration, Parsed};
use linecard_transfer_net::end::Cores;
use linecard_transfer_net::lane::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::path::{Path, PathBuf};

/// Where to receive, from whom, and where to put it.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// the folder for received files, created if it is missing; - is stdout, for one file or pipe; `s3://BUCKET/PREFIX` an
    /// object store
    #[default(PathBuf::from("."))]
    pub folder: PathBuf,
    /// where to listen, with :PORT if it is not 4780
    #[schemars(extend(
        "x-flag" = "listen",
        "x-value" = "ADDRESS",
        "x-default" = "all addresses; with --insecure-none 127.0.0.1"
    ))]
    pub listen: Option<Parsed<Listen>>,
    /// this host's end of a lane, repeated for each in the sender's order: an interface or an address, with :PORT to
    /// let it through a firewall
    #[schemars(extend(
        "x-flag" = "lane",
        "x-default" = "the address that this host uses towards the sender's end of the lane"
    ))]
    pub lanes: Vec<Parsed<Spec>>,
    /// How the ends know each other.
    #[garde(dive)]
    pub access: Access,
    /// authorized senders, one fingerprint per line; read at each connection
    #[schemars(extend(
        "x-flag" = "authorized",
        "x-value" = "FILE",
        "x-default" = "~/.config/linecard/authorized",
        "x-conflicts" = ["psk", "insecure-none"]
    ))]
    pub authorized: Option<PathBuf>,
    /// show a code of eight digits: a sender that gives it (`send --pair CODE`) is listed as an authorized one, now and
    /// later, and this host is known to it
    #[schemars(extend("x-flag" = "pair", "x-conflicts" = ["accept-any", "psk", "insecure-none"]))]
    pub pair: bool,
    /// accept every sender that reaches the port, whatever its key
    #[schemars(extend("x-flag" = "accept-any", "x-conflicts" = ["authorized", "psk", "insecure-none"]))]
    pub accept_any: bool,
    /// only for `linecard send`, which starts a receiver by ssh: read a key for once from stdin, listen at any port, print
    /// it, and end with stdin
    #[schemars(extend("x-flag" = "started", "x-conflicts" = ["authorized", "pair", "accept-any", "psk", "identity", "insecure-none"]))]
    pub started: bool,
    /// replace existing files that differ from those sent; otherwise they are kept, and not transferred
    #[schemars(extend("x-flag" = "overwrite"))]
    pub overwrite: bool,
    /// let every sender remove files that it has not (`send --delete`), in the folders that it sends; otherwise those with
    /// delete=yes in the list of senders may
    #[schemars(extend("x-flag" = "allow-delete"))]
    pub allow_delete: bool,
    /// let every sender send symbolic links that lead out of its folders (`send --links-out`), which are never followed
    /// here; otherwise those with links-out=yes in the list of senders may
    #[schemars(extend("x-flag" = "allow-links-out"))]
    pub allow_links_out: bool,
    /// senders that may send at the same time, with --keep
    #[garde(range(min = 1, max = 64))]
    #[schemars(extend("x-flag" = "at-once", "x-value" = "N", "x-default" = "4; 1 if a port of a lane is given"))]
    pub at_once: Option<u16>,
    /// memory for chunks in flight, divided among those that may send at the same time
    #[default(Bytes::new(512 << 20))]
    #[garde(range(min = Bytes::new(64 << 10), max = Bytes::new(1 << 40)))]
    #[schemars(extend("x-flag" = "memory"))]
    pub memory: Bytes,
    /// cores for this end's threads, as 2,3: the first for lanes and encryption, the second for files and hashes, others for
    /// threads that share the work of several lanes with the first
    #[schemars(extend(
        "x-flag" = "cores",
        "x-value" = "CORE[,CORE…]",
        "x-default" = "not pinned"
    ))]
    pub cores: Option<Parsed<Cores>>,
    /// how long to wait for a sender that has begun and does not answer
    #[default(Duration::from_secs(30))]
    #[garde(range(min = Duration::from_ms(100), max = Duration::from_secs(86_400)))]
    #[schemars(extend("x-flag" = "patience", "x-bare" = "s"))]
    pub patience: Duration,
}

impl Config {
    /// How many may send at once to a receiver that is kept: of a lane at a given port there is only one.
    #[must_use]
    pub fn kept(self) -> Self {
        let has_port = self.lanes.iter().any(|lane| lane.0.port.is_some());
        let at_once = self.at_once.unwrap_or(if has_port { 1 } else { 4 });
        Self { at_once: Some(at_once), ..self }
    }

    /// Whether received data goes to the standard output.
    #[must_use]
    pub fn is_pipe(&self) -> bool {
        self.folder == Path::new("-")
    }
}
