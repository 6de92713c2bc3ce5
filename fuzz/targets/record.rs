//! See `freerun_fuzz::caches::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::caches::record(data));
