//! Receive offload on a network processor: [`linecard_model::npu`].

use super::account::{Conserved, draw_busy, draw_section, limit, ratio};
use crate::{Context, Error, Job};
use linecard_model::npu::{self, Config, NpuResults, run_with_progress};
use linecard_report::{Axis, BitRate, ByteCount, Ledger, Nanoseconds, Page, Share, Unit, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// Bytes of a segment on the link beside its payload: 40 of TCP and IP, 18 of Ethernet, 20 of preamble and gap.
const WIRE_BYTES: f64 = 78.0;

/// The job.
#[derive(Debug)]
pub struct NpuModel;

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct NpuOutcome {
    /// Packets and their payload
    pub account: Account,
    /// Packets dropped, by reason
    pub drops: Drops,
    /// Connections and what they cost
    pub connections: Connections,
    /// Requests of the DMA engine
    pub dma: DmaRequests,
    /// Rates
    pub rates: Rates,
    /// Utilisation, as a share of the time
    pub busy: Busy,
    #[serde(skip)]
    title: String,
    #[serde(skip)]
    is_conserved: bool,
}

/// Packets and their payload: in is out, dropped and held together.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Account {
    /// In, out, dropped and held.
    #[serde(flatten)]
    pub conserved: Conserved,
    /// payload, in
    pub bytes_in: ByteCount,
    /// payload, out
    pub bytes_out: ByteCount,
    /// payload, dropped
    pub bytes_dropped: ByteCount,
    /// payload, held at the end
    pub bytes_held: ByteCount,
    /// virtual time
    pub ns: Nanoseconds,
    /// hash of bytes and counters
    pub hash: String,
}

/// Packets dropped, by reason.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Drops {
    /// no buffer in the unit
    pub no_buffer: u64,
    /// too many waited for the thread
    pub queue_full: u64,
    /// had come before, or wrong checksum
    pub discarded: u64,
    /// no descriptor in the ring
    pub ring_full: u64,
    /// no room for requests
    pub dma_full: u64,
}

/// Connections and what they cost.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Connections {
    /// made
    pub established: u64,
    /// of those that send nothing, made
    pub idle_established: u64,
    /// given up
    pub failed: u64,
    /// all acknowledged, FIN included
    pub finished: u64,
    /// until all were finished, or the end of the run
    pub finished_ns: Nanoseconds,
    /// segments sent again
    pub retransmitted: u64,
    /// packets discarded because they had come before
    pub duplicates: u64,
    /// payload that the host took
    pub accepted: ByteCount,
    /// retransmission timers that fired
    pub timeouts: u64,
    /// acknowledgments on the host's behalf
    pub active_acks: u64,
    /// packets to the client, dropped
    pub answers_dropped: u64,
    /// interrupts of the host
    pub interrupts: u64,
    /// bytes promised for that had no room
    pub overrun: u64,
    /// receive threads that have a connection
    pub threads_used: u64,
    /// packets in a merged one, on average
    pub mean_aggregate: f64,
}

/// Requests of the DMA engine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DmaRequests {
    /// requests
    pub requests: u64,
    /// served
    pub served: u64,
    /// for a SYN
    pub syns: u64,
    /// for a SYN, served
    pub syns_served: u64,
    /// requested time of the engine, as a share of the run
    pub load: f64,
}

/// Rates.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    /// payload, since measuring began
    pub bits_per_second: BitRate,
    /// taken by the host, all the time
    pub accepted_bits_per_second: BitRate,
    /// packets in a second
    pub packets_per_second: u64,
}

/// Shares of the time since measuring began.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Busy {
    /// link
    pub link_busy: Share,
    /// threads with a connection
    pub threads_busy: Share,
    /// DMA engine
    pub dma_busy: Share,
    /// host's processor
    pub host_busy: Share,
    /// all receive threads
    pub all_threads_busy: Share,
    /// pipelines of the cores
    pub pipelines_busy: Share,
    /// memory
    pub memory_busy: Share,
    /// bottleneck
    pub limit: String,
}

