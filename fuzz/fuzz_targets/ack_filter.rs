//! Traffic to the filter of acknowledgments.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::ack_filter(data));
