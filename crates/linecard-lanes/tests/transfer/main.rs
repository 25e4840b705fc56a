//! Both ends on one machine, over real sockets.

mod broken;
mod early;
mod ends;
mod links;
mod loopback;
