//! See `freerun_fuzz::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::configuration(data));
