//! The parameters of an attachment.

use super::error::JoinError;
use crate::offload::Checksum;
use garde::Validate;
use linecard::offload::{active_ack, coalesce, resequence};
use linecard_config::{Bytes, ConfigError, Duration, Maybe, Parsed};
use linecard_io::attach::{self, PortKind, PortSpec, Settings};
use linecard_io::engine;
use linecard_io::port::vhost::MAX_PAIRS;
use linecard_tun::interface;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;

/// Sleep of a thread with the policy `sleep`: the time that 64 packets of 1,500 bytes take at 16 Gbit/s.
const SLEEP: std::time::Duration = std::time::Duration::from_micros(50);

/// Of the profile for throughput: the time in which a flow of 0.1 Gbit/s fills 64 KiB, and several times the pauses
/// of a sender that shares its core.
const LONG_HOLD: Duration = Duration::from_ms(4);
const LONG_IDLE: Duration = Duration::from_ns(100_000);

/// The most cores that a list can name.
const MAX_CORES: usize = 1_024;

/// The most workers.
const MOST_WORKERS: u16 = 1_024;

/// Two ports, and how packets pass between them.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
#[serde(default, deny_unknown_fields)]
#[garde(allow_unvalidated)]
pub struct Config {
    /// the port on the side of the wire, as `xdp:eth0` (by AF_XDP) or `packet:eth0` (by a packet socket), which
    /// both take all that the interface receives, `tap:NAME`, `tun:NAME`, `vhost:SOCKET` (a virtual machine, by
    /// vhost-user) or `file:CAPTURE`, which is read. Options follow behind commas: offloads or no-offloads (whether the
    /// kernel or the guest gives and takes large packets; by default only at FAR, and with every guest), copy (xdp: never
    /// zero-copy), generic (xdp: receives in the kernel's general path, not in the driver), promiscuous (packet), mirror
    /// (packet: the kernel gets all packets too), client (vhost: connects to the socket instead of listening there), once
    /// (vhost: ends when the virtual machine leaves), queues=N (vhost: queue pairs, one per worker by default), recorded
    /// (file: with the recorded intervals)
    #[garde(custom(port))]
    #[schemars(extend("x-argument" = "NEAR"))]
    pub near: String,
    /// the port on the side of the host, as `tap:lc0`, which is created if it does not exist; `file:CAPTURE` is
    /// written
    #[garde(custom(port))]
    #[schemars(extend("x-argument" = "FAR"))]
    pub far: String,
    /// what matters most; sets --flush-batches, --hold, --idle-timeout and --idle where these have their defaults
    #[schemars(extend("x-flag" = "profile", "x-value" = "AIM"))]
    pub profile: Profile,
    /// the directions in which packets are merged
    #[schemars(extend(
        "x-flag" = "merge",
        "x-value" = "DIRECTION",
        "x-former-choices" = { "inward": "ingress", "outward": "egress" }
    ))]
    pub merge: Merge,
    /// what to do with checksums that no port vouches for
    #[schemars(extend("x-flag" = "checksum", "x-value" = "POLICY"))]
    pub checksum: Checksum,
    /// longest time a packet is held
    #[default(Duration::from_ms(1))]
    #[garde(range(min = Duration::from_ns(1_000), max = Duration::from_secs(1)))]
    #[schemars(extend("x-flag" = "hold"))]
    pub hold: Duration,
    /// least idle time of a flow after which its held packets are flushed; flows with longer intervals are flushed
    /// after ten times their average interval
    #[default(Duration::from_ns(20_000))]
    #[garde(range(min = Duration::from_ns(1_000), max = Duration::from_secs(1)))]
    #[schemars(extend("x-flag" = "idle-timeout", "x-former-flag" = "pause"))]
    pub idle_timeout: Duration,
    /// flush held packets at the end of each batch, as kernels do at the end of a poll: less delay, smaller packets
    #[schemars(extend("x-flag" = "flush-batches"))]
    pub flush_batches: bool,
    /// bytes of the largest merged packet, counted from the IP header
    #[default(Bytes::new(65_535))]
    #[garde(range(min = Bytes::new(576), max = Bytes::new(65_535)))]
    #[schemars(extend("x-flag" = "max-size"))]
    pub max_size: Bytes,
    /// flows that each worker remembers at once
    #[default(4_096)]
    #[garde(range(min = 8, max = 4_194_304))]
    #[schemars(extend("x-flag" = "max-flows"))]
    pub max_flows: usize,
    /// the packet with which a flow is remembered
    #[schemars(extend("x-flag" = "learn-on", "x-value" = "PACKET", "x-former-flag" = "create-on"))]
    pub learn_on: LearnOn,
    /// put TCP data into sequence before it is merged, waiting at most 250us for missing data
    #[schemars(extend("x-flag" = "reorder"))]
    pub reorder: bool,
    /// acknowledge data from NEAR on behalf of its receiver; docs/design/modes.md says what that gives up
    #[schemars(extend("x-flag" = "active-ack", "x-flag-alone" = "receiver", "x-value" = "WINDOW"))]
    pub active_ack: ActiveAck,
    /// workers; with inline deployment they share the queues of both ports. 0: one for each queue of the `xdp` port that has
    /// fewest, at most one for each core that is named or, without, for each core but one
    #[default(1)]
    #[garde(range(min = 0, max = MOST_WORKERS))]
    #[schemars(extend("x-flag" = "workers"))]
    pub workers: u16,
    /// cores to pin threads to, as 0,2-3: the workers first
    #[schemars(extend("x-flag" = "cores", "x-value" = "LIST"))]
    pub cores: Parsed<Cores>,
    /// the threads and what each does
    #[schemars(extend("x-flag" = "deployment", "x-value" = "HOW"))]
    pub deployment: Deployment,
    /// how threads compete for their cores with other threads
    #[schemars(extend("x-flag" = "scheduling", "x-value" = "CLASS"))]
    pub scheduling: Scheduling,
    /// what a thread does when there is nothing to do
    #[schemars(extend("x-flag" = "idle", "x-value" = "POLICY"))]
    pub idle: Idle,
    /// packets taken from a port at a time
    #[default(64)]
    #[garde(range(min = 1, max = 64))]
    #[schemars(extend("x-flag" = "batch"))]
    pub batch: usize,
    /// buffers of each port and worker, of which three quarters may be held
    #[default(8_192)]
    #[garde(range(min = 128, max = 1_048_576))]
    #[schemars(extend("x-flag" = "buffers"))]
    pub buffers: usize,
    /// the order of output where workers share a port
    #[schemars(extend("x-flag" = "output-order", "x-value" = "ORDER"))]
    pub output_order: OutputOrder,
    /// packets in the rings between threads
    #[default(4_096)]
    #[garde(range(min = 1, max = 65_536))]
    #[schemars(extend("x-flag" = "ring"))]
    pub ring: usize,
    /// seconds after which it ends; without, it runs until it is stopped
    #[default(Maybe::NONE)]
    #[garde(range(min = 0.01, max = 1e9))]
    #[schemars(extend("x-flag" = "seconds"))]
    pub seconds: Maybe<f64>,
    /// time between two updates of the rates that are shown
    #[default(Duration::from_secs(1))]
    #[garde(range(min = Duration::from_ms(100), max = Duration::from_secs(3_600)))]
    #[schemars(extend("x-flag" = "interval"))]
    pub interval: Duration,
    /// list this many flows, those with the most packets, each with the most frequent reason why packets did not merge,
    /// in the statistics; packets are merged one by one then, which takes longer
    #[garde(range(min = 0, max = 1_000))]
    #[schemars(extend("x-flag" = "flows"))]
    pub flows: usize,
    /// serve Prometheus metrics at this address, as 127.0.0.1:9100; a port alone is on loopback
    #[schemars(extend("x-flag" = "metrics", "x-value" = "ADDRESS"))]
    pub metrics: Parsed<Metrics>,
    /// descriptor to which `READY=1` and a newline are written once packets pass, as supervisors wait for it
    #[default(Maybe::NONE)]
    #[garde(range(min = 1, max = 1_048_576))]
    #[schemars(extend("x-flag" = "ready-fd", "x-value" = "NUMBER"))]
    pub ready_fd: Maybe<u32>,
    /// move the addresses of NEAR, and the routes through it, to the device at FAR, and give them back at the end
    #[schemars(extend("x-flag" = "take-addresses"))]
    pub take_addresses: bool,
    /// keep all privileges, for debuggers
    #[schemars(extend("x-flag" = "keep-rights"))]
    pub keep_rights: bool,
}

