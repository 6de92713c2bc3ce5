//! See `freerun_fuzz::targets::FASTCGI`.
#![no_main]

use freerun_fuzz::targets::FASTCGI;

libfuzzer_sys::fuzz_target!(init: FASTCGI.write_corpus(), |data: &[u8]| (FASTCGI.body)(data));
