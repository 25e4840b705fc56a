//! Any packets as a flow: its figures.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::media(data));
