//! Any lines as a journal of settings.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::settings(data));
