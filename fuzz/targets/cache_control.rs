//! See `freerun_fuzz::caches::cache_control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::caches::cache_control(data));
