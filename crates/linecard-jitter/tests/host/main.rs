//! A made-up host: cores with threads and interrupts that come by chance, packets on their way, and the
//! events that a kernel would have shown. What is true of it is known instant by instant.

mod charges;
mod faults;
mod hostile;
mod made_up;
