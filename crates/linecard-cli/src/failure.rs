//! Errors of jobs, as the command ends with them.

pub(crate) use linecard_app::{EXIT_CODES, Error as Failure};
