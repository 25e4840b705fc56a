//! Any request to the endpoint of metrics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::http(data));
