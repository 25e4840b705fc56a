//! The table of known exceptions to the size limits, whose numbers may only fall.

use crate::Finding;

/// Where the table lives, for messages.
pub(crate) const FILE: &str = "crates/linecard-cli/tests/tidy/ratchet.txt";

/// One line of the table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exception {
    /// `file PATH` or `fn PATH NAME`.
    pub(crate) subject: String,
    /// Recorded code lines.
    pub(crate) lines: usize,
    /// Line of the table.
    pub(crate) at: usize,
}

/// Reads the table; a line that is not understood is an exception for nothing, reported by
/// [`judge`] as stale.
pub(crate) fn parse(text: &str) -> Vec<Exception> {
    let rows = text.lines().enumerate().filter(|(_, row)| !row.is_empty() && !row.starts_with('#'));
    rows.map(|(index, row)| {
        let words: Vec<&str> = row.split_whitespace().collect();
        let (number, subject) = words.split_last().expect("the row is not empty");
        Exception { subject: subject.join(" "), lines: number.parse().unwrap_or(0), at: index + 1 }
    })
    .collect()
}

/// The measurement.
#[derive(Debug)]
pub(crate) struct Measured {
    /// As in [`Exception::subject`].
    pub(crate) subject: String,
    pub(crate) lines: usize,
    pub(crate) limit: usize,
    /// Where, for the message.
    pub(crate) file: String,
    pub(crate) at: usize,
    /// The remedy when it is too long.
    pub(crate) advice: &'static str,
}

/// Compares every measured size with its limit, or with its recorded exception.
pub(crate) fn judge(measured: &[Measured], exceptions: &[Exception]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        measured.iter().filter_map(|size| judge_one(size, exceptions)).collect();
    for exception in exceptions {
        if !measured.iter().any(|size| size.subject == exception.subject) {
            let what = format!("`{}` no longer exists: remove this line", exception.subject);
            findings.push(Finding::new(FILE, exception.at, what));
        }
    }
    findings
}

fn judge_one(size: &Measured, exceptions: &[Exception]) -> Option<Finding> {
    let Measured { subject, lines, limit, .. } = size;
    let exception = exceptions.iter().find(|exception| exception.subject == *subject);
    let (file, at, what) = match exception {
        None if lines <= limit => return None,
        None => {
            let what =
                format!("`{subject}` has {lines} code lines, limit {limit}: {}", size.advice);
            (size.file.as_str(), size.at, what)
        }
        Some(known) if lines <= limit => {
            let what = format!("`{subject}` is down to {lines}, within {limit}: remove this line");
            (FILE, known.at, what)
        }
        Some(known) if *lines < known.lines => {
            let what = format!("`{subject}` fell from {} to {lines}: write {lines}", known.lines);
            (FILE, known.at, what)
        }
        Some(known) if *lines > known.lines => {
            let recorded = known.lines;
            let what = format!(
                "`{subject}` grew from {recorded} to {lines} code lines, limit {limit}: {}",
                size.advice
            );
            (size.file.as_str(), size.at, what)
        }
        Some(_) => return None,
    };
    Some(Finding::new(file, at, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(lines: usize) -> Measured {
        Measured {
            subject: "file a.rs".to_owned(),
            lines,
            limit: 10,
            file: "a.rs".to_owned(),
            at: 1,
            advice: "split it",
        }
    }

    #[test]
    fn within_the_limit_needs_no_exception() {
        assert_eq!(judge(&[size(10)], &[]), []);
        assert_eq!(judge(&[size(11)], &[]).len(), 1);
    }

    #[test]
    fn a_recorded_number_may_only_fall() {
        let recorded = parse("# comment\nfile a.rs 20\n");
        assert_eq!(judge(&[size(20)], &recorded), []);
        assert!(judge(&[size(21)], &recorded)[0].what.contains("grew from 20 to 21"));
        assert!(judge(&[size(15)], &recorded)[0].what.contains("write 15"));
        assert!(judge(&[size(9)], &recorded)[0].what.contains("remove this line"));
        assert_eq!(judge(&[size(9)], &recorded)[0].line, 2);
    }

    #[test]
    fn an_exception_for_nothing_is_stale() {
        let recorded = parse("fn a.rs gone 80\n");
        assert!(judge(&[], &recorded)[0].what.contains("no longer exists"));
    }
}
