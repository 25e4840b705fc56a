//! Captures through both conversions.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::convert(data));
