//! Any virtio-net header before any frame.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::virtio(data));
