//! A transfer whose other end says anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::transfer(data));
