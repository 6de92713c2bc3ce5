//! See `freerun_fuzz::targets::KEYVALS`.
#![no_main]

use freerun_fuzz::targets::KEYVALS;

libfuzzer_sys::fuzz_target!(init: KEYVALS.write_corpus(), |data: &[u8]| (KEYVALS.body)(data));
