//! See `freerun_fuzz::targets::MEMCACHED`.
#![no_main]

use freerun_fuzz::targets::MEMCACHED;

libfuzzer_sys::fuzz_target!(init: MEMCACHED.write_corpus(), |data: &[u8]| (MEMCACHED.body)(data));
