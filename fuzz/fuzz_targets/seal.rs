//! Any datagrams between sealed packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::seal(data));
