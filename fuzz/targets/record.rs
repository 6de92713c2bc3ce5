//! See `freerun_fuzz::targets::RECORD`.
#![no_main]

use freerun_fuzz::targets::RECORD;

libfuzzer_sys::fuzz_target!(init: RECORD.write_corpus(), |data: &[u8]| (RECORD.body)(data));
