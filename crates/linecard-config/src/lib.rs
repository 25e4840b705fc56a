//! Parameters of jobs: one definition each, on a field of a struct.
//!
//! A configuration is a struct that derives `serde::{Serialize, Deserialize}`, `schemars::JsonSchema`,
//! `garde::Validate` and `Default` (see [`Config`]). Each field defines one parameter: its name and, by its type, its
//! unit ([`Rate`], [`Bytes`], [`Duration`], [`Frequency`]); its range and default as attributes; its documentation as
//! the doc comment. Everything else is read from there:
//!
//! - [`Document`] reads scenario files and values given as `KEY=VALUE`; errors name file, line and key.
//! - [`parameters`] lists what a configuration has, for `--help`, the reference, and interfaces to other languages.
//! - [`schema`] is the JSON Schema with which editors complete and check scenario files.
//!
//! ```
//! use garde::Validate;
//! use linecard_config::{Document, Rate, parameters};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use smart_default::SmartDefault;
//!
//! #[derive(Debug, Clone, SmartDefault, Serialize, Deserialize, JsonSchema, Validate)]
//! #[serde(default, deny_unknown_fields)]
//! struct Link {
//!     /// bits per second on the link
//!     #[default(Rate::giga(10))]
//!     #[garde(range(min = Rate::KILO, max = Rate::tera(10)))]
//!     rate: Rate,
//!     /// lanes of the link
//!     #[default(1)]
//!     #[garde(range(min = 1, max = 16))]
//!     lanes: u32,
//! }
//!
//! let mut document = Document::of_text("link.toml", "rate = \"25G\"\n")?;
//! document.set("lanes=4")?;
//! let link: Link = document.config()?;
//! assert_eq!((link.rate, link.lanes), (Rate::giga(25), 4));
//!
//! document.set("lanes=17")?;
//! let error = document.config::<Link>().expect_err("too many");
//! assert_eq!(error.to_string(), "--set lanes=17: 17 is out of range: choose 1 to 16");
//!
//! assert_eq!(parameters::<Link>()[0].to_string(), "bits per second on the link, 1K to 10T [10G]");
//! # Ok::<(), linecard_config::ConfigError>(())
//! ```

mod choice;
mod document;
mod error;
mod node;
mod parameter;
mod per_type;
mod rules;
mod units;
mod varied;
mod walk;

pub use choice::{Absent, Maybe, OneOrMany, Parsed, Switch};
pub use document::{Document, Origin};
pub use error::{ConfigError, Location, Problem};
pub use parameter::{Config, Parameter, check, parameters, schema};
pub use per_type::per_type;
pub use rules::power_of_two;
pub use units::{Bytes, Count, Duration, Frequency, Probability, Rate, UnitError, scaled};
pub use varied::Varied;
