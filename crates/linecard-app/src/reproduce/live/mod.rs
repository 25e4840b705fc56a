//! Measurements of this host beside a reproduction, where they are possible: real traffic has no
//! figures that must be met.

mod end2end100;
mod error;
mod iperf3;
mod linux_jitter;
mod lro_npu;

pub use linux_jitter::add_path;

use super::paper::Paper;
use crate::Error;
use linecard_config::Document;
use linecard_report::Report;
use std::path::Path;

/// Shows each measured line at once.
pub type Say<'s> = &'s dyn Fn(&str);

/// Refuses parameters that nothing can be measured with.
///
/// # Errors
///
/// The first value that is wrong.
pub fn check(name: &str, own: Option<&Path>) -> Result<(), Error> {
    if name == "lro-npu" { lro_npu::check(own) } else { Ok(()) }
}

/// Adds measurements. `own` is a file as of [`super::reproduce`].
///
/// # Errors
///
/// Measurements that fail, and as [`check`].
pub fn add(name: &str, own: Option<&Path>, say: Say<'_>, report: &mut Report) -> Result<(), Error> {
    match name {
        "lro-npu" => lro_npu::add(own, say, report),
        "end2end100" => end2end100::add(say, report),
        _ => Ok(()),
    }
}

/// Parameters of measurements: the section `live` of a reproduction's file.
fn section(name: &str, own: Option<&Path>) -> Result<Document, Error> {
    let mut live = Paper::built_in(name)?.0.section("live", &[]);
    if let Some(path) = own {
        live.overlay(&Document::read(path)?.section("live", &[]))?;
    }
    Ok(live)
}
