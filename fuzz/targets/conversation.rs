//! See `freerun_fuzz::targets::CONVERSATION`.
#![no_main]

use freerun_fuzz::targets::CONVERSATION;

libfuzzer_sys::fuzz_target!(init: CONVERSATION.write_corpus(), |data: &[u8]| (CONVERSATION.body)(data));
