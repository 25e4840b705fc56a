//! Any bytes as a frame: its layout.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::parse(data));
