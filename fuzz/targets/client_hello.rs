//! See `freerun_fuzz::targets::CLIENT_HELLO`.
#![no_main]

use freerun_fuzz::targets::CLIENT_HELLO;

libfuzzer_sys::fuzz_target!(init: CLIENT_HELLO.write_corpus(), |data: &[u8]| (CLIENT_HELLO.body)(data));
