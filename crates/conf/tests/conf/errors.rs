//! Tests of nginx's words and line numbers for every error; if the nginx binary is installed, it is asked too.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Memory, apply, fault};
use freerun_conf::parse;
use freerun_testkit::require;

/// A text and nginx's line for it.
const FAULTS: &[(&str, &str)] = &[
    // The text ends too early.
    ("daemon", "[emerg] unexpected end of file, expecting \";\" or \"}\" in conf:1"),
    ("daemon on\n", "[emerg] unexpected end of file, expecting \";\" or \"}\" in conf:2"),
    ("events {\n", "[emerg] unexpected end of file, expecting \"}\" in conf:2"),
    ("events {} \"daemon;\n\n", "[emerg] unexpected end of file, expecting \";\" or \"}\" in conf:3"),
    ("daemon 'on\\'x;", "[emerg] unexpected end of file, expecting \";\" or \"}\" in conf:1"),
    ("daemon\\", "[emerg] unexpected end of file, expecting \";\" or \"}\" in conf:1"),
    ("daemon \"a\\", "[emerg] unexpected end of file, expecting \";\" or \"}\" in conf:1"),
    // Signs where they must not be.
    ("}", "[emerg] unexpected \"}\" in conf:1"),
    ("events {}\n}", "[emerg] unexpected \"}\" in conf:2"),
    ("{", "[emerg] unexpected \"{\" in conf:1"),
    ("events {}\n;", "[emerg] unexpected \";\" in conf:2"),
    ("events {};", "[emerg] unexpected \";\" in conf:1"),
    ("events { multi_accept on }", "[emerg] unexpected \"}\" in conf:1"),
    ("daemon \"x\"y;", "[emerg] unexpected \"y\" in conf:1"),
    ("daemon \"x\"};", "[emerg] unexpected \"}\" in conf:1"),
    ("daemon \"x\"#;", "[emerg] unexpected \"#\" in conf:1"),
    ("events \"x\")a;", "[emerg] directive \"events\" has no opening \"{\" in conf:1"),
    // Names, contexts, terminators, counts: in this order.
    ("foo;", "[emerg] unknown directive \"foo\" in conf:1"),
    ("foo\nbar\n;", "[emerg] unknown directive \"foo\" in conf:3"),
    ("foo {", "[emerg] unknown directive \"foo\" in conf:1"),
    ("fo\"o b;", "[emerg] unknown directive \"fo\"o\" in conf:1"),
    ("a${b}c;", "[emerg] unknown directive \"a${b}c\" in conf:1"),
    ("a{b;", "[emerg] unknown directive \"a\" in conf:1"),
    ("a#b;", "[emerg] unknown directive \"a#b\" in conf:1"),
    ("fo\\to;", "[emerg] unknown directive \"fo\to\" in conf:1"),
    ("fo\\;o;", "[emerg] unknown directive \"fo\\;o\" in conf:1"),
    ("fo\\\\o;", "[emerg] unknown directive \"fo\\o\" in conf:1"),
    ("\\\"foo;", "[emerg] unknown directive \"\"foo\" in conf:1"),
    ("\\ foo;", "[emerg] unknown directive \"\\ foo\" in conf:1"),
    ("\"\" a;", "[emerg] unknown directive \"\" in conf:1"),
    ("\u{feff}daemon on;", "[emerg] unknown directive \"\u{feff}daemon\" in conf:1"),
    ("# c\nfoo;", "[emerg] unknown directive \"foo\" in conf:2"),
    ("listen 80;", "[emerg] \"listen\" directive is not allowed here in conf:1"),
    ("http { events {} }", "[emerg] \"events\" directive is not allowed here in conf:1"),
    ("http {\n daemon on\n; }", "[emerg] \"daemon\" directive is not allowed here in conf:3"),
    ("events;", "[emerg] directive \"events\" has no opening \"{\" in conf:1"),
    ("daemon on {}", "[emerg] directive \"daemon\" is not terminated by \";\" in conf:1"),
    ("daemon;", "[emerg] invalid number of arguments in \"daemon\" directive in conf:1"),
    ("http{\nsendfile\non\n1;}", "[emerg] invalid number of arguments in \"sendfile\" directive in conf:4"),
    ("events x {}", "[emerg] invalid number of arguments in \"events\" directive in conf:1"),
    ("http { server { location { } } }", "[emerg] invalid number of arguments in \"location\" directive in conf:1"),
    ("http { types a {} }", "[emerg] invalid number of arguments in \"types\" directive in conf:1"),
    ("http { types { a {} } }", "[emerg] unexpected \"{\" in conf:1"),
    ("http { types { text/html a\n } }", "[emerg] unexpected \"}\" in conf:2"),
    // Values.
    ("daemon x;", "[emerg] invalid value \"x\" in \"daemon\" directive, it must be \"on\" or \"off\" in conf:1"),
    ("http { sendfile on; sendfile on; }", "[emerg] \"sendfile\" directive is duplicate in conf:1"),
    ("pid a;\npid b\n;", "[emerg] \"pid\" directive is duplicate in conf:3"),
    ("http { client_max_body_size x;}", "[emerg] \"client_max_body_size\" directive invalid value in conf:1"),
    ("http { client_max_body_size 1t;}", "[emerg] \"client_max_body_size\" directive invalid value in conf:1"),
    ("http { sendfile_max_chunk 1g; }", "[emerg] \"sendfile_max_chunk\" directive invalid value in conf:1"),
    (
        "http { client_max_body_size 9223372036854775807k;}",
        "[emerg] \"client_max_body_size\" directive invalid value in conf:1",
    ),
    ("http { client_max_body_size \"\";}", "[emerg] \"client_max_body_size\" directive invalid value in conf:1"),
    ("http { send_timeout x; }", "[emerg] \"send_timeout\" directive invalid value in conf:1"),
    ("http { send_timeout 1ms1s; }", "[emerg] \"send_timeout\" directive invalid value in conf:1"),
    ("http { send_timeout 1M; }", "[emerg] \"send_timeout\" directive invalid value in conf:1"),
    ("http { open_file_cache_valid 5ms; }", "[emerg] \"open_file_cache_valid\" directive invalid value in conf:1"),
    ("http { keepalive_requests x; }", "[emerg] \"keepalive_requests\" directive invalid number in conf:1"),
    ("http { keepalive_requests -1; }", "[emerg] \"keepalive_requests\" directive invalid number in conf:1"),
    (
        "http { keepalive_requests 9223372036854775808; }",
        "[emerg] \"keepalive_requests\" directive invalid number in conf:1",
    ),
    ("worker_rlimit_nofile x;", "[emerg] \"worker_rlimit_nofile\" directive invalid number in conf:1"),
    ("http { if_modified_since x; }", "[emerg] invalid value \"x\" in conf:1"),
    ("http { keepalive_disable foo; }", "[emerg] invalid value \"foo\" in conf:1"),
    ("http { output_buffers 0 1k; }", "[emerg] \"output_buffers\" directive invalid value in conf:1"),
    ("http { output_buffers 1 x; }", "[emerg] \"output_buffers\" directive invalid value in conf:1"),
    // Errors of `include` itself.
    ("include;", "[emerg] invalid number of arguments in \"include\" directive in conf:1"),
    ("include a b;", "[emerg] invalid number of arguments in \"include\" directive in conf:1"),
    ("include a {}", "[emerg] directive \"include\" is not terminated by \";\" in conf:1"),
    ("include /no/such;", "[emerg] open() \"/no/such\" failed (2: No such file or directory) in conf:1"),
    ("foo { include /no/such; }", "[emerg] unknown directive \"foo\" in conf:1"),
    (
        "http { types {\n include /no/such; } }",
        "[emerg] open() \"/no/such\" failed (2: No such file or directory) in conf:2",
    ),
    // The first problem in reading order is reported, whichever is found first here.
    ("http { server { foo; } bar; }", "[emerg] unknown directive \"foo\" in conf:1"),
    (
        "http {\n sendfile x;\n }}",
        "[emerg] invalid value \"x\" in \"sendfile\" directive, it must be \"on\" or \"off\" in conf:2",
    ),
    ("http { server { server { } } } }", "[emerg] \"server\" directive is not allowed here in conf:1"),
    ("events { }\nhttp {\n server {\n foo on;\n", "[emerg] unknown directive \"foo\" in conf:4"),
    ("pid a; http { pid b; } pid c;", "[emerg] \"pid\" directive is not allowed here in conf:1"),
];

