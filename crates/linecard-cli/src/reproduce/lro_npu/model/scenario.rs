//! The section `[model]` of a scenario: numbers that may be left out, then a checked scenario.

use crate::failure::Failure;
use crate::scenario::Source;
use linecard_model::Ps;
use linecard_model::npu::{Scenario, ScenarioError};
use serde::Deserialize;
use std::ops::{Range, RangeInclusive};
use toml::Spanned;

/// What the model is asked.
#[derive(Debug)]
pub(in super::super) struct Settings {
    /// What all questions start from.
    pub(super) base: Scenario,
    pub(super) seeds: u64,
    pub(super) connections: Vec<u32>,
    pub(super) starvation: Starvation,
    pub(super) active_ack: ActiveAck,
}

/// Section V.B: connections that keep the DMA engine busy, and others that are tried.
#[derive(Debug)]
pub(super) struct Starvation {
    pub(super) loads: Vec<u64>,
    pub(super) busy: u32,
    pub(super) attempts: u32,
    pub(super) seeds: u64,
    pub(super) syn_rto_ns: u64,
    pub(super) syn_tries: u32,
}

/// Section V.C: a sender that may have less outstanding than merging waits for.
#[derive(Debug)]
pub(super) struct ActiveAck {
    pub(super) bytes: u64,
    pub(super) outstanding: u32,
    pub(super) max_bytes: usize,
    pub(super) slow_buffer: u32,
    pub(super) slow_bits_per_second: u64,
}

/// A struct of numbers that may be left out, named as the fields that they go to.
macro_rules! numbers {
    ($raw:ident, $prefix:literal, $target:ty, [$($field:ident),+ $(,)?]) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct $raw { $($field: Option<Spanned<i64>>,)+ }

        impl $raw {
            fn put(&self, target: &mut $target, check: &mut Check<'_>) -> Result<(), Failure> {
                $(check.put(concat!($prefix, stringify!($field)), &self.$field, &mut target.$field)?;)+
                Ok(())
            }
        }
    };
}

numbers!(
    RawNpu,
    "npu.",
    linecard_model::npu::Npu,
    [
        cores,
        threads_per_core,
        packet_ns,
        jitter_percent,
        timeout_ns,
        check_ns,
        send_ns,
        send_queue,
        message_ns,
        queue,
        buffers,
        descriptors,
        ring,
        max_bytes,
        idle_floor_ns,
        hold_budget_ns,
    ]
);
numbers!(RawDma, "dma.", linecard_model::npu::Dma, [bits_per_second, request_ns, requests]);
numbers!(
    RawHost,
    "host.",
    linecard_model::npu::Host,
    [interrupt_ns, packet_ns, copy_bits_per_second, receive_buffer,]
);
numbers!(
    RawClient,
    "client.",
    linecard_model::npu::Client,
    [stagger_ns, link_bits_per_second, segment, send_window, initial_window, rto_ns,]
);
numbers!(RawStarvation, "starvation.", Starvation, [busy, attempts, seeds, syn_rto_ns, syn_tries]);
numbers!(
    RawActiveAck,
    "active_ack.",
    ActiveAck,
    [bytes, outstanding, max_bytes, slow_buffer, slow_bits_per_second,]
);

/// The section as it is written; what is left out is as in `Settings::default`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(in super::super) struct RawModel {
    seed: Option<Spanned<i64>>,
    seeds: Option<Spanned<i64>>,
    connections: Option<Vec<Spanned<i64>>>,
    loads: Option<Vec<Spanned<i64>>>,
    warm_up_ns: Option<Spanned<i64>>,
    measure_ns: Option<Spanned<i64>>,
    npu: RawNpu,
    dma: RawDma,
    host: RawHost,
    client: RawClient,
    starvation: RawStarvation,
    active_ack: RawActiveAck,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            base: Scenario::default(),
            seeds: 20,
            connections: vec![1, 2, 4, 8, 16, 32, 64],
            starvation: Starvation {
                loads: vec![150, 200, 400],
                busy: 3,
                attempts: 64,
                seeds: 5,
                syn_rto_ns: 100_000_000,
                syn_tries: 2,
            },
            active_ack: ActiveAck {
                bytes: 1 << 20,
                outstanding: 16 << 10,
                max_bytes: 32 << 10,
                slow_buffer: 40_000,
                slow_bits_per_second: 100_000_000,
            },
        }
    }
}

