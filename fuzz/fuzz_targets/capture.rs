//! Any bytes as a capture, read and written.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::capture(data));
