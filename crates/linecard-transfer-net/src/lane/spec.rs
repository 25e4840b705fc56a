//! Lanes as the user names them.

use linecard_transfer::control::LaneKind;
use linecard_transfer::lane::Congestion;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Interface names end here (`IFNAMSIZ`, less the zero).
const MAX_INTERFACE_BYTES: usize = 15;
/// Names of groups end here.
const MAX_GROUP_BYTES: usize = 32;
/// Slower and faster than any lane: 1 kbit/s to 10 Tbit/s.
const RATE_BPS: std::ops::RangeInclusive<f64> = 1e3..=1e13;

/// This host's end of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalEnd {
    /// An address of this host.
    Address(IpAddr),
    /// All that the interface carries, and nothing else (`SO_BINDTODEVICE`).
    Interface(String),
}

/// One lane as the user wrote it: `[udp:|tcp:]ADDR[:PORT]` or `[udp:|tcp:][if:]NAME[:PORT]`, then
/// `,rate=200M` (bit/s), `,congestion=cubic` and `,shared=GROUP` as wanted. IPv6 with a port is `[ADDR]:PORT`.
///
/// ```
/// use linecard_transfer::control::LaneKind;
/// use linecard_transfer_net::lane::{LocalEnd, Spec};
/// let spec: Spec = "tcp:10.0.0.1:7000,rate=200M".parse()?;
/// assert_eq!(spec.kind, LaneKind::Tcp);
/// assert_eq!((spec.port, spec.rate_bits_per_second), (Some(7_000), Some(200_000_000)));
/// let spec: Spec = "eth1,shared=uplink".parse()?;
/// assert_eq!(spec.local, LocalEnd::Interface("eth1".into()));
/// # Ok::<(), linecard_transfer_net::lane::SpecError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Its transport; UDP if not said.
    pub kind: LaneKind,
    /// This host's end.
    pub local: LocalEnd,
    /// This host's port; any free one if not said.
    pub port: Option<u16>,
    /// Its rate in bit/s, if it is known and not shared.
    pub rate_bits_per_second: Option<u64>,
    /// How a lane over UDP without a rate finds it.
    pub congestion: Congestion,
    /// Lanes of the same group share a bottleneck.
    pub shared: Option<String>,
}

/// A text that is not a lane.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lane `{given}`: {problem}")]
pub struct SpecError {
    /// The text, at most its first 80 characters.
    pub given: String,
    /// The error.
    pub problem: SpecProblem,
}

/// The part of a text for which it is not a lane.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecProblem {
    /// A repeated key.
    #[error("`{0}` is given twice")]
    Twice(String),
    /// Not a key with a value.
    #[error("`{0}` is neither rate=BITS (as 200M) nor congestion=bbr|cubic nor shared=GROUP")]
    Key(String),
    /// Not an address, and not a name either.
    #[error("`{0}` is not an address; write 10.0.0.1, 10.0.0.1:7000, [fd00::1]:7000")]
    Address(String),
    /// Not a name of an interface.
    #[error("`{0}` is neither an address nor the name of an interface")]
    Name(String),
    /// A name that is too long.
    #[error(
        "`{0}` has {length} characters, and names of interfaces have at most {MAX_INTERFACE_BYTES}",
        length = .0.len()
    )]
    LongName(String),
    /// Not a port.
    #[error("port `{0}` is not 0 to 65535")]
    Port(String),
    /// A rate that is too low or too high.
    #[error("rate `{0}` is not 1k to 10000G bit/s")]
    RateRange(String),
    /// Not a rate.
    #[error("rate `{0}` is not a number of bit/s, as 200M or 1.5G")]
    Rate(String),
    /// Not a congestion control.
    #[error("congestion `{0}` is neither bbr nor cubic")]
    Congestion(String),
    /// Not a group.
    #[error("group `{0}` is not 1 to {MAX_GROUP_BYTES} letters, digits, `-` or `_`")]
    Group(String),
}

