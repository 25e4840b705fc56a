//! Both ends on one machine, over real sockets.

mod early;
mod ends;
mod loopback;
