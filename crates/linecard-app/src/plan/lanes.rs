//! The graph of a transfer as it is deployed: its stages, their rates, and the cores on which they may run.

use crate::calibrate::lines::{CHUNK_BYTES, unit};
use linecard_plan::{Cost, Demand, Edge, Graph, Machine, PlanInput, Port, StageSpec, State, Token};
use linecard_transfer::fec::Scheme;
use linecard_transfer_net::stages::Stage;

/// Packets in a call, as both ends of a transfer have it.
pub(super) const BATCH: u32 = 64;

/// A transfer over loopback.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Transfer {
    /// Data bytes of a packet.
    pub(super) payload: u32,
    pub(super) fec: Scheme,
    pub(super) lanes: usize,
    /// Both ends on one core, or each on its own.
    pub(super) cores: usize,
}

impl Transfer {
    /// Its stages, in the order of a packet's way.
    pub(super) fn stages(&self) -> Vec<Stage> {
        let used = |stage: &Stage| *stage != Stage::Encode || self.fec != Scheme::NONE;
        Stage::ALL.into_iter().filter(used).collect()
    }

    /// Packets with data of a whole chunk.
    pub(super) fn packets(&self) -> u32 {
        CHUNK_BYTES.div_ceil(self.payload)
    }

    /// The plan's input for `goodput_bits_per_second`; none where a stage has no cost or the numbers fit no
    /// graph.
    pub(super) fn question(
        &self,
        goodput_bits_per_second: f64,
        cost: impl Fn(Stage) -> Option<Cost>,
    ) -> Option<PlanInput> {
        let stages = self.stages();
        let specs: Option<Vec<StageSpec>> =
            stages.iter().map(|stage| self.spec(*stage, &stages, &cost(*stage)?)).collect();
        let repair = self.fec != Scheme::NONE;
        let (k, m) = (self.fec.data_packets(), self.fec.repair_packets());
        let demand = Demand {
            goodput_bits_per_second,
            // The last packet of a chunk is shorter than others.
            payload: f64::from(CHUNK_BYTES) / f64::from(self.packets()),
            payload_stage: 1,
            fec: repair.then_some((k as u32, m as u32)),
            loss: 0.0,
            lanes: self.lanes as u32,
            chunks: 2 * self.lanes as u32,
        };
        let machine = Machine { most_used: 1.0, ..Machine::new(self.cores) };
        Some(PlanInput { graph: self.graph(&stages)?, stages: specs?, demand, machine })
    }

    /// A cycle is as long as a chunk takes: those of packets make many calls of [`BATCH`] in it, so that
    /// each firing has its share of a call.
    fn spec(&self, stage: Stage, stages: &[Stage], cost: &Cost) -> Option<StageSpec> {
        let unit = unit(stage);
        let batch = f64::from(if unit == Token::Packet { BATCH } else { 1 });
        let each = Cost::new(0.0, cost.at(batch) / batch).ok()?;
        // Each end has its threads on one core.
        let first = stages.iter().position(|other| other.is_near() == stage.is_near());
        Some(StageSpec {
            unit,
            on_wire: !matches!(stage, Stage::Read | Stage::Split | Stage::Encode | Stage::Write),
            batch: [1, self.packets()],
            state: State::Global,
            beside: first.into_iter().collect(),
            ..StageSpec::new(stage.name(), each)
        })
    }

    fn graph(&self, stages: &[Stage]) -> Option<Graph> {
        let names: Vec<&str> = stages.iter().map(|stage| stage.name()).collect();
        // Repair packets are counted by the demand.
        let tokens = |stage: Stage| match unit(stage) {
            Token::Chunk => self.packets(),
            Token::Group => self.fec.data_packets() as u32,
            Token::Packet => 1,
        };
        let port = |rate| Port { token: Token::Packet, rate };
        let edge = |to: usize| {
            // Acknowledged data has been placed; a chunk need not be written for that.
            let before = |stage: &Stage| stages[to] != Stage::AckTx || *stage != Stage::Write;
            let from = stages[..to].iter().rposition(before)?;
            let (gives, takes) = (port(tokens(stages[from])), port(tokens(stages[to])));
            Some(Edge { from, gives, to, takes })
        };
        let edges: Option<Vec<Edge>> = (1..stages.len()).map(edge).collect();
        Graph::new(&names, &edges?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_plan::plan;

    fn transfer(fec: &str, cores: usize) -> Transfer {
        Transfer { payload: 4_096, fec: fec.parse().unwrap(), lanes: 1, cores }
    }

    /// A µs for a packet, a ms for a chunk, 10 µs for a group.
    fn cost(stage: Stage) -> Option<Cost> {
        let ns = match unit(stage) {
            Token::Chunk => 1e6,
            Token::Group => 1e4,
            Token::Packet => 1e3,
        };
        Cost::new(0.0, ns).ok()
    }

    fn most(transfer: Transfer) -> f64 {
        let question = transfer.question(1e6, cost).unwrap();
        plan(&question).unwrap().unwrap().most_goodput_bits_per_second
    }

    /// Promise (Plans): Rates and cores of a transfer's plan are those computed by hand.
    #[test]
    fn rates_are_those_of_chunks_groups_and_what_is_on_the_wire() {
        let transfer = transfer("rs:28,4", 2);
        let question = transfer.question(1e9, cost).unwrap();
        let stages = transfer.stages();
        let firings = |stage: Stage| {
            question.firings(stages.iter().position(|other| *other == stage).unwrap())
        };
        assert_eq!(transfer.packets(), 1_024);
        assert!((firings(Stage::Read) * 1_024.0 - 1.0).abs() < 1e-9);
        assert!((firings(Stage::Write) * 1_024.0 - 1.0).abs() < 1e-9);
        assert!((firings(Stage::Encode) * 28.0 - 1.0).abs() < 1e-9);
        for stage in [Stage::Seal, Stage::Tx, Stage::Rx, Stage::Open, Stage::Place, Stage::AckRx] {
            assert!((firings(stage) - 32.0 / 28.0).abs() < 1e-9, "{stage:?}");
        }
    }

    /// By hand: the sending end takes 1 (split) + 3 (seal, tx, ack-rx) + 1000/1024 (read) µs of a packet,
    /// the receiving end 4 and 1000/1024.
    #[test]
    fn a_core_does_what_its_ends_stages_take_together() {
        let rate = |us: f64| 4_096.0 * 8.0 / us * 1e6;
        let chunk = 1_000.0 / 1_024.0;
        let both = most(transfer("none", 2));
        assert!((both / rate(4.0 + chunk) - 1.0).abs() < 0.01, "{both}");
        let one = most(transfer("none", 1));
        assert!((one / rate(8.0 + 2.0 * chunk) - 1.0).abs() < 0.01, "{one}");
        // A tenth more on the wire, and a group for ten.
        let one = most(transfer("xor:10", 1));
        assert!((one / rate(1.0 + 1.0 + 7.0 * 1.1 + 2.0 * chunk) - 1.0).abs() < 0.01, "{one}");
    }

    #[test]
    fn more_than_that_is_infeasible_and_less_is_not() {
        for cores in [1, 2] {
            let transfer = transfer("rs:28,4", cores);
            let most = most(transfer);
            let at = |share: f64| plan(&transfer.question(share * most, cost).unwrap()).unwrap();
            assert!(at(0.8).is_ok() && at(1.3).is_err());
        }
    }

    #[test]
    fn without_a_cost_there_is_no_question() {
        let some = |stage| if stage == Stage::Open { None } else { cost(stage) };
        assert!(transfer("none", 1).question(1e9, some).is_none());
    }
}
