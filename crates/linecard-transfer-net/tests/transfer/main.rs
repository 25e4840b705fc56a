//! Both ends on one machine, over real sockets.

mod blocked;
mod broken;
mod early;
mod ends;
mod hard_links;
mod links;
mod loopback;
mod memory;
mod stored;
