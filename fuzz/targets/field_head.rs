//! See `freerun_fuzz::field_heads::FIELD_HEAD`.
#![no_main]

use freerun_fuzz::field_heads::FIELD_HEAD;

libfuzzer_sys::fuzz_target!(init: FIELD_HEAD.write_corpus(), |data: &[u8]| (FIELD_HEAD.body)(data));
