//! "Chasing Linux Jitter Sources for Uncompressed Video" on this host; papers/linux-jitter.toml has the rest.

use crate::failure::Failure;
use linecard_report::Report;

/// Adds the experiments on this host.
pub(super) fn add(report: &mut Report) -> Result<(), Failure> {
    crate::jitter::reproduce(report)?;
    report.note(
        "Live figures are this host's, at this moment: no row of them has to meet the paper's, whose \
         server was dedicated hardware. What is emulated is done another way; see docs/design/jitter.md.",
    );
    Ok(())
}