impl RawModel {
    /// The settings, with every value in its range.
    pub(in super::super) fn checked(&self, source: &Source) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        let mut check = Check { source, spans: Vec::new() };
        let (mut warm_up_ns, mut measure_ns) = (8_000_000, 20_000_000);
        check.put("seed", &self.seed, &mut settings.base.seed)?;
        check.put("seeds", &self.seeds, &mut settings.seeds)?;
        check.put("warm_up", &self.warm_up_ns, &mut warm_up_ns)?;
        check.put("duration", &self.measure_ns, &mut measure_ns)?;
        check.list(&self.connections, 1..=1_024, &mut settings.connections)?;
        check.list(&self.loads, 101..=10_000, &mut settings.starvation.loads)?;
        self.npu.put(&mut settings.base.npu, &mut check)?;
        self.dma.put(&mut settings.base.dma, &mut check)?;
        self.host.put(&mut settings.base.host, &mut check)?;
        self.client.put(&mut settings.base.client, &mut check)?;
        self.starvation.put(&mut settings.starvation, &mut check)?;
        self.active_ack.put(&mut settings.active_ack, &mut check)?;
        let base = &mut settings.base;
        base.warm_up = Ps::from_ns(warm_up_ns);
        base.duration = Ps::from_ns(warm_up_ns.saturating_add(measure_ns));
        check.few("seeds", settings.seeds)?;
        check.few("starvation.seeds", settings.starvation.seeds)?;
        settings.base.check().map_err(|error| check.refuse(&error))?;
        for scenario in [
            settings.starvation_of(linecard_model::npu::Discipline::Stack, 200, 0),
            settings.held_back(None),
            settings.slow(linecard_model::npu::Mode::Paper),
        ] {
            // The numbers of the model itself are right: what is wrong was asked for.
            check.spans.retain(|(name, _)| ASKED.iter().all(|(of_model, _)| of_model != name));
            scenario.check().map_err(|error| check.refuse(&error))?;
        }
        Ok(settings)
    }
}

/// What questions set in the model, by their own names.
const ASKED: [(&str, &str); 9] = [
    ("client.connections", "starvation.busy"),
    ("client.idle_connections", "starvation.attempts"),
    ("client.syn_rto_ns", "starvation.syn_rto_ns"),
    ("client.syn_tries", "starvation.syn_tries"),
    ("client.bytes", "active_ack.bytes"),
    ("client.send_window", "active_ack.outstanding"),
    ("npu.max_bytes", "active_ack.max_bytes"),
    ("host.receive_buffer", "active_ack.slow_buffer"),
    ("host.read_bits_per_second", "active_ack.slow_bits_per_second"),
];

/// Puts values where they belong, and remembers where they are written.
struct Check<'s> {
    source: &'s Source,
    spans: Vec<(&'static str, Range<usize>)>,
}

impl Check<'_> {
    fn put<T: TryFrom<i64>>(
        &mut self,
        name: &'static str,
        raw: &Option<Spanned<i64>>,
        target: &mut T,
    ) -> Result<(), Failure> {
        let Some(raw) = raw else { return Ok(()) };
        self.spans.push((name, raw.span()));
        let value = *raw.get_ref();
        *target = T::try_from(value).map_err(|_| {
            let most = (1_u128 << (8 * size_of::<T>())) - 1;
            let what = format!("{value} is out of range: choose 0 to {most}");
            self.source.refuse(raw.span(), &what)
        })?;
        Ok(())
    }

    fn list<T: TryFrom<i64>>(
        &self,
        raw: &Option<Vec<Spanned<i64>>>,
        range: RangeInclusive<i64>,
        target: &mut Vec<T>,
    ) -> Result<(), Failure> {
        let Some(raw) = raw else { return Ok(()) };
        let one = |raw: &Spanned<i64>| {
            let value = Some(*raw.get_ref()).filter(|value| range.contains(value));
            value.and_then(|value| T::try_from(value).ok()).ok_or_else(|| {
                let (low, high) = (range.start(), range.end());
                let what = format!("{} is out of range: choose {low} to {high}", raw.get_ref());
                self.source.refuse(raw.span(), &what)
            })
        };
        *target = raw.iter().map(one).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Seeds: one at least, and not so many that it takes hours.
    fn few(&self, name: &'static str, value: u64) -> Result<(), Failure> {
        let range = 2..=10_000;
        if range.contains(&value) {
            return Ok(());
        }
        let (low, high) = range.into_inner();
        Err(self.refuse(&ScenarioError::Range { name, value, low, high }))
    }

    /// What the model refuses, where it is written.
    fn refuse(&self, error: &ScenarioError) -> Failure {
        let name = match error {
            ScenarioError::Range { name, .. } => name,
            ScenarioError::Threads(_) => "npu.cores",
            ScenarioError::SharedMemory { .. } => "npu.ring",
            ScenarioError::WarmUp { .. } => "duration",
        };
        let known = self.spans.iter().find(|(known, _)| known == &name);
        let asked = ASKED.iter().find(|(of_model, _)| of_model == &name);
        let near = || self.spans.iter().find(|(known, _)| Some(known) == asked.map(|(_, own)| own));
        let span = known.or_else(near).map_or(0..0, |(_, span)| span.clone());
        self.source.refuse(span, &error.to_string())
    }
}
