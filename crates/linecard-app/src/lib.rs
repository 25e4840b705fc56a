//! The jobs of Linecard: a configuration in, an outcome out.
//!
//! A [`Job`] takes a typed configuration ([`linecard_config`]) and gives a typed outcome ([`linecard_report::Outcome`]).
//! Progress and cancellation come with the [`Context`], as an argument. The command, Python and other faces read
//! configurations their way and show outcomes their way; what a job does is written here, once.

pub mod captures;
mod erased;
mod error;
mod function;
mod job;
pub mod model;
pub mod offload;
pub mod reproduce;
pub mod run;
#[cfg(target_os = "linux")]
pub mod transfer;

pub use erased::{AnyJob, Finished, finish, finish_with};
pub use error::{EXIT_CODES, Error};
pub use function::{FUNCTIONS, Function, Takes, function};
pub use job::{Cancellable, Context, Job};