impl Job for NpuModel {
    const NAME: &'static str = "npu";
    const COMMAND: &'static str = super::COMMAND;
    type Config = Config;
    type Outcome = NpuOutcome;

    fn title(_: &Config) -> String {
        super::title(Self::NAME)
    }

    fn draw(outcome: &NpuOutcome, page: &mut Page) {
        draw_busy(outcome, &outcome.busy.limit, page);
        let rate = Value::BitRate(outcome.rates.bits_per_second.0);
        page.headline(format!("{rate}; bottleneck: {}.", outcome.busy.limit));
        let axis = Axis::new("packets", Unit::Count);
        draw_section(outcome, Ledger::new("drops", "Packets dropped, by reason", axis), page);
    }

    fn run(config: &Config, context: &Context<'_>) -> Result<NpuOutcome, Error> {
        let whole = run_with_progress(config, context.progress)?;
        let before = warm_up(config, context)?;
        context.go_on()?;
        Ok(NpuOutcome::new(config, &whole, before.as_ref()))
    }

    fn check(outcome: &NpuOutcome) -> Result<(), Error> {
        outcome.account.conserved.check(outcome.is_conserved)
    }
}

/// The run until measuring begins.
fn warm_up(config: &Config, context: &Context<'_>) -> Result<Option<NpuResults>, Error> {
    let npu::Run { seed, warm_up, .. } = config.run;
    if warm_up.as_ps() == 0 {
        return Ok(None);
    }
    let run = npu::Run { seed, warm_up: linecard_config::Duration::ZERO, duration: warm_up };
    Ok(Some(run_with_progress(&Config { run, ..config.clone() }, context.progress)?))
}

impl linecard_report::Outcome for NpuOutcome {
    fn title(&self, section: &str) -> Option<String> {
        (section == "account").then(|| self.title.clone())
    }

    fn notes(&self) -> Vec<String> {
        match NpuModel::check(self) {
            Ok(()) => vec![
                "Every byte that the host received equals the one that was \
                 sent."
                    .to_owned(),
            ],
            Err(_) => Vec::new(),
        }
    }
}

impl NpuOutcome {
    fn new(config: &Config, whole: &NpuResults, before: Option<&NpuResults>) -> Self {
        let packet = match config.npu.packet_ns.0 {
            Some(ns) => format!("{ns} ns a packet"),
            None => format!("{} cores at {} MHz", config.npu.cores, config.core.mhz),
        };
        let title = format!(
            "{} receive threads, {packet}, {} connections, merging {}",
            config.npu.receive_threads(),
            config.client.connections,
            config.npu.merge,
        );
        Self {
            account: Account::new(whole),
            drops: Drops::new(&whole.dropped),
            connections: Connections::new(whole),
            dma: DmaRequests::new(whole),
            rates: Rates::new(whole),
            busy: Busy::new(config, whole, before),
            title,
            is_conserved: whole.is_conserved(),
        }
    }
}

impl Account {
    fn new(whole: &NpuResults) -> Self {
        let dropped = whole.dropped.total();
        Self {
            conserved: Conserved {
                came: whole.sent.packets,
                went: whole.delivered.packets,
                dropped: dropped.packets,
                held: whole.held.packets,
            },
            bytes_in: ByteCount(whole.sent.bytes),
            bytes_out: ByteCount(whole.delivered.bytes),
            bytes_dropped: ByteCount(dropped.bytes),
            bytes_held: ByteCount(whole.held.bytes),
            ns: Nanoseconds(whole.duration.0 as f64 / 1e3),
            hash: format!("{:016x}", whole.digest),
        }
    }
}

