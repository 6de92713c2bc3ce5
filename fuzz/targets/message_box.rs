//! See `freerun_fuzz::targets::MESSAGE_BOX`.
#![no_main]

use freerun_fuzz::targets::MESSAGE_BOX;

libfuzzer_sys::fuzz_target!(init: MESSAGE_BOX.write_corpus(), |data: &[u8]| (MESSAGE_BOX.body)(data));