#[test]
fn faults_are_told_in_nginx_words() {
    for (text, line) in FAULTS {
        assert_eq!(fault(text.as_bytes()), *line, "{text:?}");
    }
}

/// Words at nginx's limit of 4096 bytes: the text and the end of nginx's line.
fn long_words() -> Vec<(String, String)> {
    let a = |count: usize| "a".repeat(count);
    let unknown = |name: &str, line: u32| format!("[emerg] unknown directive \"{name}\" in conf:{line}");
    let missing = |quote: &str, line: u32| {
        format!("[emerg] too long parameter, probably missing terminating \"{quote}\" character in conf:{line}")
    };
    let started = |word: &str, line: u32| format!("[emerg] too long parameter \"{word}...\" started in conf:{line}");
    vec![
        (format!("env {}; foo;", a(4095)), unknown("foo", 1)),
        (format!("{};", a(4096)), started("aaaaaaaaaa", 1)),
        (format!("\nenv \"{}\"; foo;", a(4094)), unknown("foo", 2)),
        (format!("\n\"{}\";", a(4095)), started("aaaaaaaaaa", 2)),
        (format!("\n\"{}\";", a(4096)), missing("\"", 2)),
        (format!("daemon\n'{}';", "a\n".repeat(9000)), missing("'", 2)),
        (format!("foo{};", " b".repeat(9000)), unknown("foo", 1)),
        (format!("{}foo{};", "\n".repeat(9000), " ".repeat(9000)), unknown("foo", 9001)),
    ]
}

