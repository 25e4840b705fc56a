//! From parameters to the graph that is planned.

use super::config::{self, Config};
use super::error::PlanningError;
use crate::{Context, Error, calibrate};
use linecard_config::{Bytes, ConfigError, Duration, Rate};
use linecard_io::calibrate::{Calibration, Identity};
use linecard_plan::{
    Cost, Demand, Edge, Graph, MAX_STAGES, Machine, PlanError, PlanInput, Port, Spread, StageSpec,
    Token,
};

/// Headers of TCP over IPv4 with timestamps: what a packet has more than its payload.
const HEADERS: u64 = 52;

/// The input of a plan, and the origin of its values.
#[derive(Debug)]
pub(super) struct Query {
    pub(super) input: PlanInput,
    /// Bytes of an IP packet, by which costs are found.
    pub(super) packet: u32,
    /// Other differences from the conditions of calibration.
    pub(super) remark: Option<String>,
}

/// The demand of a configuration.
pub(super) fn query(config: &Config, context: &Context<'_>) -> Result<Query, Error> {
    linecard_config::check(config)?;
    let payload = config.demand.payload.map(Bytes::get);
    let payload = payload.ok_or_else(|| {
        ConfigError::of_parameter(
            "demand.payload",
            "missing: give the bytes of payload in a packet",
        )
    })?;
    let packet = config.demand.packet.map_or(payload + HEADERS, Bytes::get) as u32;
    let mut reader = Reader { config, context, loaded: None, packet };
    let count = config.stage.len();
    if count == 0 || count > MAX_STAGES {
        return Err(ConfigError::of_parameter("stage", PlanningError::Stages { count }).into());
    }
    let stages = (0..count).map(|at| reader.stage(at)).collect::<Result<Vec<_>, Error>>()?;
    let graph = reader.graph()?;
    let demand = reader.demand(&stages, payload as f64)?;
    let machine = reader.machine();
    let remark = reader.loaded.and_then(|(_, remark)| remark);
    Ok(Query { input: PlanInput { graph, stages, demand, machine }, packet, remark })
}

/// Values that no plan is made for, at the stage that they are of.
pub(super) fn refused(config: &Config, error: PlanError) -> Error {
    let stage = match &error {
        PlanError::Stage { stage, .. } => Some(stage.as_str()),
        _ => None,
    };
    ConfigError::of_parameter(&last(config, stage), error).into()
}

/// The parameter of an error: the last stage of this name, or the demand where it is about the scenario as a whole.
fn last(config: &Config, name: Option<&str>) -> String {
    let at = name.and_then(|name| config.stage.iter().rposition(|stage| stage.name == name));
    at.map_or_else(|| "demand".to_owned(), |at| key(at, "name"))
}

/// A parameter of a stage.
fn key(stage: usize, name: &str) -> String {
    format!("stage[{stage}].{name}")
}

struct Reader<'a> {
    config: &'a Config,
    context: &'a Context<'a>,
    loaded: Option<(Calibration, Option<String>)>,
    packet: u32,
}

