//! A synthetic host: cores with random threads and interrupts, packets on their path, and the events that a kernel
//! would have shown. Its true state is known at each instant.

mod charges;
mod faults;
mod foreign;
mod hostile;
mod made_up;