impl Spec {
    /// A lane at an address of this host, of which nothing else is known.
    #[must_use]
    pub const fn new(kind: LaneKind, address: IpAddr) -> Self {
        Self {
            kind,
            local: LocalEnd::Address(address),
            port: None,
            rate_bits_per_second: None,
            congestion: Congestion::Bbr,
            shared: None,
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(given: &str) -> Result<Self, SpecError> {
        parse(given)
            .map_err(|problem| SpecError { given: given.chars().take(80).collect(), problem })
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.local)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
        self.rate_bits_per_second.map_or(Ok(()), |rate| write!(f, ",rate={rate}"))?;
        if self.congestion == Congestion::Cubic {
            write!(f, ",congestion=cubic")?;
        }
        self.shared.as_ref().map_or(Ok(()), |group| write!(f, ",shared={group}"))
    }
}

impl fmt::Display for LocalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            // Where it would be read as another.
            Self::Interface(name) => match local(name) {
                Ok((read, None)) if read == *self => write!(f, "{name}"),
                _ => write!(f, "if:{name}"),
            },
        }
    }
}

fn parse(given: &str) -> Result<Spec, SpecProblem> {
    let mut parts = given.split(',');
    let end = parts.next().unwrap_or("");
    let (kind, end) = match end.split_once(':') {
        Some(("udp", rest)) => (LaneKind::Udp, rest),
        Some(("tcp", rest)) => (LaneKind::Tcp, rest),
        _ => (LaneKind::Udp, end),
    };
    let (local, port) = local(end)?;
    let congestion = Congestion::Bbr;
    let mut spec = Spec { kind, local, port, rate_bits_per_second: None, congestion, shared: None };
    let mut chosen = None;
    for part in parts {
        match part.split_once('=') {
            Some(("rate", value)) if spec.rate_bits_per_second.is_none() => {
                spec.rate_bits_per_second = Some(rate(value)?);
            }
            Some(("shared", value)) if spec.shared.is_none() => spec.shared = Some(group(value)?),
            Some(("congestion", value)) if chosen.is_none() => {
                chosen = Some(congestion_of(value)?);
            }
            Some(("rate" | "congestion" | "shared", _)) => {
                return Err(SpecProblem::Twice(part.to_owned()));
            }
            _ => return Err(SpecProblem::Key(part.to_owned())),
        }
    }
    spec.congestion = chosen.unwrap_or_default();
    Ok(spec)
}

fn congestion_of(text: &str) -> Result<Congestion, SpecProblem> {
    match text {
        "bbr" => Ok(Congestion::Bbr),
        "cubic" => Ok(Congestion::Cubic),
        _ => Err(SpecProblem::Congestion(text.to_owned())),
    }
}

fn local(text: &str) -> Result<(LocalEnd, Option<u16>), SpecProblem> {
    if let Some(interface) = text.strip_prefix("if:") {
        return named(interface);
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok((LocalEnd::Address(address), None));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok((LocalEnd::Address(address.ip()), Some(address.port())));
    }
    let bracketed = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    if let Some(Ok(address)) = bracketed.map(str::parse::<IpAddr>) {
        return Ok((LocalEnd::Address(address), None));
    }
    // An invalid address is an error, and is not taken for the name of an interface.
    let numeric = text.chars().all(|c| c.is_ascii_digit() || ".:[]".contains(c));
    if numeric || text.starts_with('[') || text.matches(':').count() > 1 {
        return Err(SpecProblem::Address(text.to_owned()));
    }
    named(text)
}

fn named(text: &str) -> Result<(LocalEnd, Option<u16>), SpecProblem> {
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, Some(number(port)?)),
        None => (text, None),
    };
    let sane = |c: char| c.is_ascii_graphic() && !"/:,=".contains(c);
    if name.is_empty() || !name.chars().all(sane) || name == "." || name == ".." {
        return Err(SpecProblem::Name(name.to_owned()));
    }
    if name.len() > MAX_INTERFACE_BYTES {
        return Err(SpecProblem::LongName(name.to_owned()));
    }
    Ok((LocalEnd::Interface(name.into()), port))
}

