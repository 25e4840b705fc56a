//! Fragments to the reassembler.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::reassemble(data));
