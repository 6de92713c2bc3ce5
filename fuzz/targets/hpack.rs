//! See `freerun_fuzz::targets::HPACK`.
#![no_main]

use freerun_fuzz::targets::HPACK;

libfuzzer_sys::fuzz_target!(init: HPACK.write_corpus(), |data: &[u8]| (HPACK.body)(data));
