//! Text form of an interface's coalescing parameters, features and time stamps.

use super::{SettingError, State};
use linecard_io::sys::ethtool::{self, COALESCING};

/// The names that `ethtool -C` uses, in the order of `struct ethtool_coalesce`.
const NAMES: [&str; COALESCING] = [
    "rx-usecs",
    "rx-frames",
    "rx-usecs-irq",
    "rx-frames-irq",
    "tx-usecs",
    "tx-frames",
    "tx-usecs-irq",
    "tx-frames-irq",
    "stats-block-usecs",
    "adaptive-rx",
    "adaptive-tx",
    "pkt-rate-low",
    "rx-usecs-low",
    "rx-frames-low",
    "tx-usecs-low",
    "tx-frames-low",
    "pkt-rate-high",
    "rx-usecs-high",
    "rx-frames-high",
    "tx-usecs-high",
    "tx-frames-high",
    "sample-interval",
];

/// Numbers of `struct hwtstamp_config`.
const STAMPS: [&str; 3] = ["flags", "tx-type", "rx-filter"];

pub(super) fn coalescing(interface: &str) -> Result<State, SettingError> {
    let numbers = ethtool::coalescing(interface).map_err(about("read", interface, "coalescing"))?;
    Ok(State::new(text(&NAMES, &numbers)))
}

pub(super) fn set_coalescing(interface: &str, state: &str) -> Result<(), SettingError> {
    let what = "coalescing";
    let invalid = || about("set", interface, what)(std::io::ErrorKind::InvalidData.into());
    let numbers = numbers(&NAMES, state).ok_or_else(invalid)?;
    ethtool::set_coalescing(interface, &numbers).map_err(about("set", interface, what))
}

/// All parameters of `now`, with those that `value` names replaced.
pub(super) fn with_numbers(now: &str, value: &str) -> Option<String> {
    with(&NAMES, now, value)
}

pub(super) fn stamps(interface: &str) -> Result<State, SettingError> {
    let numbers = ethtool::stamped(interface).map_err(about("read", interface, "stamping"))?;
    Ok(State::new(text(&STAMPS, &numbers)))
}

pub(super) fn set_stamps(interface: &str, state: &str) -> Result<(), SettingError> {
    let what = "stamping";
    let invalid = || about("set", interface, what)(std::io::ErrorKind::InvalidData.into());
    let numbers = numbers(&STAMPS, state).ok_or_else(invalid)?;
    ethtool::set_stamped(interface, numbers).map_err(about("set", interface, what))
}

/// As for coalescing.
pub(super) fn with_stamps(now: &str, value: &str) -> Option<String> {
    with(&STAMPS, now, value)
}

fn with<const N: usize>(names: &[&str; N], now: &str, value: &str) -> Option<String> {
    let mut numbers = numbers(names, now)?;
    for (index, number) in pairs(names, value)? {
        numbers[index] = number;
    }
    Some(text(names, &numbers))
}

/// One parameter.
pub(crate) fn number(state: &str, name: &str) -> Option<u32> {
    let numbers = numbers(&NAMES, state)?;
    Some(numbers[NAMES.iter().position(|other| *other == name)?])
}

fn text<const N: usize>(names: &[&str; N], numbers: &[u32; N]) -> String {
    let pairs = names.iter().zip(numbers).map(|(name, number)| format!("{name}={number}"));
    pairs.collect::<Vec<_>>().join(" ")
}

fn numbers<const N: usize>(names: &[&str; N], text: &str) -> Option<[u32; N]> {
    let pairs = pairs(names, text)?;
    let mut numbers = [0; N];
    let is_whole = pairs.iter().map(|pair| pair.0).eq(0..N);
    pairs.into_iter().for_each(|(index, number)| numbers[index] = number);
    is_whole.then_some(numbers)
}

fn pairs(names: &[&str], text: &str) -> Option<Vec<(usize, u32)>> {
    let pair = |word: &str| {
        let (name, number) = word.split_once('=')?;
        Some((names.iter().position(|other| *other == name)?, number.parse().ok()?))
    };
    text.split_whitespace().map(pair).collect()
}

/// `requested=on active=on`: the requested state, and the one the device uses.
pub(super) fn feature(interface: &str, name: &str) -> Result<State, SettingError> {
    let feature = ethtool::feature(interface, name).map_err(about("read", interface, name))?;
    let feature =
        feature.ok_or_else(|| SettingError::Missing { what: format!("{name} of {interface}") })?;
    let word = |on| if on { "on" } else { "off" };
    let (requested, active) = (word(feature.requested), word(feature.active));
    Ok(State::new(format!("requested={requested} active={active}")))
}

pub(super) fn set_feature(interface: &str, name: &str, state: &str) -> Result<(), SettingError> {
    let on = state.split_whitespace().any(|word| word == "requested=on");
    ethtool::set_feature(interface, name, on).map_err(about("set", interface, name))
}

pub(super) fn with_feature(value: &str) -> Option<String> {
    matches!(value, "on" | "off").then(|| format!("requested={value} active={value}"))
}

fn about<'a>(
    doing: &'static str,
    interface: &'a str,
    what: &'a str,
) -> impl Fn(std::io::Error) -> SettingError + 'a {
    move |error| SettingError::system(doing, &format_args!("{what} of {interface}"), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_changed_by_name() {
        let mut now = [0; COALESCING];
        (now[0], now[4], now[9]) = (3, 50, 1);
        let with =
            with_numbers(&text(&NAMES, &now), "adaptive-rx=0 rx-usecs=0 tx-usecs=0").unwrap();
        assert_eq!(numbers(&NAMES, &with), Some([0; COALESCING]));
        assert_eq!(number(&text(&NAMES, &now), "tx-usecs"), Some(50));
        for bad in ["rx-usecs", "rx-usecs=x", "no-such=1", "rx-usecs=-1"] {
            assert_eq!(with_numbers(&text(&NAMES, &now), bad), None, "{bad}");
        }
        assert_eq!(numbers(&NAMES, "rx-usecs=1"), None);
        let stamps = with_stamps("flags=0 tx-type=1 rx-filter=12", "rx-filter=1");
        assert_eq!(stamps.as_deref(), Some("flags=0 tx-type=1 rx-filter=1"));
    }
}
