//! `linecard send`, `linecard recv` and `linecard keys`: bulk transfer over many lanes.

mod access;
mod bar;
mod ending;
mod keys;
mod place;
mod receiving;
mod report;
mod sending;
mod values;
mod visitors;

pub(crate) use keys::{KeysArguments, command as keys};
pub(crate) use receiving::{RecvArguments, command as recv};
pub(crate) use sending::{SendArguments, command as send};
