//! Jitter: how late packets are, which cause makes each late one, and what to change.

#[cfg(target_os = "linux")]
pub mod ab;
pub mod analyze;
#[cfg(target_os = "linux")]
pub mod audit;
mod distribution;
#[cfg(target_os = "linux")]
pub mod dummy;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
pub mod figures;
#[cfg(target_os = "linux")]
pub mod lab;
#[cfg(target_os = "linux")]
pub mod placement;
#[cfg(target_os = "linux")]
pub mod record;
#[cfg(target_os = "linux")]
mod recovery;
#[cfg(target_os = "linux")]
mod rows;
#[cfg(target_os = "linux")]
pub mod send;
#[cfg(target_os = "linux")]
pub mod sink;
#[cfg(target_os = "linux")]
pub mod trace;
#[cfg(target_os = "linux")]
pub mod watch;

#[cfg(target_os = "linux")]
use linecard_jitter::linux::remote;
#[cfg(target_os = "linux")]
pub use recovery::recover;

#[cfg(target_os = "linux")]
use crate::{Error, Failure};
use linecard_report::Value;

/// Sends streams to one address, as a controlling linecard asks over standard input and output, until that ends.
///
/// # Errors
///
/// Standard input has other lines, or standard output does not take the answers.
#[cfg(target_os = "linux")]
pub fn serve_remote(target: std::net::SocketAddr) -> Result<(), Error> {
    let served = remote::serve(target, std::io::stdin(), &mut std::io::stdout().lock());
    served.map_err(|error| Failure::Usage.with(error))
}

/// A time and its interval of 95 %. An interval whose ends read like the time itself is left out: the digits shown are
/// certain, and the figures in JSON have it.
fn with_interval(ns: i64, [lower_ns, upper_ns]: [i64; 2]) -> String {
    let times = [ns, lower_ns, upper_ns].map(|ns| ns as f64);
    let value = Value::Ns(times[0]).to_string();
    if times.iter().all(|ns| Value::Ns(*ns).to_string() == value) {
        return value;
    }
    let [value, lower, upper] = Value::apart_ns(times);
    if lower == upper {
        return format!("{value} (95 %: {lower})");
    }
    format!("{value} (95 %: {lower} to {upper})")
}
