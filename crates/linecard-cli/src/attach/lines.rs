//! Lines of JSON: one object for each interval, and the account as the last one.

use super::rates::Rates;
use linecard_report::Report;
use serde::Serialize;
use std::io::{self, Write};

/// What a line is.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line<'l> {
    Interval {
        /// Since the beginning.
        elapsed_seconds: f64,
        #[serde(flatten)]
        rates: &'l Rates,
    },
    Final {
        #[serde(flatten)]
        report: &'l Report,
    },
}

/// Where lines go. Who has read enough of them ends nothing.
pub(super) struct Lines<W> {
    out: W,
    is_closed: bool,
}

impl<W: Write> Lines<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, is_closed: false }
    }

    /// What an interval has to show, `elapsed_seconds` after the beginning.
    pub(super) fn interval(&mut self, elapsed_seconds: f64, rates: &Rates) -> io::Result<()> {
        self.write(&Line::Interval { elapsed_seconds, rates })
    }

    /// The account.
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
    use super::super::rates::tests::{merged, port};
    use super::*;
    use linecard_io::attach::Account;
    use linecard_report::{Section, Value};
    use std::time::Duration;

    #[test]
    fn keys_and_their_order_are_stable() {
        let later = Account {
            near: vec![port(1_000, 10, 3)],
            far: vec![port(10, 100, 0)],
            inward: vec![merged(1_000, 10, 7, 2)],
            ..Account::default()
        };
        let rates = Rates::between(&Account::default(), &later, Duration::from_secs(1));
        let mut report = Report::new("attach");
        let mut section = Section::new("near", "Near");
        section.add("received", "received", Value::Count(5));
        report.push(section);
        let mut text = Vec::new();
        let mut lines = Lines::new(&mut text);
        assert!(lines.interval(2.5, &rates).is_ok() && lines.last(&report).is_ok());
        let port = |received, bits, transmitted, transmitted_bits| {
            format!(
                "{{\"received_packets_per_second\":{received},\"received_bits_per_second\":{bits},\
                 \"transmitted_packets_per_second\":{transmitted},\
                 \"transmitted_bits_per_second\":{transmitted_bits}}}"
            )
        };
        let merging = r#""mean_aggregate":10.0,"hold_ns_p50":7,"hold_ns_p99":7,"held":2"#;
        let expected = format!(
            "{{\"type\":\"interval\",\"elapsed_seconds\":2.5,\"seconds\":1.0,\"near\":{},\"far\":{},\
             {merging},\"workers\":[{{\"worker\":0,\"packets_in_per_second\":1000.0,\
             \"packets_out_per_second\":100.0,\"bits_per_second\":8000000.0,{merging},\
             \"dropped\":3}}],\"drops\":{{\"near\":{{\"ring_full\":3}},\"far\":{{}},\"rings\":0}},\
             \"flushed\":{{}},\"refused\":{{}}}}\n\
             {{\"type\":\"final\",\"job\":\"attach\",\"near\":{{\"received\":5}},\"notes\":[]}}\n",
            port("1000.0", "8000000.0", "10.0", "80000.0"),
            port("10.0", "80000.0", "100.0", "800000.0"),
        );
        assert_eq!(String::from_utf8_lossy(&text), expected);
    }

    /// Who has stopped reading.
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
