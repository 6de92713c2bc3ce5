//! See `freerun_fuzz::qpack::QPACK`.
#![no_main]

use freerun_fuzz::qpack::QPACK;

libfuzzer_sys::fuzz_target!(init: QPACK.write_corpus(), |data: &[u8]| (QPACK.body)(data));