/// The quantity to optimize for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// nothing is held beyond its batch, and no thread sleeps while packets come (--flush-batches --idle wake)
    Latency,
    /// packets of busy flows are held for the next ones, single packets are not
    #[default]
    Balanced,
    /// packets of busy flows are held for longer (--idle-timeout 100us --hold 4ms)
    Throughput,
}

/// The direction in which packets are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Merge {
    /// from NEAR to FAR
    #[default]
    Ingress,
    /// from FAR to NEAR
    Egress,
    /// both directions
    Both,
    /// nothing is merged
    None,
}

/// The packet with which a flow is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LearnOn {
    /// its first data
    #[default]
    Data,
    /// its SYN: connections that existed before are not merged
    Syn,
}

/// Acknowledgment on behalf of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ActiveAck {
    /// off
    #[default]
    None,
    /// promise the window that the receiver has promised
    Receiver,
    /// promise 65,535 bytes, as the paper does
    Paper,
}

/// Threads and what each does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Deployment {
    /// each worker has queues of both ports
    #[default]
    Inline,
    /// one thread has the ports, workers merge
    Shared,
    /// each port has a thread, workers merge
    Dedicated,
}

/// How threads compete for their cores with other threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// realtime while a thread is busy, if that is permitted, --idle lets threads sleep, there are fewer threads than cores, and not both ports are captures; otherwise normal
    #[default]
    Auto,
    /// as all others: a thread that waits for its core while packets come loses them
    Normal,
    /// before ordinary threads (`SCHED_FIFO`, priority 1; root or `cap_sys_nice`); in 10ms a thread leaves its core to
    /// others for 0.5ms at least
    Realtime,
}

