//! From a scenario's raw values to a question, each checked where it stands.

use super::scenario::{self, Scenario};
use crate::Error;
use crate::calibrate;
use crate::scenario::Source;
use linecard_config::{Duration, Probability, Rate, UnitError};
use linecard_io::calibrate::{Calibration, Identity, token};
use linecard_plan::{
    Cost, Demand, Edge, Graph, MAX_BATCH, MAX_CORES, MAX_STAGES, Machine, Objective, PlanError,
    PlanInput, Port, Spread, StageSpec, State, Token,
};
use serde_json::Value;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// Headers of TCP over IPv4 with timestamps: what a packet has more than its payload.
const HEADERS: i64 = 52;

/// A question, and where its values come from.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) question: PlanInput,
    /// Bytes of an IP packet, by which costs are found.
    pub(super) packet: u32,
    /// What else is different from when costs were measured.
    pub(super) remark: Option<String>,
    source: Source,
    names: Vec<Range<usize>>,
}

/// Reads a scenario.
pub(super) fn read(path: &Path, calibration: Option<&Path>) -> Result<Query, Error> {
    let (scenario, source) = Source::read::<Scenario>(path)?;
    let mut reader = Reader { source, calibration, loaded: None, packet: 0, clock_hz: None };
    reader.read(&scenario).map(|question| Query {
        question,
        packet: reader.packet,
        remark: reader.loaded.and_then(|(_, remark)| remark),
        names: scenario.stages.iter().map(|stage| stage.get_ref().name.span()).collect(),
        source: reader.source,
    })
}

impl Query {
    /// The scenario as its file has it.
    pub(super) fn scenario(&self) -> Result<Value, Error> {
        Ok(self.source.document()?.read_as()?)
    }

    /// Where a value is that the plan refuses.
    pub(super) fn refuse(&self, error: &PlanError) -> Error {
        let names = self.question.stages.iter().map(|stage| &stage.name).zip(&self.names);
        let at = match error {
            PlanError::Stage { stage, .. } => names.clone().find(|(name, _)| *name == stage),
            _ => None,
        };
        let at = at.map_or(0..0, |(_, at)| at.clone());
        self.source.refuse(at, &error.to_string())
    }
}

struct Reader<'a> {
    source: Source,
    calibration: Option<&'a Path>,
    loaded: Option<(Calibration, Option<String>)>,
    packet: u32,
    clock_hz: Option<f64>,
}

