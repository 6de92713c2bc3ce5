//! See `freerun_fuzz::chunked`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::chunked(data));
