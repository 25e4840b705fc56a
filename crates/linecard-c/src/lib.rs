//! The offloads for C. Callers see `include/linecard.h`, which is generated from this crate;
//! `examples/` show its use.
//!
//! [`abi`] has every exported function and all `unsafe` code: it turns pointers into slices, and
//! keeps panics from crossing into C. What the functions do is safe code beside it. Modules are
//! public for the fuzz target of the interface, which calls it from Rust.
#![expect(unreachable_pub, reason = "`pub` is what C sees: only the fuzz target imports some")]
#![expect(clippy::missing_safety_doc, reason = "the header states it once, for all functions")]
#![expect(clippy::doc_markdown, reason = "these comments become C's")]

pub mod abi;
mod burst;
mod coalesce;
pub mod error;
mod segment;
pub mod types;
