//! What both say to the same configuration with `-t`: the warnings and the first error, with the line.

use freerun_testkit::{Kind, check};

/// Checks each of these lines in a `server` block.
#[track_caller]
pub fn same_verdicts(lines: &[&str]) {
    same_verdicts_around("server {\nlisten 127.0.0.1:@PORT@;\n@LINE@\n}", lines);
}

/// Checks each of these lines in place of `@LINE@` in a text for the `http` block.
#[track_caller]
pub fn same_verdicts_around(around: &str, lines: &[&str]) {
    if !freerun_testkit::require::nginx() {
        return;
    }
    let mut wrong = String::new();
    for line in lines {
        let text = format!("events {{ }}\nhttp {{\n{}\n}}\n", around.replace("@LINE@", line));
        let (nginx, freerun) = (verdict(Kind::Nginx, &text), verdict(Kind::under_test(), &text));
        if !same(&nginx, &freerun) {
            wrong += &format!("{line}\n  - {nginx:?}\n  + {freerun:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Checks each of these lines in place of `@LINE@` in a text for the `stream` block.
#[track_caller]
pub fn same_verdicts_of_stream(around: &str, lines: &[&str]) {
    let Some(module) = freerun_testkit::require::nginx_module("ngx_stream_module") else { return };
    let mut wrong = String::new();
    for line in lines {
        let text = format!("events {{ }}\nstream {{\n{}\n}}\n", around.replace("@LINE@", line));
        // In the same line, so that those below have the same numbers.
        let nginx = verdict(Kind::Nginx, &format!("load_module {}; {text}", module.display()));
        let freerun = verdict(Kind::Freerun, &text);
        if !same(&nginx, &freerun) {
            wrong += &format!("{line}\n  - {nginx:?}\n  + {freerun:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Whether they say the same. nginx has no place for what it looks at when all has been read, and is silent about some errors.
fn same(nginx: &(Option<i32>, Vec<String>), freerun: &(Option<i32>, Vec<String>)) -> bool {
    let silent = nginx.0 == Some(1) && nginx.1.is_empty();
    let lines = || nginx.1.iter().zip(&freerun.1);
    let alike = nginx.1.len() == freerun.1.len() && lines().all(|(theirs, ours)| same_words(theirs, ours));
    nginx.0 == freerun.0 && (silent || alike)
}

/// Whether two errors are the same but for the place, which nginx may not say.
pub fn same_words(nginx: &str, freerun: &str) -> bool {
    let rest = freerun.strip_prefix(nginx);
    let placed = nginx.rsplit(':').next().is_some_and(|line| line.parse::<usize>().is_ok());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(" in ") && !placed)
}

fn verdict(kind: Kind, text: &str) -> (Option<i32>, Vec<String>) {
    let checked = check(kind, text).expect("it starts");
    let lines = checked.stderr.lines();
    // `nginx: [level] …`, in all of nginx's lines but its own success; who asks as root is told so.
    let told = lines.filter_map(|line| line.split_once(": [").map(|(_, rest)| format!("[{rest}")));
    (checked.code, told.filter(|line| !line.contains("\"user\" directive makes sense")).collect())
}