/// How a thread waits when it has no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Idle {
    /// look again at once: least delay, all of a core
    Spin,
    /// let others run first
    Yield,
    /// sleep 50us
    Sleep,
    /// sleep until something comes; while 150,000 packets or more arrive in a second, sleep 50us at a time instead, so
    /// that each wake-up moves several
    #[default]
    Interrupt,
    /// sleep until something comes, at every rate: less delay, more wake-ups
    Wake,
}

/// The order of output where workers share a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputOrder {
    /// workers in turn: none waits for busy ones
    #[default]
    RoundRobin,
    /// first come, first served
    Fifo,
    /// last come, first served, as the paper's engine
    Stack,
}

/// Numbers of cores, or "none".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cores(pub Vec<usize>);

/// An address for metrics, or "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metrics(pub Option<SocketAddr>);

/// A text that is not a list of cores, or not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Not a list of cores.
    #[error("\"{0}\" is not a list of cores: write 0,2-3")]
    Cores(String),
    /// Not an address.
    #[error("\"{0}\" is not an address: write 127.0.0.1:9100, or 9100 for loopback")]
    Address(String),
}

impl FromStr for Cores {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        if text == "none" {
            return Ok(Self::default());
        }
        let range = |part: &str| -> Option<RangeInclusive<usize>> {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let range = first.trim().parse().ok()?..=last.trim().parse().ok()?;
            (!range.is_empty() && *range.end() < MAX_CORES).then_some(range)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges.ok_or_else(|| TextError::Cores(text.to_owned()))?;
        Ok(Self(ranges.into_iter().flatten().collect()))
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        match cores.is_empty() {
            true => f.write_str("none"),
            false => f.write_str(&cores.join(",")),
        }
    }
}

impl FromStr for Metrics {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        if text == "none" {
            return Ok(Self(None));
        }
        let port = text.trim_start_matches(':').parse::<u16>();
        let address = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let address = address.or_else(|_| text.parse());
        address.map(|address| Self(Some(address))).map_err(|_| TextError::Address(text.to_owned()))
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(address) => address.fmt(f),
        }
    }
}

fn port(text: &str, (): &()) -> garde::Result {
    text.parse::<PortSpec>().map(drop).map_err(garde::Error::new)
}

