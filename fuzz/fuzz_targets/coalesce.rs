//! Traffic to the coalescer and back.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::coalesce(data));
