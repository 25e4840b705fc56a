//! The offloads for C. Callers see `include/linecard.h`, which is generated from this crate;
//! `examples/` show its use.
//!
//! [`abi`] has every exported function and all `unsafe` code: it turns pointers into slices, and
//! keeps panics from crossing into C. What the functions do is safe code beside it.
#![expect(unreachable_pub, reason = "`pub` is what C sees: no other crate imports this one")]
#![expect(clippy::doc_markdown, reason = "these comments become C's")]

mod abi;
mod burst;
mod coalesce;
mod error;
mod segment;
mod types;
