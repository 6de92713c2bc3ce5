//! See `freerun_fuzz::targets::SESSION`.
#![no_main]

use freerun_fuzz::targets::SESSION;

libfuzzer_sys::fuzz_target!(init: SESSION.write_corpus(), |data: &[u8]| (SESSION.body)(data));
