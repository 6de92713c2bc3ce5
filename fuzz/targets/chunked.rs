//! See `freerun_fuzz::targets::CHUNKED`.
#![no_main]

use freerun_fuzz::targets::CHUNKED;

libfuzzer_sys::fuzz_target!(init: CHUNKED.write_corpus(), |data: &[u8]| (CHUNKED.body)(data));