impl Drops {
    const fn new(dropped: &npu::Drops) -> Self {
        Self {
            no_buffer: dropped.no_buffer.packets,
            queue_full: dropped.queue_full.packets,
            discarded: dropped.discarded.packets,
            ring_full: dropped.ring_full.packets,
            dma_full: dropped.dma_full.packets,
        }
    }
}

impl Connections {
    fn new(whole: &NpuResults) -> Self {
        let (client, host) = (&whole.client, &whole.host);
        Self {
            established: client.established + client.idle_established,
            idle_established: client.idle_established,
            failed: client.failed,
            finished: client.finished,
            finished_ns: Nanoseconds(client.finished_at.unwrap_or(whole.duration).0 as f64 / 1e3),
            retransmitted: client.retransmitted,
            duplicates: whole.duplicates,
            accepted: ByteCount(host.accepted),
            timeouts: client.timeouts,
            active_acks: whole.active_acks,
            answers_dropped: whole.answers_dropped,
            interrupts: host.interrupts,
            overrun: host.overrun,
            threads_used: whole.threads_used,
            mean_aggregate: whole.mean_aggregate,
        }
    }
}

impl DmaRequests {
    fn new(whole: &NpuResults) -> Self {
        let npu::DmaFigures { requests, served, syns, syns_served, .. } = whole.dma;
        Self { requests, served, syns, syns_served, load: whole.dma_load() }
    }
}

impl Rates {
    fn new(whole: &NpuResults) -> Self {
        let seconds = whole.duration.as_secs_f64();
        let accepted = ratio(whole.host.accepted as f64 * 8.0, seconds);
        Self {
            bits_per_second: BitRate(whole.bits_per_second),
            accepted_bits_per_second: BitRate(accepted),
            packets_per_second: ratio(whole.delivered.packets as f64, seconds) as u64,
        }
    }
}

impl Busy {
    /// Since measuring began; what the model does not count itself is its counters times its costs.
    fn new(config: &Config, whole: &NpuResults, before: Option<&NpuResults>) -> Self {
        let (npu, host, client) = (&config.npu, &config.host, &config.client);
        let seconds = (config.run.duration.as_ps() - config.run.warm_up.as_ps()) as f64 / 1e12;
        let since = |count: fn(&NpuResults) -> u64| (count(whole) - before.map_or(0, count)) as f64;
        let (packets, bytes) = (since(|run| run.sent.packets), since(|run| run.sent.bytes));
        let receiving = since(|run| run.receiving.0) / 1e12;
        let rate = |rate: linecard_config::Rate| rate.bits_per_second() as f64;
        let wire = (bytes + packets * WIRE_BYTES) * 8.0 / rate(client.link_rate);
        let copied = since(|run| run.host.bytes) * 8.0 / rate(host.copy_rate);
        let each = (host.interrupt_ns + host.packet_ns) as f64 / 1e9;
        let working = since(|run| run.host.interrupts) * each + copied;
        let dma = since(|run| run.dma.offered.0) / 1e12;
        let link_busy = ratio(wire, seconds);
        let threads_busy = ratio(receiving, whole.threads_used as f64 * seconds);
        let pipelines = ratio(since(|run| run.issuing.0) / 1e12, f64::from(npu.cores) * seconds);
        let memory = ratio(since(|run| run.moving.0) / 1e12, seconds);
        let (dma_busy, host_busy) = (ratio(dma, seconds), ratio(working, seconds));
        Self {
            link_busy: Share(link_busy),
            threads_busy: Share(threads_busy),
            dma_busy: Share(dma_busy),
            host_busy: Share(host_busy),
            all_threads_busy: Share(ratio(receiving, f64::from(npu.receive_threads()) * seconds)),
            pipelines_busy: Share(pipelines),
            memory_busy: Share(memory),
            limit: limit(&[
                ("link", link_busy),
                ("pipelines of the cores", pipelines),
                ("memory", memory),
                ("threads with a connection", threads_busy),
                ("DMA engine", dma_busy),
                ("host's processor", host_busy),
            ]),
        }
    }
}
