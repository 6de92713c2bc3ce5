//! The title of a process, as others see it. There is no harness, because that would have threads.

use freerun_sys::title;

fn shown() -> String {
    let text = std::fs::read("/proc/self/cmdline").expect("what the kernel shows of the process");
    String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
}

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        println!("a_title_is_shown_and_nothing_is_lost: test");
        return;
    }
    let arguments: Vec<_> = std::env::args_os().collect();
    let variables: Vec<_> = std::env::vars_os().collect();
    let path = std::env::var_os("PATH");
    assert!(path.is_some(), "every test has one");

    title::prepare().expect("one thread");
    let long = format!("a title that is longer than the command line was: {}", shown().replace('\0', " "));
    title::set(long.as_bytes());
    assert_eq!(shown(), long);
    title::set(b"short");
    assert_eq!(shown(), "short");
    // One without an end is cut, and nothing behind the environment is touched.
    title::set("x".repeat(1 << 20).as_bytes());
    assert!(shown().bytes().all(|byte| byte == b'x'));
    title::prepare().expect("a second time");

    assert_eq!(title::arguments(), arguments);
    assert_eq!(std::env::vars_os().collect::<Vec<_>>(), variables);
    assert_eq!(std::env::var_os("PATH"), path);
}