#[test]
fn words_are_bounded_as_in_nginx() {
    for (text, line) in long_words() {
        assert_eq!(fault(text.as_bytes()), line, "{}", &text[..20]);
    }
}

/// Runs `nginx -t`; returns the first problem's line with `conf` for the file's name.
fn nginx(program: &Path, folder: &Path, text: &[u8]) -> String {
    let path = folder.join("nginx.conf");
    std::fs::write(&path, text).expect("the test's folder is writable");
    let output = Command::new(program)
        .args(["-t", "-q", "-e", "/dev/null", "-p"])
        .arg(folder)
        .arg("-c")
        .arg(&path)
        .stdin(Stdio::null())
        .output()
        .expect("nginx runs");
    let text = String::from_utf8_lossy(&output.stderr).replace(&path.display().to_string(), "conf");
    let end = text.find("\nnginx: configuration file").unwrap_or(text.len());
    text[..end].trim_start_matches("nginx: ").to_owned()
}

#[test]
fn the_nginx_binary_agrees() {
    if !require::nginx() {
        return;
    }
    let program = require::nginx_path().expect("nginx");
    let folder = std::env::temp_dir().join(format!("freerun-conf-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let texts = FAULTS.iter().map(|(text, line)| ((*text).to_owned(), (*line).to_owned())).chain(long_words());
    for (text, line) in texts {
        let said = nginx(&program, &folder, text.as_bytes());
        assert_eq!(said, line, "{:?}", text.chars().take(80).collect::<String>());
    }
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}

/// The `-g` text and nginx's line for it.
const PARAMETER_FAULTS: &[(&str, &str)] = &[
    ("foo", "[emerg] unexpected end of parameter, expecting \";\" in command line"),
    ("foo;", "[emerg] unknown directive \"foo\" in command line"),
    ("events {", "[emerg] block directives are not supported in -g option in command line"),
    ("}", "[emerg] unexpected \"}\" in command line"),
    (";", "[emerg] unexpected \";\" in command line"),
    ("daemon \"a\"b", "[emerg] unexpected \"b\" in command line"),
    ("daemon on; listen 80;", "[emerg] \"listen\" directive is not allowed here in command line"),
    ("pid x; pid y;", "[emerg] \"pid\" directive is duplicate in command line"),
    ("include nofile;", "[emerg] open() \"/etc/nginx/nofile\" failed (2: No such file or directory) in command line"),
];

#[test]
fn the_command_line_has_no_line_numbers() {
    for (text, line) in PARAMETER_FAULTS {
        let mut files = Memory::with(&[("/a", "events {}")]);
        let tree = parse("/a", Some(text), "/etc/nginx", &mut files);
        let problems = apply(&tree).0.expect_err(text);
        assert_eq!(problems[0].first_line(&tree.sources), *line, "{text:?}");
    }
}

#[test]
fn a_directive_of_the_command_line_makes_the_files_one_a_duplicate() {
    let mut files = Memory::with(&[("/a", "\npid b;")]);
    let tree = parse("/a", Some("pid a;"), "/", &mut files);
    let problems = apply(&tree).0.expect_err("twice");
    assert_eq!(problems[0].first_line(&tree.sources), "[emerg] \"pid\" directive is duplicate in /a:2");
}

#[test]
fn a_missing_main_file_and_a_folder_have_no_place() {
    let tree = parse("/none", None, "/", &mut Memory::default());
    let problem = tree.error.expect("nothing to read");
    assert_eq!(problem.first_line(&tree.sources), "[emerg] open() \"/none\" failed (2: No such file or directory)");
    let tree = parse("/a", None, "/", &mut Memory::with(&[("/a", "include /tmp/;")]));
    let problem = tree.error.expect("a folder");
    assert!(problem.to_string().starts_with("[crit] pread() \"/tmp/\" failed (21: Is a directory)"));
}
