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
        if nginx != freerun {
            wrong += &format!("{line}\n  - {nginx:?}\n  + {freerun:?}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn verdict(kind: Kind, text: &str) -> (Option<i32>, Vec<String>) {
    let checked = check(kind, text).expect("it starts");
    let lines = checked.stderr.lines();
    // `nginx: [level] …`, in all of nginx's lines but its own success; who asks as root is told so.
    let told = lines.filter_map(|line| line.split_once(": [").map(|(_, rest)| format!("[{rest}")));
    (checked.code, told.filter(|line| !line.contains("\"user\" directive makes sense")).collect())
}
