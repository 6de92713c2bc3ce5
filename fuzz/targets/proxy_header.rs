//! See `freerun_fuzz::targets::PROXY_HEADER`.
#![no_main]

use freerun_fuzz::targets::PROXY_HEADER;

libfuzzer_sys::fuzz_target!(init: PROXY_HEADER.write_corpus(), |data: &[u8]| (PROXY_HEADER.body)(data));
