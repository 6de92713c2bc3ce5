//! See `freerun_fuzz::http3::HTTP3`.
#![no_main]

use freerun_fuzz::http3::HTTP3;

libfuzzer_sys::fuzz_target!(init: HTTP3.write_corpus(), |data: &[u8]| (HTTP3.body)(data));
