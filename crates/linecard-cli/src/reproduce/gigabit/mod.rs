//! papers/zero-copy-and-gigabit-pci.txt, Loeb et al.: a gigabit adapter on PCI and its server.

mod bus;
mod overhead;
pub(super) mod scenario;
mod throughput;

pub(super) use bus::reproduce as bus;
pub(super) use overhead::reproduce as overhead;
pub(super) use throughput::reproduce as throughput;

use crate::failure::Failure;
use linecard_model::pci::{Config, Outcome, simulate};

/// What the costs in the model were fitted to, for people.
const FITTED: &str = "A model: the costs of the server's software were fitted once to the traces at 400 and 700 MHz, \
     the FIFO's threshold to 100 wait states; window, buffers and the clients' time to answer are \
     ours. All else follows.";

/// Runs the model, whose ranges the scenario has checked.
fn run(config: &Config) -> Result<Outcome, Failure> {
    simulate(config).map_err(|error| Failure::Usage(error.to_string()))
}