impl Reader<'_> {
    fn read(&mut self, scenario: &Scenario) -> Result<PlanInput, Error> {
        let demand = scenario.demand.get_ref();
        let payload = self.value(&demand.payload, whole(1, 1 << 30))?;
        let packet = demand.packet.as_ref().map(|raw| self.value(raw, whole(1, 1 << 30)));
        self.packet = packet.transpose()?.unwrap_or(payload + HEADERS) as u32;
        let clock = scenario.machine.clock_mhz.as_ref();
        let clock = clock.map(|raw| self.value(raw, |mhz| positive(*mhz).map(|mhz| mhz * 1e6)));
        self.clock_hz = clock.transpose()?;
        let stages = &scenario.stages;
        if stages.is_empty() || stages.len() > MAX_STAGES {
            let what = format!("{} stages: name 1 to {MAX_STAGES} as [[stage]]", stages.len());
            return Err(self.source.refuse(0..0, &what));
        }
        let specs = stages.iter().map(|stage| self.stage(stage.get_ref(), scenario));
        let specs: Vec<StageSpec> = specs.collect::<Result<_, _>>()?;
        let graph = self.graph(scenario)?;
        let demand = self.demand(&scenario.demand, scenario, &specs, payload as f64)?;
        let machine = self.machine(&scenario.machine)?;
        Ok(PlanInput { graph, stages: specs, demand, machine })
    }

    /// A value, or its refusal where it stands.
    fn value<R, T>(
        &self,
        raw: &Spanned<R>,
        convert: impl FnOnce(&R) -> Result<T, String>,
    ) -> Result<T, Error> {
        convert(raw.get_ref()).map_err(|what| self.source.refuse(raw.span(), &what))
    }

    /// The same for what may be left out.
    fn option<R, T>(
        &self,
        raw: Option<&Spanned<R>>,
        default: T,
        convert: impl FnOnce(&R) -> Result<T, String>,
    ) -> Result<T, Error> {
        raw.map_or(Ok(default), |raw| self.value(raw, convert))
    }

    fn stage(&mut self, raw: &scenario::Stage, scenario: &Scenario) -> Result<StageSpec, Error> {
        let cost = self.cost(raw)?;
        let batch = |raw: &[i64; 2]| {
            let within = whole(1, MAX_BATCH.into());
            Ok([within(&raw[0])? as u32, within(&raw[1])? as u32])
        };
        let beside = self.option(raw.beside.as_ref(), Vec::new(), |names| {
            names.iter().map(|name| number(scenario, name)).collect()
        })?;
        Ok(StageSpec {
            name: raw.name.get_ref().clone(),
            unit: self.option(raw.unit.as_ref(), Token::Packet, kind)?,
            on_wire: raw.wire.as_ref().is_none_or(|wire| *wire.get_ref()),
            batch: self.option(raw.batch.as_ref(), [1, 64], batch)?,
            state: self.option(raw.state.as_ref(), State::None, state)?,
            cost,
            deadline_ns: self.option(raw.deadline.as_ref(), f64::INFINITY, time)?,
            miss: self.option(raw.miss.as_ref(), 0.01, share)?,
            beside,
        })
    }

    /// As given in time or cycles, else as measured.
    fn cost(&mut self, raw: &scenario::Stage) -> Result<Cost, Error> {
        let refuse = |reader: &Self, what: &str| Err(reader.source.refuse(raw.name.span(), what));
        let in_time = raw.fixed.is_some() || raw.each.is_some();
        let in_cycles = raw.fixed_cycles.is_some() || raw.each_cycles.is_some();
        if [in_time, in_cycles, raw.cost.is_some()].into_iter().filter(|given| *given).count() > 1 {
            let what =
                "give a cost in time, in cycles, or by its name in the calibration: one of them";
            return refuse(self, what);
        }
        let cost = if in_time {
            let fixed = self.option(raw.fixed.as_ref(), 0.0, time)?;
            Cost::new(fixed, self.option(raw.each.as_ref(), 0.0, time)?)
        } else if in_cycles {
            let Some(hz) = self.clock_hz else {
                return refuse(self, "cycles need a clock: give clock_mhz in [machine]");
            };
            let cycles = |raw: Option<&Spanned<f64>>| raw.map_or(0.0, |raw| *raw.get_ref());
            Cost::of_cycles(cycles(raw.fixed_cycles.as_ref()), cycles(raw.each_cycles.as_ref()), hz)
        } else {
            return self.measured(raw);
        };
        let cost = match cost {
            Ok(cost) => cost,
            Err(error) => return refuse(self, &error.to_string()),
        };
        let spread = self.option(raw.spread.as_ref(), Spread::default(), |points| {
            let points: Vec<(f64, f64)> =
                points.iter().map(|[ratio, share]| (*ratio, *share)).collect();
            Spread::new(&points).map_err(|error| error.to_string())
        })?;
        Ok(cost.with_spread(spread))
    }

    fn measured(&mut self, raw: &scenario::Stage) -> Result<Cost, Error> {
        let named = raw.cost.as_ref().unwrap_or(&raw.name);
        let (name, at, packet) = (named.get_ref().clone(), named.span(), self.packet);
        let cost = self.calibration()?.cost(&name, packet).cloned();
        cost.ok_or_else(|| {
            let what = format!(
                "the calibration has neither {name}@{packet} nor {name}: give fixed and each, or \
                 another packet size in [demand], or calibrate again if it is older than the stage"
            );
            self.source.refuse(at, &what)
        })
    }

    fn calibration(&mut self) -> Result<&Calibration, Error> {
        if self.loaded.is_none() {
            let path = self.calibration.map_or_else(calibrate::default_file, |p| Ok(p.into()))?;
            self.loaded = Some(calibrate::load(&path)?);
        }
        let nothing = || Error::Usage("there is no calibration".to_owned());
        self.loaded.as_ref().map(|(calibration, _)| calibration).ok_or_else(nothing)
    }

    fn graph(&self, scenario: &Scenario) -> Result<Graph, Error> {
        let mut edges = Vec::new();
        for (to, stage) in scenario.stages.iter().enumerate() {
            let raw = stage.get_ref();
            let before = to.checked_sub(1).into_iter().collect();
            let after: Vec<usize> = self.option(raw.after.as_ref(), before, |names| {
                names.iter().map(|name| number(scenario, name)).collect()
            })?;
            let takes = self.port(raw.input.as_ref(), raw.takes.as_ref())?;
            for from in after {
                let giver = scenario.stages[from].get_ref();
                let gives = self.port(giver.output.as_ref(), giver.gives.as_ref())?;
                edges.push(Edge { from, gives, to, takes });
            }
        }
        let names: Vec<&String> =
            scenario.stages.iter().map(|stage| stage.get_ref().name.get_ref()).collect();
        Graph::new(&names, &edges).map_err(|error| {
            // At the last stage that the message names.
            let text = error.to_string();
            let is_named = |stage: &&Spanned<scenario::Stage>| {
                let mut words =
                    text.split_whitespace().map(|word| word.trim_end_matches([':', ',']));
                words.any(|word| word == stage.get_ref().name.get_ref())
            };
            let named = scenario.stages.iter().rev().find(is_named);
            self.source.refuse(named.map_or(0..0, |stage| stage.get_ref().name.span()), &text)
        })
    }

    fn port(
        &self,
        token: Option<&Spanned<String>>,
        rate: Option<&Spanned<i64>>,
    ) -> Result<Port, Error> {
        let rate = self.option(rate, 1, whole(1, u32::MAX.into()))? as u32;
        Ok(Port { token: self.option(token, Token::Packet, kind)?, rate })
    }

    fn demand(
        &self,
        raw: &Spanned<scenario::Demand>,
        scenario: &Scenario,
        specs: &[StageSpec],
        payload: f64,
    ) -> Result<Demand, Error> {
        let demand = raw.get_ref();
        let goodput_bps = match (&demand.goodput, &demand.packets) {
            (Some(goodput), None) => self.value(goodput, rate)?,
            (None, Some(packets)) => self.value(packets, rate)? * 8.0 * payload,
            _ => {
                let what = "say how much is asked for: goodput, or packets per second, not both";
                return Err(self.source.refuse(raw.span().start..raw.span().start, what));
            }
        };
        let first = specs.iter().position(|stage| stage.unit == Token::Packet).unwrap_or(0);
        let fec = self.option(demand.fec.as_ref(), None, |[k, m]| {
            let within = whole(1, 256);
            Ok(Some((within(k)? as u32, within(m)? as u32)))
        })?;
        let named = |name: &String| number(scenario, name);
        Ok(Demand {
            goodput_bps,
            payload,
            payload_stage: self.option(demand.stage.as_ref(), first, named)?,
            fec,
            loss: self.option(demand.loss.as_ref(), 0.0, share)?,
            lanes: self.option(demand.lanes.as_ref(), 1, whole(1, 65_536))? as u32,
            chunks: self.option(demand.chunks.as_ref(), 2, whole(1, 65_536))? as u32,
        })
    }

    fn machine(&self, raw: &scenario::Machine) -> Result<Machine, Error> {
        let here = Identity::of_this_host().cores as i64;
        let cores = self.option(raw.cores.as_ref(), here, whole(1, MAX_CORES as i64))? as usize;
        let measured = self.loaded.as_ref().map(|(calibration, _)| calibration);
        let cycle_ns = measured.map_or(0.0, |calibration| calibration.cycle_ns);
        let crossing_ns = measured.map_or([0.0; 2], |c| c.crossing_ns(self.packet));
        let both = |raw: &[String; 2]| Ok([time(&raw[0])?, time(&raw[1])?]);
        Ok(Machine {
            cores,
            most_used: self.option(raw.used.as_ref(), 0.8, share)?,
            cycle_ns: self.option(raw.cycle.as_ref(), cycle_ns, time)?,
            crossing_ns: self.option(raw.crossing.as_ref(), crossing_ns, both)?,
            prefer: self.option(raw.prefer.as_ref(), Objective::Balance, prefer)?,
        })
    }
}

