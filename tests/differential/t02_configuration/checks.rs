//! Lists of lines to which both have to say the same with `-t`: the warnings and the first error, with the line.

use crate::runner::compare_verdicts;
use freerun_testkit::require;

/// Checks each of these lines in a `server` block.
#[track_caller]
pub fn same_verdicts(lines: &[&str]) {
    same_verdicts_around("server {\nlisten 127.0.0.1:@PORT@;\n@LINE@\n}", lines);
}

/// Checks each of these lines in place of `@LINE@` in a text for the `http` block.
#[track_caller]
pub fn same_verdicts_around(around: &str, lines: &[&str]) {
    same_verdicts_in(&format!("events {{ }}\nhttp {{\n{around}\n}}\n"), lines);
}

/// Checks each of these lines in place of `@LINE@` in a text for the `stream` block.
#[track_caller]
pub fn same_verdicts_of_stream(around: &str, lines: &[&str]) {
    let Some(module) = require::nginx_module("ngx_stream_module") else { return };
    same_verdicts_in(&format!("load_module {};\nevents {{ }}\nstream {{\n{around}\n}}\n", module.display()), lines);
}

/// Checks each of these lines in place of `@LINE@` in a whole configuration.
#[track_caller]
pub fn same_verdicts_in(whole: &str, lines: &[&str]) {
    compare_verdicts(lines.iter().map(|line| (line, whole.replace("@LINE@", line))), |_, verdicts| verdicts.agree());
}
