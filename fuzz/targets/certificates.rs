//! See `freerun_fuzz::targets::CERTIFICATES`.
#![no_main]

use freerun_fuzz::targets::CERTIFICATES;

libfuzzer_sys::fuzz_target!(init: CERTIFICATES.write_corpus(), |data: &[u8]| (CERTIFICATES.body)(data));
