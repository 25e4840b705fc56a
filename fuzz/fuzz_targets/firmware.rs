//! Any firmware on the modelled core, any ELF file.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| linecard_fuzz::firmware(data));
