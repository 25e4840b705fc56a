//! Journals of partial files, damaged.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::journal(data));
