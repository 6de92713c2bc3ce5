//! See `freerun_fuzz::targets::CIPHER_STRING`.
#![no_main]

use freerun_fuzz::targets::CIPHER_STRING;

libfuzzer_sys::fuzz_target!(init: CIPHER_STRING.write_corpus(), |data: &[u8]| (CIPHER_STRING.body)(data));
