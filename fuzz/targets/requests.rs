//! See `freerun_fuzz::targets::REQUESTS`.
#![no_main]

use freerun_fuzz::targets::REQUESTS;

libfuzzer_sys::fuzz_target!(init: REQUESTS.write_corpus(), |data: &[u8]| (REQUESTS.body)(data));
