//! The jobs of Linecard: a configuration in, an outcome out.
//!
//! A [`Job`] takes a typed configuration ([`linecard_config`]) and gives a typed outcome ([`linecard_report::Outcome`]).
//! Progress and cancellation come with the [`Context`], as an argument. The command, Python and other faces read
//! configurations their way and show outcomes their way; what a job does is written here, once.

#[cfg(target_os = "linux")]
pub mod attach;
#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod captures;
mod erased;
mod error;
mod function;
pub mod jitter;
mod job;
pub mod model;
pub mod offload;
#[cfg(target_os = "linux")]
pub mod plan;
#[cfg(target_os = "linux")]
pub mod ports;
pub mod reproduce;
pub mod run;
#[cfg(target_os = "linux")]
pub mod transfer;

pub use erased::{AnyJob, Finished, finish, finish_with, finished, finished_with};
pub use error::{EXIT_CODES, Error, Failure, Level, RESUMABLE};
pub use function::{Arguments, FUNCTIONS, Function, Takes, function};
pub use job::{Cancellable, Context, Job};
