//! Bulk transfer between hosts over many lanes: the jobs `send` and `recv`, and the keys by which hosts authenticate
//! each other.

mod access;
mod error;
pub mod keys;
mod objects;
mod outcome;
mod pairing;
mod peer;
pub mod receive;
mod rejected;
pub mod send;
mod started;

pub use access::Access;
pub use outcome::{MAX_LISTED, Transferred};
pub use pairing::CodeSource;
pub use peer::{AddressError, DEFAULT_PORT, Listen, Peer, RemoteFolder};

use crate::Error;
use linecard_transfer_net::end::Cores;
use std::sync::Arc;

/// Takes lines for the user, from any thread.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// A transfer that ended early.
#[derive(Debug)]
pub struct Failed<O> {
    /// Why.
    pub error: Error,
    /// Work completed until then; nothing where it had not begun.
    pub outcome: Option<Box<O>>,
}

impl<O> From<Error> for Failed<O> {
    fn from(error: Error) -> Self {
        Self { error, outcome: None }
    }
}

/// The cores of the threads of an end.
fn cores(given: Option<&linecard_config::Parsed<Cores>>) -> Cores {
    given.map(|cores| cores.0.clone()).unwrap_or_default()
}
