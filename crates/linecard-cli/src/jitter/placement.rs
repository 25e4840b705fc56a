//! Where a measuring thread runs, as arguments.

use crate::failure::Failure;
use clap::Args;
use linecard_io::placement::{Placement, PlacementError};
use linecard_jitter::linux::dummy::throttling;
use linecard_report::Report;

#[derive(Debug, Args)]
pub(crate) struct PlacementArguments {
    /// Core that the measuring thread runs on [default: any].
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Real-time priority (`SCHED_FIFO`), 1 to 99; needs root or `CAP_SYS_NICE` [default: none].
    #[arg(long, value_name = "PRIORITY", value_parser = clap::value_parser!(u8).range(1..=99))]
    pub(crate) fifo: Option<u8>,
}

impl PlacementArguments {
    pub(crate) fn placement(&self) -> Placement {
        let Self { core, fifo } = *self;
        Placement { core, fifo, ..Placement::default() }
    }

    /// What a busy thread of that priority has to expect of the kernel, in a run of so long.
    pub(crate) fn warn(&self, report: &mut Report, seconds: f64) {
        let Some(limit) = throttling().filter(|_| self.fifo.is_some()) else { return };
        if seconds * 1e6 >= limit.runtime_us as f64 {
            report.note(format!(
                "The kernel takes real-time threads off their core after {} µs of each {} µs \
                 (/proc/sys/kernel/sched_rt_runtime_us), and since Linux 6.12 the deadline server does \
                 where others wait: pauses of tens of milliseconds may be that.",
                limit.runtime_us, limit.period_us
            ));
        }
    }
}

/// Why a thread does not run as wished.
pub(crate) fn refused(error: &PlacementError) -> Failure {
    match error {
        PlacementError::Range(_) | PlacementError::Core { .. } | PlacementError::OnlyCore(_) => {
            Failure::Usage(error.to_string())
        }
        _ => Failure::Attach(error.to_string()),
    }
}
