//! Host side of Linecard.
pub mod capture;
pub mod convert;
pub mod run;
