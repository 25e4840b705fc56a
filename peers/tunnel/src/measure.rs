//! One measurement of a tunnel.

use crate::Result;
use crate::lab::{DEVICE, Lab, Side};
use crate::options::Options;
use crate::processes::Process;
use crate::programs::Program;
use crate::round_trips;
use std::fmt;
use std::time::Duration;

/// Port of the tunnels.
const PORT: u16 = 4_800;
/// Bytes of the largest packet in a tunnel.
const MTU: &str = "1420";
/// The time that iperf3 may take beyond its measurement.
const IPERF_LIMIT: Duration = Duration::from_secs(20);

/// The measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figures {
    pub gbit_per_second: f64,
    /// User and system, of all processes of the program, for 10⁹ bytes of TCP payload.
    pub cpu_seconds_per_gb: f64,
    /// Median and 99th percentile in microseconds.
    pub round_trip_us: Option<[f64; 2]>,
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:.2} Gbit/s, {:.2} CPU s/GB", self.gbit_per_second, self.cpu_seconds_per_gb)?;
        match self.round_trip_us {
            Some([median, high]) => write!(out, ", {median:.0} µs, 99 % {high:.0} µs"),
            None => Ok(()),
        }
    }
}

/// Starts both ends of a tunnel, and measures round trips, then throughput.
pub fn tunnel(program: &Program, lab: &Lab, options: &Options) -> Result<Figures> {
    let ends =
        [start(program, lab, Side::Near, Side::Far)?, start(program, lab, Side::Far, Side::Near)?];
    let times = round_trips::measure(lab, options.round_trips)?;
    let before = cpu(&ends)?;
    let (bytes, gbit_per_second) = throughput(lab, options)?;
    let used = cpu(&ends)? - before;
    Ok(Figures {
        gbit_per_second,
        cpu_seconds_per_gb: used.as_secs_f64() / (bytes / 1e9),
        round_trip_us: Some(
            [50, 99].map(|percent| percentile(&times, percent).as_secs_f64() * 1e6),
        ),
    })
}

fn start(program: &Program, lab: &Lab, side: Side, peer: Side) -> Result<Process> {
    let address = |side: Side| format!("{}:{PORT}", side.outer());
    let mut arguments = vec![DEVICE.to_owned(), address(side), address(peer)];
    arguments.extend(program.arguments.iter().map(|&argument| argument.to_owned()));
    let mut process = Process::start(lab.at(side), program.path()?, &arguments)?;
    process.wait_for("ready")?;
    lab.configure(side, DEVICE, side.inner(), MTU)?;
    Ok(process)
}

fn cpu(ends: &[Process]) -> Result<Duration> {
    ends.iter().map(Process::cpu).sum()
}

/// Bytes of one TCP stream that arrived, and their rate in Gbit/s.
fn throughput(lab: &Lab, options: &Options) -> Result<(f64, f64)> {
    let mut server = Process::start(lab.at(Side::Far), "iperf3", &["-s", "-1", "--forceflush"])?;
    server.wait_for("listening")?;
    let (address, time) = (Side::Far.inner().to_string(), options.seconds.to_string());
    let words = ["-c", &address, "-t", &time, "-C", &options.congestion, "-i", "0", "--json"];
    let client = Process::start(lab.at(Side::Near), "iperf3", &words)?;
    let output = client.finish(IPERF_LIMIT + Duration::from_secs(options.seconds.into()))?;
    let output: serde_json::Value = serde_json::from_str(&output)?;
    if let Some(error) = output["error"].as_str() {
        return Err(format!("iperf3: {error}").into());
    }
    let received = &output["end"]["sum_received"];
    let figure = |name: &str| match received[name].as_f64() {
        Some(figure) if figure > 0.0 => Ok(figure),
        Some(_) => Err("nothing arrived"),
        None => Err("iperf3 gave no figures"),
    };
    Ok((figure("bytes")?, figure("bits_per_second")? / 1e9))
}

/// The value that `percent` of the sorted values do not exceed.
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> T {
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles() {
        let values: Vec<u32> = (1..=1_000).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&values, percent)), [500, 990, 1_000]);
        assert_eq!(percentile(&[7], 50), 7);
    }
}
