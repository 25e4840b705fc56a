//! Both ends on one machine, over real sockets.

mod ends;
mod loopback;