/// A stage's number by its name.
fn number(scenario: &Scenario, name: &str) -> Result<usize, String> {
    let named = |stage: &Spanned<scenario::Stage>| stage.get_ref().name.get_ref() == name;
    scenario.stages.iter().position(named).ok_or_else(|| format!("there is no stage \"{name}\""))
}

fn whole(low: i64, high: i64) -> impl Fn(&i64) -> Result<i64, String> {
    move |value| match *value {
        value if (low..=high).contains(&value) => Ok(value),
        value => Err(format!("{value} is out of range: choose {low} to {high}")),
    }
}

fn positive(value: f64) -> Result<f64, String> {
    let is_sound = value.is_finite() && value > 0.0;
    is_sound.then_some(value).ok_or_else(|| format!("{value} is out of range: choose above 0"))
}

#[expect(clippy::ptr_arg, reason = "all conversions have one shape")]
fn time(text: &String) -> Result<f64, String> {
    let time: Duration = text.parse().map_err(refused)?;
    Ok(time.as_ps() as f64 / 1e3)
}

fn share(raw: &toml::Value) -> Result<f64, String> {
    text(raw).parse().map(Probability::get).map_err(refused)
}

/// So many per second: `10G`, `2.5M`, `1000000`.
fn rate(raw: &toml::Value) -> Result<f64, String> {
    let rate: Rate = text(raw).parse().map_err(refused)?;
    positive(rate.bits_per_second() as f64)
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn refused(error: UnitError) -> String {
    error.to_string()
}

/// A value as its type parses it.
fn text(raw: &toml::Value) -> String {
    match raw {
        toml::Value::Float(number) => number.to_string(),
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn kind(name: &String) -> Result<Token, String> {
    let wrong = || format!("\"{name}\" is not a token: choose \"packet\", \"group\" or \"chunk\"");
    token(name).ok_or_else(wrong)
}

fn state(name: &String) -> Result<State, String> {
    match name.as_str() {
        "none" => Ok(State::None),
        "chunk" => Ok(State::PerChunk),
        "lane" => Ok(State::PerLane),
        "global" => Ok(State::Global),
        _ => Err(format!(
            "\"{name}\" is not a state: choose \"none\", \"chunk\", \"lane\" or \"global\""
        )),
    }
}

fn prefer(name: &String) -> Result<Objective, String> {
    match name.as_str() {
        "balance" => Ok(Objective::Balance),
        "few-cores" => Ok(Objective::FewCores),
        _ => Err(format!("\"{name}\" is not a preference: choose \"balance\" or \"few-cores\"")),
    }
}
