//! Where a measuring thread runs, as parameters.

use crate::{Error, Failure};
use garde::Validate;
use linecard_io::placement::{self, PlacementError};
use linecard_jitter::linux::dummy::throttling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the measuring thread runs, and before whom.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, Validate,
)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend("x-flags" = true))]
#[garde(allow_unvalidated)]
pub struct Placement {
    /// core that the measuring thread runs on
    #[schemars(extend("x-value" = "N", "x-default" = "any"))]
    pub core: Option<usize>,
    /// real-time priority (`SCHED_FIFO`) of the measuring thread; needs root or `CAP_SYS_NICE`
    #[garde(range(min = 1, max = 99))]
    #[schemars(extend("x-value" = "PRIORITY"))]
    pub fifo: Option<u8>,
}

impl Placement {
    pub(super) fn placement(self) -> placement::Placement {
        let Self { core, fifo } = self;
        placement::Placement { core, fifo, ..placement::Placement::default() }
    }

    /// The interruptions that a busy thread of that priority must expect from the kernel in a run
    /// of this length.
    pub(super) fn note(self, seconds: f64) -> Option<String> {
        let limit = throttling().filter(|_| self.fifo.is_some())?;
        (seconds * 1e6 >= limit.runtime_us as f64).then(|| {
            format!(
                "The kernel takes real-time threads off their core after {} µs of each {} µs \
                 (/proc/sys/kernel/sched_rt_runtime_us), and since Linux 6.12 the deadline server does \
                 where others wait: pauses of tens of milliseconds may be that.",
                limit.runtime_us, limit.period_us
            )
        })
    }
}

/// Why a thread does not run as wished.
pub(super) fn refused(error: PlacementError) -> Error {
    match error {
        PlacementError::Range(_) | PlacementError::Core { .. } | PlacementError::OnlyCore(_) => {
            Failure::Usage.with(error)
        }
        _ => Failure::Attach.with(error),
    }
}
