//! See `freerun_fuzz::proxy_header`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::proxy_header(data));
