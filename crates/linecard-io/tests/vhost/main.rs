//! Ports of virtual machines with guests in this process: valid traffic, and hostile guests and front ends; and real
//! guests in QEMU, which need root.

mod bench;
mod connections;
mod frames;
mod guest;
mod hostile;
mod machine;