impl Reader<'_> {
    fn stage(&mut self, at: usize) -> Result<StageSpec, Error> {
        let stage = &self.config.stage[at];
        Ok(StageSpec {
            name: stage.name.clone(),
            unit: stage.unit.into(),
            on_wire: stage.wire,
            batch: stage.batch,
            state: stage.state.into(),
            cost: self.cost(at)?,
            deadline_ns: stage.deadline.map_or(f64::INFINITY, nanoseconds),
            miss: stage.miss.get(),
            beside: self.numbers(&key(at, "beside"), &stage.beside)?,
        })
    }

    /// As given in time or cycles, else as measured.
    fn cost(&mut self, at: usize) -> Result<Cost, Error> {
        let stage = &self.config.stage[at];
        let refuse = |error| ConfigError::of_parameter(&key(at, "name"), error);
        let in_time = stage.fixed.is_some() || stage.each.is_some();
        let in_cycles = stage.fixed_cycles.is_some() || stage.each_cycles.is_some();
        if [in_time, in_cycles, stage.cost.is_some()].into_iter().filter(|given| *given).count() > 1
        {
            return Err(refuse(PlanningError::SeveralCosts).into());
        }
        let cost = if in_time {
            let time = |time: Option<Duration>| time.map_or(0.0, nanoseconds);
            Cost::new(time(stage.fixed), time(stage.each))
        } else if in_cycles {
            let clock = self.config.machine.clock_mhz;
            let hz = clock.ok_or_else(|| refuse(PlanningError::NoClock))?;
            let cycles = |cycles: Option<f64>| cycles.unwrap_or(0.0);
            let (fixed, each) = (cycles(stage.fixed_cycles), cycles(stage.each_cycles));
            Cost::of_cycles(fixed, each, hz.hz() as f64)
        } else {
            return self.measured(at);
        };
        let cost = cost.map_err(|error| ConfigError::of_parameter(&key(at, "name"), error))?;
        let spread = stage.spread.as_ref().map_or(Ok(Spread::default()), |points| {
            let points: Vec<(f64, f64)> =
                points.iter().map(|[ratio, share]| (*ratio, *share)).collect();
            Spread::new(&points)
        });
        let wrong =
            |error: linecard_plan::CostError| ConfigError::of_parameter(&key(at, "spread"), error);
        Ok(cost.with_spread(spread.map_err(wrong)?))
    }

    fn measured(&mut self, at: usize) -> Result<Cost, Error> {
        let (stage, packet) = (&self.config.stage[at], self.packet);
        let (given, name) = match &stage.cost {
            Some(name) => ("cost", name),
            None => ("name", &stage.name),
        };
        let cost = self.calibration()?.cost(name, packet).cloned();
        cost.ok_or_else(|| {
            let name = name.clone();
            let error = PlanningError::NotCalibrated { name, packet };
            ConfigError::of_parameter(&key(at, given), error).into()
        })
    }

    fn calibration(&mut self) -> Result<&Calibration, Error> {
        let loaded = match self.loaded.take() {
            Some(loaded) => loaded,
            None => {
                let file = self.config.calibration.as_deref();
                let file = file.map(|file| self.context.path_of("calibration", file));
                calibrate::load(&file.map_or_else(calibrate::default_file, Ok)?)?
            }
        };
        Ok(&self.loaded.insert(loaded).0)
    }

    fn graph(&self) -> Result<Graph, Error> {
        let stages = &self.config.stage;
        let mut edges = Vec::new();
        for (to, stage) in stages.iter().enumerate() {
            let after = match &stage.after {
                Some(names) => self.numbers(&key(to, "after"), names)?,
                None => to.checked_sub(1).into_iter().collect(),
            };
            let takes = port(stage.input, stage.takes);
            edges.extend(after.into_iter().map(|from| {
                let giver = &stages[from];
                Edge { from, gives: port(giver.output, giver.gives), to, takes }
            }));
        }
        let names: Vec<&String> = stages.iter().map(|stage| &stage.name).collect();
        let graph = Graph::new(&names, &edges);
        Ok(graph
            .map_err(|error| ConfigError::of_parameter(&last(self.config, error.stage()), error))?)
    }

    fn demand(&self, specs: &[StageSpec], payload: f64) -> Result<Demand, ConfigError> {
        let demand = &self.config.demand;
        let goodput_bits_per_second = match (demand.goodput, demand.packets) {
            (Some(goodput), None) => Rate::bits_per_second(goodput) as f64,
            (None, Some(packets)) => packets.get() as f64 * 8.0 * payload,
            _ => {
                let what = "give the demand: goodput, or packets per second, not both";
                return Err(ConfigError::of_parameter("demand", what));
            }
        };
        let first = specs.iter().position(|stage| stage.unit == Token::Packet).unwrap_or(0);
        let stage = demand.stage.as_ref().map(|name| self.number("demand.stage", name));
        Ok(Demand {
            goodput_bits_per_second,
            payload,
            payload_stage: stage.transpose()?.unwrap_or(first),
            fec: demand.fec.map(|[k, m]| (k, m)),
            loss: demand.loss.get(),
            lanes: demand.lanes,
            chunks: demand.chunks,
        })
    }

    fn machine(&self) -> Machine {
        let machine = &self.config.machine;
        let measured = self.loaded.as_ref().map(|(calibration, _)| calibration);
        let cycle = || measured.map_or(0.0, |calibration| calibration.cycle_ns);
        let crossing = || measured.map_or([0.0; 2], |c| c.crossing_ns(self.packet));
        Machine {
            cores: machine.cores.unwrap_or_else(|| Identity::of_this_host().cores),
            most_used: machine.used.get(),
            cycle_ns: machine.cycle.map_or_else(cycle, nanoseconds),
            crossing_ns: machine.crossing.map_or_else(crossing, |both| both.map(nanoseconds)),
            prefer: machine.prefer.into(),
        }
    }

    fn numbers(&self, parameter: &str, names: &[String]) -> Result<Vec<usize>, ConfigError> {
        names.iter().map(|name| self.number(parameter, name)).collect()
    }

    /// A stage's number by its name.
    fn number(&self, parameter: &str, name: &str) -> Result<usize, ConfigError> {
        let at = self.config.stage.iter().position(|stage| stage.name == name);
        let missing = || {
            ConfigError::of_parameter(parameter, PlanningError::NoStage { name: name.to_owned() })
        };
        at.ok_or_else(missing)
    }
}

fn port(token: config::Unit, rate: u32) -> Port {
    Port { token: token.into(), rate }
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_ps() as f64 / 1e3
}
