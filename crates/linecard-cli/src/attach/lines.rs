//! Lines of JSON: one object for each interval, and the statistics as the last one.

use linecard_app::attach::Rates;
use linecard_report::Report;
use serde::Serialize;
use std::io::{self, Write};

/// A line of the output.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'l> {
    Interval {
        /// Since the beginning.
        elapsed_seconds: f64,
        #[serde(flatten)]
        rates: &'l Rates,
    },
    Statistics {
        #[serde(flatten)]
        report: &'l Report,
    },
    Final {
        #[serde(flatten)]
        report: &'l Report,
    },
}

/// Where lines go. A reader that closes it does not end the attachment.
pub(super) struct Lines<W> {
    out: W,
    is_closed: bool,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, is_closed: false }
    }

    /// Writes the rates of an interval, `elapsed_seconds` after the beginning.
    pub(super) fn interval(&mut self, elapsed_seconds: f64, rates: &Rates) -> io::Result<()> {
        self.write(&Line::Interval { elapsed_seconds, rates })
    }

    /// The statistics so far.
    pub(super) fn statistics(&mut self, report: &Report) -> io::Result<()> {
        self.write(&Line::Statistics { report })
    }

    /// The statistics at the end.
    pub(super) fn last(&mut self, report: &Report) -> io::Result<()> {
        self.write(&Line::Final { report })
    }

    fn write(&mut self, line: &Line<'_>) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.is_closed = true,
            result => result?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_io::attach::AttachStats;
    use linecard_report::{Section, Value};
    use std::time::Duration;

    #[test]
    fn a_line_is_an_object_with_its_type() {
        let none = AttachStats::default();
        let rates = Rates::between(&none, &none, Duration::from_secs(1));
        let mut report = Report::new("attach");
        let mut section = Section::new("near", "Near");
        section.add("received", "received", Value::Count(5));
        report.push(section);
        let mut text = Vec::new();
        let mut lines = Lines::new(&mut text);
        assert!(lines.interval(2.5, &rates).is_ok() && lines.last(&report).is_ok());
        let text = String::from_utf8_lossy(&text);
        let start = "{\"type\":\"interval\",\"elapsed_seconds\":2.5,\"seconds\":1.0,\"near\":{";
        assert!(text.starts_with(start), "{text}");
        let last = "{\"type\":\"final\",\"job\":\"attach\",\"near\":{\"received\":5},\"notes\":[]}";
        assert_eq!(text.lines().nth(1), Some(last));
    }

    /// A reader that has gone.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        let mut lines = Lines::new(Closed);
        assert!((0..2).all(|_| lines.last(&Report::new("attach")).is_ok()));
    }
}
