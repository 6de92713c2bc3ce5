//! See `freerun_fuzz::targets::SCGI`.
#![no_main]

use freerun_fuzz::targets::SCGI;

libfuzzer_sys::fuzz_target!(init: SCGI.write_corpus(), |data: &[u8]| (SCGI.body)(data));
