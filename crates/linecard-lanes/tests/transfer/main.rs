//! Both ends on one machine, over real sockets.

mod broken;
mod blocked;
mod early;
mod ends;
mod links;
mod loopback;
