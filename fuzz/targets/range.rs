//! See `freerun_fuzz::targets::RANGE`.
#![no_main]

use freerun_fuzz::targets::RANGE;

libfuzzer_sys::fuzz_target!(init: RANGE.write_corpus(), |data: &[u8]| (RANGE.body)(data));
