//! See `freerun_fuzz::uri`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::uri(data));
