//! Packets sealed and opened: AEAD, key phases, replay window.
