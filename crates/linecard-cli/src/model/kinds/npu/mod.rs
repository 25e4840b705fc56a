//! Receive offload on a network processor: [`linecard_model::npu`].

mod keys;

pub(super) use keys::Settings;

use super::super::scenario::Scenario;
use super::{Account, Model, Ran, limits, ratio};
use crate::failure::Failure;
use crate::watch;
use linecard_model::Ps;
use linecard_model::npu::{self, Outcome, ScenarioError, run_watched};
use linecard_report::{Report, Section, Value};

/// What a segment has on the link beside its payload: 40 bytes of TCP and IP, 18 of Ethernet, 20 of
/// preamble and gap.
const WIRE_BYTES: f64 = 78.0;

impl Model for Settings {
    fn run(scenario: &Scenario<Self>) -> Result<Ran, Failure> {
        let of = &scenario.settings.of;
        let refuse = |error| scenario.refuse(key_of(&error), &error.to_string());
        let outcome = run_watched(of, &watch::any()).map_err(refuse)?;
        let before = before(of).map_err(refuse)?;
        Ok(report(of, &outcome, &before))
    }
}

/// The same until measuring begins.
fn before(of: &npu::Scenario) -> Result<Option<Outcome>, ScenarioError> {
    if of.warm_up == Ps::ZERO {
        return Ok(None);
    }
    let scenario = npu::Scenario { duration: of.warm_up, warm_up: Ps::ZERO, ..of.clone() };
    run_watched(&scenario, &watch::any()).map(Some)
}

/// The key whose value an error is about.
fn key_of(error: &ScenarioError) -> &'static str {
    match error {
        ScenarioError::Range { name, .. } => match *name {
            "duration (ps)" => "run.duration",
            "dma.bits_per_second" => "dma.rate",
            "host.copy_bits_per_second" => "host.copy_rate",
            "host.read_bits_per_second" => "host.read_rate",
            "client.link_bits_per_second" => "client.link_rate",
            name => name,
        },
        ScenarioError::Threads(_) => "npu.cores",
        ScenarioError::SharedMemory { .. } => "npu.ring",
        ScenarioError::WarmUp { .. } => "run.warm_up",
    }
}

fn report(of: &npu::Scenario, outcome: &Outcome, before: &Option<Outcome>) -> Ran {
    let title = format!(
        "{} receive threads, {} ns a packet, {} connections, merging {}",
        of.npu.receive_threads(),
        of.npu.packet_ns,
        of.client.connections,
        if of.npu.merge { "on" } else { "off" },
    );
    let [sent, delivered, dropped, held] =
        [outcome.sent, outcome.delivered, outcome.dropped.total(), outcome.held];
    let parts = [sent.packets, delivered.packets, dropped.packets, held.packets];
    let mut account = Account::new(title, "packets", parts);
    let wrong = account.wrong(outcome.is_conserved());
    let section = &mut account.section;
    for (key, label, amount) in [
        ("bytes_in", "payload, in", sent),
        ("bytes_out", "payload, out", delivered),
        ("bytes_dropped", "payload, dropped", dropped),
        ("bytes_held", "payload, held at the end", held),
    ] {
        section.add(key, label, Value::Bytes(amount.bytes));
    }
    section.add("ns", "virtual time", Value::Ns(outcome.duration.0 as f64 / 1e3));
    section.add("hash", "hash of bytes and counters", hash(outcome.digest));
    let mut report = Report::new("model");
    report.push(account.section);
    report.push(drops(outcome));
    report.push(connections(outcome));
    report.push(rates(outcome));
    report.push(busy(of, outcome, before.as_ref()));
    if wrong.is_none() {
        report.note("Every byte that the host took is the one that was sent.");
    }
    Ran { report, wrong }
}

fn hash(digest: u64) -> Value {
    Value::Text(format!("{digest:016x}"))
}

fn drops(outcome: &Outcome) -> Section {
    let mut section = Section::new("drops", "Packets dropped, by reason");
    for ((_, amount), (key, label)) in outcome.dropped.named().iter().zip([
        ("no_buffer", "no buffer in the unit"),
        ("queue_full", "too many waited for the thread"),
        ("discarded", "had come before, or wrong checksum"),
        ("ring_full", "no descriptor in the ring"),
        ("dma_full", "no room for requests"),
    ]) {
        section.add(key, label, Value::Count(amount.packets));
    }
    section
}

fn connections(outcome: &Outcome) -> Section {
    let (client, host) = (&outcome.client, &outcome.host);
    let mut section = Section::new("connections", "Connections and what they cost");
    for (key, label, count) in [
        ("established", "made", client.established + client.idle_established),
        ("failed", "given up", client.failed),
        ("finished", "all acknowledged, FIN included", client.finished),
        ("retransmitted", "segments sent again", client.retransmitted),
        ("timeouts", "retransmission timers that fired", client.timeouts),
        ("active_acks", "acknowledgments on the host's behalf", outcome.active_acks),
        ("answers_dropped", "packets to the client, dropped", outcome.answers_dropped),
        ("interrupts", "interrupts of the host", host.interrupts),
        ("overrun", "bytes promised for that had no room", host.overrun),
        ("threads_used", "receive threads that have a connection", outcome.threads_used),
    ] {
        section.add(key, label, Value::Count(count));
    }
    let mean = Value::Number(outcome.mean_aggregate);
    section.add("mean_aggregate", "packets in a merged one, on average", mean);
    section
}

fn rates(outcome: &Outcome) -> Section {
    let seconds = outcome.duration.as_secs_f64();
    let mut section = Section::new("rates", "Rates");
    let measured = Value::BitRate(outcome.bits_per_second);
    section.add("bits_per_second", "payload, since measuring began", measured);
    let accepted = ratio(outcome.host.accepted as f64 * 8.0, seconds);
    section.add("accepted_bits_per_second", "taken by the host, all the time", {
        Value::BitRate(accepted)
    });
    let packets = ratio(outcome.delivered.packets as f64, seconds);
    section.add("packets_per_second", "packets in a second", Value::Count(packets as u64));
    section
}

/// Since measuring began; what the model does not count itself is its counters times its costs.
fn busy(of: &npu::Scenario, outcome: &Outcome, before: Option<&Outcome>) -> Section {
    let seconds = of.duration.since(of.warm_up).as_secs_f64();
    let since = |count: fn(&Outcome) -> u64| (count(outcome) - before.map_or(0, count)) as f64;
    let (packets, bytes) = (since(|run| run.sent.packets), since(|run| run.sent.bytes));
    let taken = outcome.bits_per_second / 8.0 * ratio(packets, bytes);
    let receiving = taken * of.npu.packet_ns as f64 / 1e9;
    let threads = |count: u64| ratio(receiving, count as f64);
    let wire = (bytes + packets * WIRE_BYTES) * 8.0 / of.client.link_bits_per_second as f64;
    let copied = since(|run| run.host.bytes) * 8.0 / of.host.copy_bits_per_second as f64;
    let each = (of.host.interrupt_ns + of.host.packet_ns) as f64 / 1e9;
    let host = since(|run| run.host.interrupts) * each + copied;
    let dma = since(|run| run.dma.offered.0) / 1e12;
    limits(
        &[
            ("link_busy", "link", ratio(wire, seconds)),
            ("threads_busy", "threads with a connection", threads(outcome.threads_used)),
            ("dma_busy", "DMA engine", ratio(dma, seconds)),
            ("host_busy", "host's processor", ratio(host, seconds)),
        ],
        &[("all_threads_busy", "all receive threads", threads(of.npu.receive_threads().into()))],
    )
}
