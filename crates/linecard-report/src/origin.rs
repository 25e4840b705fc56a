//! The origin of a page: time, host and command.

use serde::{Serialize, Serializer, ser::SerializeStruct};

const DAY_S: u64 = 86_400;
/// Days in 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;
/// Days from 0000-03-01, the origin of this calculation, to 1970-01-01.
const EPOCH: u64 = 719_468;

/// The origin of a page. The time is an argument: a page reads no clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Seconds since 1970, in UTC.
    pub unix_seconds: u64,
    /// The command line.
    pub command: String,
    /// Name and kernel of the host, if they are known.
    pub host: Option<String>,
}

impl Origin {
    /// Formats these arguments as a command line for a shell, the program's name first.
    #[must_use]
    pub fn new(unix_seconds: u64, arguments: impl IntoIterator<Item = String>) -> Self {
        let quoted: Vec<String> = arguments.into_iter().map(quoted).collect();
        Self { unix_seconds, command: quoted.join(" "), host: None }
    }

    /// The same, on a host of this name and with this kernel.
    #[must_use]
    pub fn on(self, name: &str, kernel: &str) -> Self {
        Self { host: Some(format!("{name}, {kernel}")), ..self }
    }

    /// The time as `2026-11-22 21:28:03 UTC`.
    #[must_use]
    pub fn utc(&self) -> String {
        let (year, month, day) = date(self.unix_seconds / DAY_S);
        let [hour, minute, second] =
            [self.unix_seconds / 3_600 % 24, self.unix_seconds / 60 % 60, self.unix_seconds % 60];
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut origin = serializer.serialize_struct("Origin", 5)?;
        origin.serialize_field("utc", &self.utc())?;
        origin.serialize_field("unix_seconds", &self.unix_seconds)?;
        origin.serialize_field("command", &self.command)?;
        origin.serialize_field("host", &self.host)?;
        origin.serialize_field("version", env!("CARGO_PKG_VERSION"))?;
        origin.end()
    }
}

/// Year, month and day, this many days after 1970-01-01 in the Gregorian calendar (H. Hinnant,
/// *chrono-Compatible Low-Level Date Algorithms*, `civil_from_days`).
fn date(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(EPOCH);
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months count from March, so that the leap day is the last day of a year.
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// Quotes an argument for a POSIX shell.
fn quoted(argument: String) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !argument.is_empty() && argument.chars().all(is_plain) {
        return argument;
    }
    format!("'{}'", argument.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix_seconds, utc) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_164_800, "2024-02-29 00:00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(Origin::new(unix_seconds, []).utc(), utc);
        }
        let _ = Origin::new(u64::MAX, []).utc();
    }

    #[test]
    fn commands_can_be_given_to_a_shell_again() {
        let words = ["linecard", "run", "--report", "my page.html", "", "it's"].map(str::to_owned);
        assert_eq!(
            Origin::new(0, words).command,
            r"linecard run --report 'my page.html' '' 'it'\''s'"
        );
    }
}
