//! See `freerun_fuzz::quic::QUIC`.
#![no_main]

use freerun_fuzz::quic::QUIC;

libfuzzer_sys::fuzz_target!(init: QUIC.write_corpus(), |data: &[u8]| (QUIC.body)(data));
