//! Host side of Linecard.
pub mod capture;
