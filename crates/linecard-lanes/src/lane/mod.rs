//! Lanes: UDP, TCP and memory, and faults to try them with.
