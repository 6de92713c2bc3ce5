//! See `freerun_fuzz::upstreams::response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::upstreams::response(data));
