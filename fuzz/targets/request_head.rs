//! See `freerun_fuzz::request_head`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::request_head(data));
