//! Calls of the C interface with any frames.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::abi(data));
