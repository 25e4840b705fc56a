//! From raw values to a run: defaults, then the scenario, then the command line, each checked
//! where it comes from.

use super::scenario::Scenario;
use crate::args::RunArguments;
use crate::failure::Failure;
use crate::scenario::Source;
use crate::units;
use linecard::offload::coalesce::{ChecksumPolicy, Config};
use linecard::port::{Family, FaultRates};
use linecard_io::run::RunSpec;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;

/// A value, and how to refuse it where it was written.
type Check<T> = fn(&T) -> Result<(), String>;

/// The run over lanes in memory that arguments and scenario ask for; `lane_option` is what the command
/// line says of their number.
pub(crate) fn spec(arguments: &RunArguments, lane_option: Option<u64>) -> Result<RunSpec, Failure> {
    let (scenario, source) = match &arguments.scenario {
        Some(path) => Source::read::<Scenario>(path)?,
        None => (Scenario::default(), Source::default()),
    };
    let Scenario { load, lanes, coalesce, run } = scenario;
    // Where the scenario has them, unless the command line takes precedence.
    let lanes_at = place(lane_option.is_some(), lanes.count.as_ref());
    let corrupt_at = place(false, lanes.corrupt.as_ref());
    let mtu_at = place(arguments.mtu.is_some(), load.mtu.as_ref());
    let from = Origin { source: &source };
    let spec = RunSpec {
        flows: from.pick("--flows", arguments.flows, load.flows, 16, number, flows)? as usize,
        lanes: from.pick("--lanes", lane_option, lanes.count, 1, number, lane_count)? as usize,
        mtu: from.pick("--mtu", arguments.mtu, load.mtu, 1500, size, mtu)?,
        send_len: from.pick("--size", arguments.size, load.size, 65_536, size, send_len)?,
        family: from.pick("family", None, load.family, Family::V4, family, any)?,
        duration: Duration::from_secs_f64(from.pick(
            "--seconds",
            arguments.seconds,
            run.seconds,
            2.0,
            copied,
            seconds,
        )?),
        faults: FaultRates {
            loss: from.pick("--loss", arguments.loss, lanes.loss, 0.0, share, any)?,
            reorder: from.pick("--reorder", arguments.reorder, lanes.reorder, 0.0, share, any)?,
            corrupt: from.pick("corrupt", None, lanes.corrupt, 0.0, share, any)?,
        },
        coalesce: Config {
            hold_budget: from.pick("hold", None, coalesce.hold, HOLD, hold_time, hold)?,
            checksum: from.pick("checksum", None, coalesce.checksum, VERIFY, policy, any)?,
            ..Config::default()
        },
        seed: from.pick("--seed", arguments.seed, run.seed, 1, number, any)?,
    };
    let refuse = |at: Option<Range<usize>>, what: String| match at {
        Some(at) => source.refuse(at, &what),
        None => Failure::Usage(what),
    };
    if spec.faults.corrupt > 0.0 && spec.coalesce.checksum == ChecksumPolicy::Trust {
        let what = "trusted checksums let corrupted packets merge, and then no byte can be told \
                    right from wrong: choose checksum = \"verify\" or corrupt = 0";
        return Err(refuse(corrupt_at, what.to_owned()));
    }
    lanes_fit_flows(&spec).map_err(|what| refuse(lanes_at, what))?;
    mtu_fits_family(&spec).map_err(|what| refuse(mtu_at, what))?;
    Ok(spec)
}

const HOLD: Duration = Duration::from_millis(1);
const VERIFY: ChecksumPolicy = ChecksumPolicy::Verify;

/// Where values come from.
struct Origin<'s> {
    source: &'s Source,
}

impl Origin<'_> {
    /// The command line's value, else the scenario's, else the default; refused with its name,
    /// or its place in the scenario.
    fn pick<R, T>(
        &self,
        option: &str,
        given: Option<T>,
        raw: Option<Spanned<R>>,
        default: T,
        convert: fn(&R) -> Result<T, String>,
        check: Check<T>,
    ) -> Result<T, Failure> {
        if let Some(value) = given {
            let refuse = |what| Failure::Usage(format!("{option}: {what}"));
            return check(&value).map_err(refuse).map(|()| value);
        }
        let Some(raw) = raw else { return Ok(default) };
        let at = raw.span();
        let refuse = |what: String| self.source.refuse(at.clone(), &what);
        let value = convert(raw.get_ref()).map_err(refuse)?;
        check(&value).map_err(refuse).map(|()| value)
    }
}

