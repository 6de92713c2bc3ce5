//! See `freerun_fuzz::expressions::EXPRESSION`.
#![no_main]

use freerun_fuzz::expressions::EXPRESSION;

libfuzzer_sys::fuzz_target!(init: EXPRESSION.write_corpus(), |data: &[u8]| (EXPRESSION.body)(data));
