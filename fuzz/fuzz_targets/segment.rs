//! Any frame cut at any size, or into fragments.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::segment(data));
