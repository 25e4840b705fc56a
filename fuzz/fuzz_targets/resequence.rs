//! Reordered traffic to the resequencer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::resequence(data));