fn number(port: &str) -> Result<u16, SpecProblem> {
    port.parse().map_err(|_| SpecProblem::Port(port.to_owned()))
}

fn rate(text: &str) -> Result<u64, SpecProblem> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let value = digits.parse::<f64>().ok().filter(|_| plain).map(|value| value * unit);
    match value {
        Some(value) if RATE_BPS.contains(&value) => Ok(value.round() as u64),
        Some(_) => Err(SpecProblem::RateRange(text.to_owned())),
        None => Err(SpecProblem::Rate(text.to_owned())),
    }
}

fn group(text: &str) -> Result<String, SpecProblem> {
    let sane = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if text.is_empty() || text.len() > MAX_GROUP_BYTES || !sane {
        return Err(SpecProblem::Group(text.to_owned()));
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> (LaneKind, String, Option<u16>) {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{error}"));
        (spec.kind, spec.local.to_string(), spec.port)
    }

    #[test]
    fn addresses_and_interfaces_are_told_apart() {
        use LaneKind::{Tcp, Udp};
        for (text, family, local, port) in [
            ("10.0.0.1", Udp, "10.0.0.1", None),
            ("udp:10.0.0.1:7000", Udp, "10.0.0.1", Some(7_000)),
            ("tcp:fd00::1", Tcp, "[fd00::1]", None),
            ("tcp:[fd00::1]", Tcp, "[fd00::1]", None),
            ("tcp:[fd00::1]:80", Tcp, "[fd00::1]", Some(80)),
            ("::1", Udp, "[::1]", None),
            ("eth0", Udp, "eth0", None),
            ("eth0.100:7000", Udp, "eth0.100", Some(7_000)),
            ("tcp:if:wlan0", Tcp, "wlan0", None),
            ("if:udp", Udp, "udp", None),
            ("if:10", Udp, "if:10", None),
        ] {
            assert_eq!(end(text), (family, local.into(), port), "{text}");
        }
    }

    #[test]
    fn options_are_read_and_written_again() {
        let spec: Spec = "tcp:eth1:9,rate=1.5G,shared=a-b_1".parse().unwrap();
        assert_eq!(
            (spec.rate_bits_per_second, spec.shared.as_deref()),
            (Some(1_500_000_000), Some("a-b_1"))
        );
        assert_eq!(spec.to_string().parse(), Ok(spec));
        let spec: Spec = "eth1,congestion=cubic".parse().unwrap();
        assert_eq!(spec.congestion, Congestion::Cubic);
        assert_eq!(spec.to_string().parse(), Ok(spec));
        for name in ["if:udp", "if:tcp:7000", "if:10", "if:.1:80"] {
            let spec: Spec = name.parse().unwrap();
            assert_eq!(spec.to_string().parse(), Ok(spec), "{name}");
        }
    }

    #[test]
    fn what_names_no_lane_is_one_clear_line() {
        for (text, says) in [
            ("", "is not an address"),
            ("if:", "neither an address nor"),
            ("10.0.0.300", "is not an address"),
            ("10.0.0.1:70000", "is not an address"),
            ("[fd00::1:7", "is not an address"),
            ("fd00::g", "is not an address"),
            ("eth0:x", "port `x`"),
            ("a/b", "neither an address nor"),
            ("averylonginterface", "at most 15"),
            ("eth0,rate=fast", "is not a number"),
            ("eth0,rate=-1", "is not a number"),
            ("eth0,rate=1e9", "is not a number"),
            ("eth0,rate=0", "is not 1k"),
            ("eth0,rate=1M,rate=2M", "twice"),
            ("eth0,speed=1", "neither rate"),
            ("eth0,congestion=reno", "neither bbr nor cubic"),
            ("eth0,congestion=bbr,congestion=bbr", "twice"),
            ("eth0,shared=", "is not 1 to 32"),
            ("eth0,", "neither rate"),
        ] {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(says) && error.lines().count() == 1, "{text}: {error}");
        }
    }
}
