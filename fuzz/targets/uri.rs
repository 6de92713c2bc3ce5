//! See `freerun_fuzz::targets::URI`.
#![no_main]

use freerun_fuzz::targets::URI;

libfuzzer_sys::fuzz_target!(init: URI.write_corpus(), |data: &[u8]| (URI.body)(data));
