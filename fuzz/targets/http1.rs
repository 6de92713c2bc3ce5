//! See `freerun_fuzz::http1::HTTP1`.
#![no_main]

use freerun_fuzz::http1::HTTP1;

libfuzzer_sys::fuzz_target!(init: HTTP1.write_corpus(), |data: &[u8]| (HTTP1.body)(data));
