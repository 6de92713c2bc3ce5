//! See `freerun_fuzz::targets::HANDED_OVER`.
#![no_main]

use freerun_fuzz::targets::HANDED_OVER;

libfuzzer_sys::fuzz_target!(init: HANDED_OVER.write_corpus(), |data: &[u8]| (HANDED_OVER.body)(data));
