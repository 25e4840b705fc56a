//! Ports of virtual machines with guests in this process: what they may send and receive, and what
//! a hostile guest or front end achieves; and real guests in QEMU, which take root.

mod bench;
mod connections;
mod frames;
mod guest;
mod hostile;
mod machine;
