//! See `freerun_fuzz::http2::HTTP2`.
#![no_main]

use freerun_fuzz::http2::HTTP2;

libfuzzer_sys::fuzz_target!(init: HTTP2.write_corpus(), |data: &[u8]| (HTTP2.body)(data));
