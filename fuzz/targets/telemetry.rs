//! See `freerun_fuzz::telemetry::TELEMETRY`.
#![no_main]

use freerun_fuzz::telemetry::TELEMETRY;

libfuzzer_sys::fuzz_target!(init: TELEMETRY.write_corpus(), |data: &[u8]| (TELEMETRY.body)(data));
