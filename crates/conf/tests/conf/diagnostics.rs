//! Tests of the text under nginx's line: the source line, the caret, help.

use crate::support::{MAIN, Memory, apply, parse_text};
use freerun_conf::*;

fn rendered(text: &str) -> String {
    let tree = parse_text(text.as_bytes());
    apply(&tree).0.expect_err(text).render(&tree.sources, "nginx: ")
}

#[test]
fn the_place_is_shown() {
    assert_eq!(
        rendered("http {\n    sendfil on;\n}\n"),
        "nginx: [emerg] unknown directive \"sendfil\" in /etc/nginx/nginx.conf:2\n\
         \x202 |     sendfil on;\n\
         \x20  |     ^^^^^^^\n\
         help: did you mean \"sendfile\"?\n"
    );
}

#[test]
fn the_caret_points_at_the_word_and_the_message_names_the_end() {
    assert_eq!(
        rendered("http {\n\tsend_timeout\n\t\"a b\"\n;\n}\n"),
        "nginx: [emerg] \"send_timeout\" directive invalid value in /etc/nginx/nginx.conf:4\n\
         \x203 |     \"a b\"\n\
         \x20  |     ^^^^^\n"
    );
}

#[test]
fn long_lines_are_cut_around_the_caret() {
    let text = format!("http {{ index {} ; sendfile {} ; }}", "ä".repeat(300), "é".repeat(300));
    let shown = rendered(&text);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[1].chars().count() < 120);
    let caret = lines[2].chars().position(|letter| letter == '^').expect("a caret");
    assert_eq!(lines[1].chars().nth(caret), Some('é'));
    assert!(lines[2].chars().count() <= lines[1].chars().count());
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let shown = rendered("http { index \u{1b}[31m\u{7} x; sendfile z; }");
    assert!(shown.lines().nth(1).is_some_and(|line| !line.chars().any(char::is_control)), "{shown:?}");
}

#[test]
fn hints() {
    for (text, help) in [
        ("http { server { lisen 80; } }", "did you mean \"listen\"?"),
        ("deamon on;", "did you mean \"daemon\"?"),
        // Names of this context come first: `set` is similar to `send_…`, too, and `server` is not allowed here.
        ("http { sever {} }", "did you mean \"server\"?"),
        ("http { daemn on; }", "did you mean \"daemon\"?"),
        (
            "http { proxy_cache x; }",
            "nginx has this directive (in ngx_http_proxy_module), freerun does not have it yet",
        ),
        ("http { proxy_pas x; }", "did you mean \"proxy_pass\"? nginx has it, freerun does not have it yet"),
        ("http { server { ssl on; } }", "nginx removed it in 1.25.1; write \"listen address ssl;\""),
        ("http {\n index a;\n sendfile on;\n sendfile off; }", "the first one is in /etc/nginx/nginx.conf:3"),
        ("sendfile on;", "\"sendfile\" may stand in: http, server, location, if in location"),
        ("http { sendfile on off; }", "the syntax is: sendfile on | off;"),
        ("http { if_modified_since exakt; }", "did you mean \"exact\"?"),
        ("http { if_modified_since whenever; }", "it must be one of: off, exact, before"),
        ("http { sendfile on }", "a \";\" may be missing after \"on\""),
        ("\u{feff}daemon on;", "the file begins with a byte order mark; save it without one"),
    ] {
        let shown = rendered(text);
        assert_eq!(shown.lines().last(), Some(format!("help: {help}").as_str()), "{text:?}\n{shown}");
    }
    for text in ["lua_package_path x;", "x;", "http { more_set_headers a; zstd_types a; brotli on; echo a; }"] {
        assert!(!rendered(text).contains("help:"), "{text:?}");
    }
}

#[test]
fn an_unclosed_quote_is_shown_where_it_begins() {
    let shown = rendered("events {}\nhttp { index \"a;\n}\n");
    assert!(
        shown.starts_with("nginx: [emerg] unexpected end of file, expecting \";\" or \"}\" in /etc/nginx/nginx.conf:4")
    );
    assert!(shown.contains("2 | http { index \"a;\n"), "{shown}");
}

#[test]
fn a_place_in_an_included_file_is_shown_from_it() {
    let mut files = Memory::with(&[(MAIN, "http {\ninclude x; }"), ("/etc/nginx/x", "\n sendfile no;")]);
    let tree = parse(MAIN, None, "/etc/nginx", &mut files);
    let shown = apply(&tree).0.expect_err("no").render(&tree.sources, "");
    assert!(shown.contains("in /etc/nginx/x:2\n 2 |  sendfile no;\n   |           ^^\n"), "{shown}");
}

#[test]
fn problems_without_place_are_one_line() {
    let problem = Problem::new("no \"events\" section in configuration");
    assert_eq!(problem.render(&Sources::default()), "[emerg] no \"events\" section in configuration\n");
}

#[test]
fn near_names() {
    let names = ["proxy_pass", "proxy_hide_header", "root", "return"];
    let near = |wrong: &str| near(wrong, names.iter().copied());
    assert_eq!(near("proxy_pas"), Some("proxy_pass"));
    assert_eq!(near("porxy_pass"), Some("proxy_pass"));
    assert_eq!(near("PROXY_PASS"), Some("proxy_pass"));
    assert_eq!(near("rot"), Some("root"));
    assert_eq!(near("xyz"), None);
    assert_eq!(near(""), None);
    assert_eq!(near(&"p".repeat(10_000)), None);
}
