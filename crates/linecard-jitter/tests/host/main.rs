//! A made-up host: cores with threads and interrupts that come by chance, packets on their way, and
//! the events that a kernel would have shown. Its true state is known at each instant.

mod charges;
mod faults;
mod foreign;
mod hostile;
mod made_up;
