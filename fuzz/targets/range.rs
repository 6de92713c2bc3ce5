//! See `freerun_fuzz::range`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::range(data));
