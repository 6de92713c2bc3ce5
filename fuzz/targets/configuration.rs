//! See `freerun_fuzz::targets::CONFIGURATION`.
#![no_main]

use freerun_fuzz::targets::CONFIGURATION;

libfuzzer_sys::fuzz_target!(init: CONFIGURATION.write_corpus(), |data: &[u8]| (CONFIGURATION.body)(data));