/// One worker for each queue of the port that has fewest, at most one for each of these cores; without any, for each
/// core but one, since threads that could take all cores do not run in real time.
fn by_queues(ports: [&PortSpec; 2], cores: usize) -> u16 {
    let queues = |port: &&PortSpec| match &port.kind {
        // Opening says what is wrong with it.
        PortKind::Xdp(name) => interface::receive_queues(name).ok().flatten().unwrap_or(1),
        PortKind::Vhost(_) => port.queues.unwrap_or(MAX_PAIRS),
        PortKind::File(_) => 1,
        PortKind::Packet(_) | PortKind::Tap(_) | PortKind::Tun(_) => usize::MAX,
    };
    let fewest = ports.iter().map(queues).min().unwrap_or(1);
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = if cores > 0 { cores } else { all - 1 };
    fewest.min(cores).clamp(1, MOST_WORKERS.into()) as u16
}

impl Config {
    /// The settings of [`linecard_io::attach`].
    ///
    /// # Errors
    ///
    /// Ports that are none, and two that are the same.
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        self.profiled().own_settings()
    }

    /// With the values of its profile in place of defaults.
    fn profiled(&self) -> Self {
        let (mut config, default) = (self.clone(), Self::default());
        match self.profile {
            Profile::Latency => {
                config.flush_batches = true;
                if self.idle == default.idle {
                    config.idle = Idle::Wake;
                }
            }
            Profile::Balanced => {}
            Profile::Throughput => {
                if self.hold == default.hold {
                    config.hold = LONG_HOLD;
                }
                if self.idle_timeout == default.idle_timeout {
                    config.idle_timeout = LONG_IDLE;
                }
            }
        }
        config
    }

    fn own_settings(&self) -> Result<Settings, ConfigError> {
        let spec = |parameter: &str, text: &str| {
            let spec = text.parse::<PortSpec>();
            spec.map_err(|error| ConfigError::of_parameter(parameter, error))
        };
        let (near, far) = (spec("near", &self.near)?, spec("far", &self.far)?);
        let is_pipe = near.file() == Some(Path::new("-"));
        let is_same_interface = near.name().is_some() && near.name() == far.name();
        if (near == far && !is_pipe) || is_same_interface {
            return Err(ConfigError::of_parameter("far", JoinError::SamePort { near, far }));
        }
        let checksum = self.checksum.into();
        Ok(Settings {
            deployment: match self.deployment {
                Deployment::Inline => attach::Deployment::Inline,
                Deployment::Shared => attach::Deployment::Shared,
                Deployment::Dedicated => attach::Deployment::Dedicated,
            },
            engine: self.engine([&near, &far]),
            merge: attach::Merge {
                ingress: matches!(self.merge, Merge::Ingress | Merge::Both),
                egress: matches!(self.merge, Merge::Egress | Merge::Both),
            },
            coalesce: self.coalesce(checksum),
            resequence: self
                .reorder
                .then(|| resequence::Config { checksum, ..resequence::Config::default() }),
            active_ack: self.active_ack(checksum),
            flows: self.flows > 0,
            buffers: self.buffers,
            take_addresses: self.take_addresses,
            keep_rights: self.keep_rights,
            ..Settings::new(near, far)
        })
    }

    fn engine(&self, ports: [&PortSpec; 2]) -> engine::Config {
        engine::Config {
            workers: match self.workers {
                0 => by_queues(ports, self.cores.0.0.len()),
                workers => workers,
            },
            cores: self.cores.0.0.clone(),
            scheduling: match self.scheduling {
                Scheduling::Auto => engine::Scheduling::Automatic,
                Scheduling::Normal => engine::Scheduling::Normal,
                Scheduling::Realtime => engine::Scheduling::Realtime,
            },
            idle: match self.idle {
                Idle::Spin => engine::Idle::Spin,
                Idle::Yield => engine::Idle::Yield,
                Idle::Sleep => engine::Idle::Sleep(SLEEP),
                Idle::Interrupt => engine::Idle::Interrupt,
                Idle::Wake => engine::Idle::Wake,
            },
            batch: self.batch,
            ring_capacity: self.ring,
            order: match self.output_order {
                OutputOrder::RoundRobin => engine::Order::RoundRobin,
                OutputOrder::Fifo => engine::Order::Fifo,
                OutputOrder::Stack => engine::Order::Stack,
            },
            ..engine::Config::default()
        }
    }

    fn coalesce(&self, checksum: coalesce::ChecksumPolicy) -> coalesce::Config {
        coalesce::Config {
            checksum,
            creation: match self.learn_on {
                LearnOn::Data => coalesce::Creation::OnData,
                LearnOn::Syn => coalesce::Creation::OnSyn,
            },
            hold_budget: self.hold.into(),
            idle_floor: self.idle_timeout.into(),
            flush_at_batch_end: self.flush_batches,
            // Only where it is asked for: `--reorder`.
            restore_order: false,
            flush_quiet_at_batch_end: true,
            // At most 65,535.
            max_bytes: self.max_size.get() as usize,
            max_flows: self.max_flows,
            ..coalesce::Config::default()
        }
    }

    fn active_ack(&self, checksum: coalesce::ChecksumPolicy) -> Option<active_ack::Config> {
        let mode = match self.active_ack {
            ActiveAck::None => return None,
            ActiveAck::Receiver => active_ack::Mode::WindowHonest,
            ActiveAck::Paper => active_ack::Mode::Paper,
        };
        Some(active_ack::Config { mode, checksum, ..active_ack::Config::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!("0,2-3".parse(), Ok(Cores(vec![0, 2, 3])));
        assert_eq!("none".parse(), Ok(Cores::default()));
        assert_eq!(Cores(vec![0, 2]).to_string(), "0,2");
        for bad in ["", "a", "3-2", "0-99999", "1,,2", "-1"] {
            assert!(bad.parse::<Cores>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_profile_sets_what_was_not_asked_for() {
        let of = |config: Config| {
            let config = Config { near: "tap:a".into(), far: "tap:b".into(), ..config };
            let settings = config.settings().expect("good");
            let coalesce = settings.coalesce;
            (
                coalesce.flush_at_batch_end,
                coalesce.hold_budget,
                coalesce.idle_floor,
                settings.engine.idle,
            )
        };
        let (ms, us) = (std::time::Duration::from_millis, std::time::Duration::from_micros);
        let profile = |profile| Config { profile, ..Config::default() };
        assert_eq!(of(profile(Profile::Balanced)), of(Config::default()));
        assert_eq!(of(profile(Profile::Latency)), (true, ms(1), us(20), engine::Idle::Wake));
        assert_eq!(
            of(profile(Profile::Throughput)),
            (false, ms(4), us(100), engine::Idle::Interrupt)
        );
        let own = Config { hold: Duration::from_ms(2), ..profile(Profile::Throughput) };
        assert_eq!(of(own).1, ms(2));
        let own = Config { idle: Idle::Spin, ..profile(Profile::Latency) };
        assert_eq!(of(own).3, engine::Idle::Spin);
    }

    #[test]
    fn metrics_are_on_loopback_unless_told_otherwise() {
        let address = |text: &str| text.parse::<Metrics>().map(|metrics| metrics.to_string());
        assert_eq!(address("9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(address(":9100").as_deref(), Ok("127.0.0.1:9100"));
        assert_eq!(address("[::]:1").as_deref(), Ok("[::]:1"));
        assert_eq!(address("none").as_deref(), Ok("none"));
        assert!(address("localhost").is_err() && address("99999").is_err());
    }

    #[test]
    fn ports_are_refused_with_their_parameter() {
        let config = |near: &str, far: &str| Config {
            near: near.into(),
            far: far.into(),
            ..Config::default()
        };
        assert!(config("tap:a", "tap:b").settings().is_ok());
        assert!(config("file:-", "file:-").settings().is_ok());
        let refused = |near, far| config(near, far).settings().expect_err("refused").to_string();
        assert_eq!(
            refused("tap:a", "tap:a"),
            "far: tap:a cannot be joined to tap:a, which is the same: name two ports"
        );
        for (near, far) in [("xdp:a", "packet:a"), ("tap:a", "tun:a"), ("xdp:a,generic", "tap:a")] {
            assert!(refused(near, far).contains("which is the same"), "{near} {far}");
        }
        assert!(refused("eth0", "tap:a").starts_with("near: port `eth0`: write KIND:NAME"));
    }
}
