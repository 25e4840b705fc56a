//! `linecard send`, `linecard recv` and `linecard keys`: bulk transfer over many lanes.

mod bar;
mod keys;
mod printer;
mod recv;
mod send;

pub(crate) use keys::{KeysArguments, command as keys};
pub(crate) use recv::{RecvArguments, command as recv};
pub(crate) use send::{SendArguments, command as send};
