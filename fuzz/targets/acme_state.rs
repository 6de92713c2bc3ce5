//! See `freerun_fuzz::targets::ACME_STATE`.
#![no_main]

use freerun_fuzz::targets::ACME_STATE;

libfuzzer_sys::fuzz_target!(init: ACME_STATE.write_corpus(), |data: &[u8]| (ACME_STATE.body)(data));
