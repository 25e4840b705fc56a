//! The core's clock with buses and numbers of cores around the given ones.

use super::{Alternative, Solving};
use linecard_model::solve::{SolveError, SolveInput};
use linecard_model::transmit::Design;
use linecard_report::Item;

/// Widths of a bus that can be built.
const BUS_BITS: std::ops::RangeInclusive<u32> = 32..=1024;

/// Numbers of cores that are shown.
const CORES: [usize; 4] = [1, 2, 4, 8];

/// Half the bus, twice and four times as much, with the cores as given; and other numbers of cores at the
/// bus as given.
fn around(cores: usize, bus_bits: u32) -> Vec<(usize, u32)> {
    let widths = [bus_bits / 2, bus_bits * 2, bus_bits * 4].map(|bits| (cores, bits));
    let numbers = CORES.into_iter().filter(|number| *number != cores);
    widths.into_iter().chain(numbers.map(|number| (number, bus_bits))).collect()
}

impl Solving {
    /// The core's clock with other widths and numbers.
    pub(super) fn alternatives(&self) -> Vec<Item<Alternative>> {
        let given = &self.question.design;
        let alternative = |(cores, bus_bits)| {
            let (from_mhz, obstacle) = match self.core_mhz(cores, bus_bits) {
                Ok(mhz) => (Some(mhz), None),
                Err(why) => (None, Some(why)),
            };
            let s = if cores == 1 { "" } else { "s" };
            let label = format!("{cores} core{s}, {bus_bits} bits");
            Item { label, value: Alternative { cores, bus_bits, from_mhz, obstacle } }
        };
        around(given.cores, given.bus_bits).into_iter().map(alternative).collect()
    }

    /// The core's clock in MHz, or why there is none.
    fn core_mhz(&self, cores: usize, bus_bits: u32) -> Result<f64, String> {
        if !BUS_BITS.contains(&bus_bits) {
            return Err(format!("no such bus: {} to {} bits", BUS_BITS.start(), BUS_BITS.end()));
        }
        let design = Design { cores, bus_bits, ..self.question.design.clone() };
        let limit_hz = self.limits.core_hz;
        match (SolveInput { design, ..self.question.clone() }).core_clock() {
            Ok(edge) if edge.from_hz <= limit_hz => Ok(edge.from_hz as f64 / 1e6),
            Ok(edge) => Err(format!(
                "would need {:.1} MHz, limit {:.1} MHz",
                edge.from_hz as f64 / 1e6,
                limit_hz as f64 / 1e6
            )),
            Err(SolveError::Dma { demand }) if demand >= 1.0 => {
                Err(format!("no clock: the DMA would be moving for {demand:.2} of the time"))
            }
            Err(SolveError::Dma { demand }) => Err(format!(
                "no clock: a core waits too long for the DMA, which moves for {demand:.2} of the time"
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::around;

    #[test]
    fn designs_around_the_one_asked_for_are_shown() {
        let wide = [(1, 512), (1, 2048), (1, 4096), (2, 1024), (4, 1024), (8, 1024)];
        assert_eq!(around(1, 1024), wide);
        let narrow = [(4, 32), (4, 128), (4, 256), (1, 64), (2, 64), (8, 64)];
        assert_eq!(around(4, 64), narrow);
    }
}
