//! See `freerun_fuzz::targets::UWSGI`.
#![no_main]

use freerun_fuzz::targets::UWSGI;

libfuzzer_sys::fuzz_target!(init: UWSGI.write_corpus(), |data: &[u8]| (UWSGI.body)(data));
