//! The result of a job as a value: a [`Report`] is text for people and JSON for programs; a
//! [`Page`] is one HTML file that works offline, with all figures in a JSON file beside it.
//!
//! A [`Page`] consists of reports, tables, verdicts and charts, and is written once: text, style,
//! script and figures are all in the file, so that it can be sent, and read years later. Its charts
//! show at most 4,000 points per series; the JSON has them all.
//!
//! ```
//! use linecard_report::{Axis, Page, TimeSeries, Unit};
//! let mut gaps = TimeSeries::new("gaps", "Gaps between packets");
//! gaps.x(Axis::new("time", Unit::Seconds)).y(Axis::new("gap", Unit::Ns).log());
//! gaps.dots("application", vec![(0.0, 7_412.0), (7.4e-6, 7_409.0), (14.8e-6, 15_020.0)]);
//! let mut page = Page::new("Jitter");
//! page.headline("Four spikes, all by the timer interrupt.").chart(gaps);
//! assert!(page.html().contains("Four spikes"));
//! ```

mod axis;
mod chart;
mod draw;
mod json;
mod named;
mod number;
mod origin;
mod outcome;
mod page;
mod quantity;
mod reasons;
mod report;
mod shell;
mod table;
mod target;
mod thin;
mod unit;
mod verdict;

pub use axis::Axis;
pub use chart::{Chart, Curves, Effects, Histograms, Ledger, Spread, TimeSeries};
pub use named::{Item, Named};
pub use origin::Origin;
pub use outcome::{Outcome, report_of, section_of};
pub use page::Page;
pub use quantity::{BitRate, ByteCount, Nanoseconds, Seconds, Share};
pub use reasons::Reasons;
pub use report::{Report, Row, Section, Value};
pub use table::Table;
pub use target::{ReportError, Target};
pub use thin::kept;
pub use unit::Unit;
pub use verdict::{Finding, Verdict, Verdicts};
