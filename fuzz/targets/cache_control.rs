//! See `freerun_fuzz::targets::CACHE_CONTROL`.
#![no_main]

use freerun_fuzz::targets::CACHE_CONTROL;

libfuzzer_sys::fuzz_target!(init: CACHE_CONTROL.write_corpus(), |data: &[u8]| (CACHE_CONTROL.body)(data));
