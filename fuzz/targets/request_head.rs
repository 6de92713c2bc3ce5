//! See `freerun_fuzz::targets::REQUEST_HEAD`.
#![no_main]

use freerun_fuzz::targets::REQUEST_HEAD;

libfuzzer_sys::fuzz_target!(init: REQUEST_HEAD.write_corpus(), |data: &[u8]| (REQUEST_HEAD.body)(data));
