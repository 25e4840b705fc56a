//! Predicts the throughput of deployments from a calibration.

use super::Calibration;
use super::deployed::{Deployment, Stages};
use super::offload::{group, groups};
use linecard_plan::{Cost, saturation};

/// A stage on a core, as an argument of [`saturation`].
pub(super) type Share<'c> = (&'c Cost, f64, u32, f64);

/// Predicted packets per second of a deployment; none if a stage was not measured.
#[must_use]
pub fn predict(calibration: &Calibration, deployment: &Deployment) -> Option<f64> {
    let Deployment { packet, batch, used_cores, .. } = *deployment;
    let of = |names: &[&str]| shares(calibration, packet, batch, names);
    let rate = |loads: &[Share<'_>]| saturation(loads, calibration.cycle_ns);
    let replicas = used_cores as f64;
    match (deployment.stages, used_cores) {
        (Stages::Segment, _) => {
            Some(replicas * rate(&of(&["application", "segment", "discard"])?)?)
        }
        (Stages::Coalesce, _) => Some(replicas * rate(&of(&["replay", "coalesce", "release"])?)?),
        (Stages::Both, 1) => {
            let [mut sending, receiving] = halves(calibration, packet, batch, [0.0; 2])?;
            sending.extend(receiving);
            rate(&sending)
        }
        (Stages::Both, _) => {
            let crossing = calibration.crossing_ns(packet);
            let [sending, receiving] = halves(calibration, packet, batch, crossing)?;
            Some(rate(&sending)?.min(rate(&receiving)?))
        }
    }
}

/// The sending and the receiving half of the whole path.
pub(super) fn halves(
    calibration: &Calibration,
    packet: u32,
    batch: u32,
    crossing_ns: [f64; 2],
) -> Option<[Vec<Share<'_>>; 2]> {
    let names = ["application", "segment", "wire"];
    let mut sending = shares(calibration, packet, batch, &names)?;
    let mut receiving = shares(calibration, packet, batch, &["take", "coalesce", "verify"])?;
    sending.last_mut()?.3 = crossing_ns[0];
    receiving.first_mut()?.3 = crossing_ns[1];
    Some([sending, receiving])
}

/// Stages of packets fire once per packet, those of groups once per group.
fn shares<'c>(
    calibration: &'c Calibration,
    packet: u32,
    batch: u32,
    names: &[&str],
) -> Option<Vec<Share<'c>>> {
    let share = |name: &&str| {
        let cost = calibration.cost(name, packet)?;
        Some(match *name {
            "application" | "verify" | "release" => {
                (cost, 1.0 / f64::from(group(packet)), groups(packet, batch), 0.0)
            }
            _ => (cost, 1.0, batch, 0.0),
        })
    };
    names.iter().map(share).collect()
}
