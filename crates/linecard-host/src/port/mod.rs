//! Ports to live interfaces: [`linecard::port::Port`] over what Linux offers.

#[cfg(target_os = "linux")]
pub mod xdp;
