//! Times as requests and lists have them.

use crate::file::Stamp;

const DAY_SECS: i64 = 86_400;

/// A second in UTC.
pub(super) struct Time {
    date: (i64, u32, u32),
    second: i64,
}

impl Time {
    /// From seconds since 1970.
    pub(super) const fn of_seconds(secs: i64) -> Self {
        Self { date: date(secs.div_euclid(DAY_SECS)), second: secs.rem_euclid(DAY_SECS) }
    }

    /// As 20130524.
    pub(super) fn date(&self) -> String {
        let (year, month, day) = self.date;
        format!("{year:04}{month:02}{day:02}")
    }

    /// As 20130524T000000Z: the basic format of ISO 8601.
    pub(super) fn basic(&self) -> String {
        let second = self.second;
        format!("{}T{:02}{:02}{:02}Z", self.date(), second / 3_600, second / 60 % 60, second % 60)
    }
}

/// Year, month and day, from days since 1970. H. Hinnant, "chrono-compatible low-level date algorithms".
const fn date(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let part = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month as u32, day as u32)
}

/// Days since 1970: the inverse.
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The time of a list, as 2013-05-24T00:00:00.000Z.
pub(super) fn of_list(text: &str) -> Option<Stamp> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time =
        hour < 24 && minute < 60 && second <= 60 && text.as_bytes().get(10) == Some(&b'T');
    let fraction = text.get(19..)?.strip_suffix('Z')?;
    let ns = match fraction.strip_prefix('.') {
        Some(digits) => nanoseconds(digits)?,
        None if fraction.is_empty() => 0,
        None => return None,
    };
    let secs = days(year, month, day) * DAY_SECS + hour * 3_600 + minute * 60 + second;
    (is_date && is_time).then_some(Stamp { secs, ns })
}

/// Digits behind the point of seconds.
fn nanoseconds(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{digits:0<9.9}").parse().ok())?
}

/// The time of a file as metadata have it, which rclone reads and writes, too: seconds since 1970.
pub(super) fn to_metadata(stamp: Stamp) -> String {
    let ns = stamp.to_ns();
    let (sign, ns) = (if ns < 0 { "-" } else { "" }, ns.unsigned_abs());
    format!("{sign}{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// The inverse.
pub(super) fn of_metadata(text: &str) -> Option<Stamp> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (secs, digits) = text.split_once('.').unwrap_or((text, "0"));
    let secs =
        secs.bytes().all(|byte| byte.is_ascii_digit()).then(|| secs.parse::<i64>().ok())??;
    let ns = secs.checked_mul(1_000_000_000)?.checked_add(nanoseconds(digits)?.into())?;
    Some(Stamp::of_ns(sign * ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_go_there_and_back() {
        for (secs, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_827_696, "20000229T123456Z"),
            (1_369_353_600, "20130524T000000Z"),
            (4_107_542_399, "21000228T235959Z"),
        ] {
            assert_eq!(Time::of_seconds(secs).basic(), text);
        }
        for day in (-200_000..200_000).step_by(13) {
            let (year, month, of_month) = date(day);
            assert_eq!(days(year, month.into(), of_month.into()), day);
        }
        let stamp = |secs, ns| Some(Stamp { secs, ns });
        assert_eq!(of_list("2000-02-29T12:34:56.078Z"), stamp(951_827_696, 78_000_000));
        assert_eq!(of_list("2000-02-29T12:34:56Z"), stamp(951_827_696, 0));
        for wrong in
            ["", "2000-02-29", "2000-13-01T00:00:00Z", "2000-02-29T12:34:56.Z", "äääääääääää"]
        {
            assert_eq!(of_list(wrong), None, "{wrong}");
        }
        for ns in [0, 7, 1_000_000_007, -1, -1_500_000_000, i64::MAX] {
            assert_eq!(of_metadata(&to_metadata(Stamp::of_ns(ns))), Some(Stamp::of_ns(ns)));
        }
        assert_eq!(of_metadata("1234567890.5"), stamp(1_234_567_890, 500_000_000));
        assert_eq!(of_metadata("12a"), None);
    }
}
