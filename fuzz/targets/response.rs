//! See `freerun_fuzz::targets::RESPONSE`.
#![no_main]

use freerun_fuzz::targets::RESPONSE;

libfuzzer_sys::fuzz_target!(init: RESPONSE.write_corpus(), |data: &[u8]| (RESPONSE.body)(data));