/// Where the scenario has a value that is used.
fn place<T>(overruled: bool, raw: Option<&Spanned<T>>) -> Option<Range<usize>> {
    if overruled { None } else { raw.map(Spanned::span) }
}

fn lanes_fit_flows(spec: &RunSpec) -> Result<(), String> {
    let RunSpec { lanes, flows, .. } = *spec;
    if lanes <= flows {
        return Ok(());
    }
    Err(format!(
        "{lanes} lanes for {flows} flows: a flow uses one lane, so choose at least as many flows"
    ))
}

fn mtu_fits_family(spec: &RunSpec) -> Result<(), String> {
    if spec.family == Family::V4 || spec.mtu >= 1280 {
        return Ok(());
    }
    Err(format!("MTU {}: IPv6 needs at least 1280 (RFC 8200, section 5)", spec.mtu))
}

fn copied(raw: &f64) -> Result<f64, String> {
    Ok(*raw)
}

fn number(raw: &i64) -> Result<u64, String> {
    u64::try_from(*raw).map_err(|_| format!("{raw} is negative"))
}

fn size(raw: &toml::Value) -> Result<usize, String> {
    match raw {
        toml::Value::Integer(n) => usize::try_from(*n).map_err(|_| format!("{n} is no size")),
        toml::Value::String(text) => units::bytes(text),
        other => Err(format!("{other} is no size: write 1500 or \"64K\"")),
    }
}

fn share(raw: &toml::Value) -> Result<f64, String> {
    match raw {
        toml::Value::Integer(n) => units::probability(&n.to_string()),
        toml::Value::Float(x) => units::probability(&x.to_string()),
        toml::Value::String(text) => units::probability(text),
        other => Err(format!("{other} is no probability: write 0.01 or \"1%\"")),
    }
}

fn family(raw: &String) -> Result<Family, String> {
    match raw.as_str() {
        "ipv4" => Ok(Family::V4),
        "ipv6" => Ok(Family::V6),
        _ => Err(format!("\"{raw}\" is no family: choose \"ipv4\" or \"ipv6\"")),
    }
}

fn policy(raw: &String) -> Result<ChecksumPolicy, String> {
    match raw.as_str() {
        "verify" => Ok(ChecksumPolicy::Verify),
        "trust" => Ok(ChecksumPolicy::Trust),
        _ => Err(format!("\"{raw}\" is no policy: choose \"verify\" or \"trust\"")),
    }
}

#[expect(clippy::ptr_arg, reason = "all conversions have one shape")]
fn hold_time(raw: &String) -> Result<Duration, String> {
    units::duration(raw)
}

fn any<T>(_: &T) -> Result<(), String> {
    Ok(())
}

pub(super) fn within<T: PartialOrd + std::fmt::Display>(
    value: &T,
    [low, high]: [T; 2],
) -> Result<(), String> {
    if (&low..=&high).contains(&value) {
        Ok(())
    } else {
        Err(format!("{value} is out of range: choose {low} to {high}"))
    }
}

fn flows(value: &u64) -> Result<(), String> {
    within(value, [1, 1_000_000])
}

pub(super) fn lane_count(value: &u64) -> Result<(), String> {
    within(value, [1, 64])
}

fn mtu(value: &usize) -> Result<(), String> {
    within(value, [576, 65_535])
}

fn send_len(value: &usize) -> Result<(), String> {
    within(value, [1, 16 << 20])
}

fn seconds(value: &f64) -> Result<(), String> {
    within(value, [0.01, 3_600.0])
}

fn hold(value: &Duration) -> Result<(), String> {
    let allowed = !value.is_zero() && *value <= Duration::from_secs(1);
    if allowed { Ok(()) } else { Err(format!("{value:?} is out of range: choose 1ns to 1s")) }
}
