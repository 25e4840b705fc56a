//! The saturation throughput of a mapping.

use super::cost::Cost;
use alloc::vec::Vec;

/// Payload packets per second that a core can process if it always has enough work; `loads` is
/// everything it does: `(cost, firings per payload packet, longest batch, additional ns per
/// firing)`.
///
/// A cycle then processes as many packets as the stage with the shortest batch allows: `1 / (Σ
/// f·C(b)/b + other/n)` with `n` packets per cycle and `b = max(1, f·n)`.
///
/// ```
/// use linecard_plan::{Cost, saturation};
/// let (cut, merge) = (Cost::new(60.0, 100.0)?, Cost::new(40.0, 50.0)?);
/// let one_by_one = saturation(&[(&cut, 1.0, 1, 0.0), (&merge, 1.0, 1, 0.0)], 0.0);
/// assert_eq!(one_by_one, Some(4e6));
/// # Ok::<(), linecard_plan::CostError>(())
/// ```
///
/// None for a core without work.
#[must_use]
pub fn saturation(loads: &[(&Cost, f64, u32, f64)], other_ns: f64) -> Option<f64> {
    let packets = loads.iter().map(|(_, firings, batch, _)| f64::from(*batch) / firings);
    let packets = packets.reduce(f64::min)?;
    let times: Vec<f64> = loads
        .iter()
        .map(|(cost, firings, _, extra)| {
            let batch = (firings * packets).max(1.0);
            firings * (cost.at(batch) / batch + extra)
        })
        .collect();
    let each_ns = times.iter().sum::<f64>() + other_ns / packets;
    Some(1e9 / each_ns)
}
