//! See `freerun_fuzz::upstreams::memcached`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| freerun_fuzz::upstreams::memcached(data));
