//! See `freerun_fuzz::log_lines::LOG_LINE`.
#![no_main]

use freerun_fuzz::log_lines::LOG_LINE;

libfuzzer_sys::fuzz_target!(init: LOG_LINE.write_corpus(), |data: &[u8]| (LOG_LINE.body)(data));
