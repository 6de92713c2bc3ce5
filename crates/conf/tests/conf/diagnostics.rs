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
         \x20  |     ^^^^^\n\
         help: the syntax is: send_timeout time; where a time is 500ms, 30, 30s, 5m, 12h or 1d\n"
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
        ("http {\n sendfile on\n}", "is a \";\" missing at the end of line 2?"),
        ("daemon on;\npid a\n", "is a \";\" missing at the end of line 2?"),
        ("events {}\n}", "no block is open here; a \"}\" before may be one too many"),
        // The name of a directive at the beginning of a line, as an argument of the directive before.
        ("http {\n root /a\n sendfile on;\n}", "is a \";\" missing at the end of line 2?"),
        ("http {\n sendfile on\n root /a;\n}", "is a \";\" missing at the end of line 2?"),
        ("http {\n root\n \"/a\n\"\n sendfile on;\n}", "is a \";\" missing at the end of line 4?"),
        ("http {\n root /a\n server {\n }\n}", "is a \";\" missing at the end of line 2?"),
        // In a list that is written over several lines no name of a directive is a mistake by itself.
        ("http {\n keepalive_disable msie6\n safary;\n}", "did you mean \"safari\"?"),
        ("http { client_max_body_size 1m\n 2m; }", "the syntax is: client_max_body_size size;"),
        ("js_content x;", "nginx has this directive (in ngx_http_js_module), freerun does not have it yet"),
        ("zone_sync;", "NGINX Plus has this directive (in ngx_stream_zone_sync_module), freerun does not have it yet"),
        ("lua_package_path x;", "the directive is of lua-nginx-module (OpenResty), which freerun does not have"),
        (
            "http { prometheus all; }",
            "the directive is of Angie, which freerun does not have; \"status;\" answers with \"?format=prometheus\"",
        ),
        ("\u{feff}daemon on;", "the file begins with a byte order mark; save it without one"),
    ] {
        let shown = rendered(text);
        assert_eq!(shown.lines().last(), Some(format!("help: {help}").as_str()), "{text:?}\n{shown}");
    }
    for text in ["x;", "http { more_set_headers a; zstd_types a; brotli on; echo a; }"] {
        assert!(!rendered(text).contains("help:"), "{text:?}");
    }
}

#[test]
fn a_block_that_is_not_closed_is_shown() {
    // Nothing tells which one it is but that nothing is left.
    let shown = rendered("events {}\nhttp {\nserver {\n}\n");
    assert!(
        shown.ends_with("help: the block \"http\", which begins here, is not closed\n") && shown.contains("2 | http {"),
        "{shown}"
    );
    assert!(shown.contains("unexpected end of file, expecting \"}\" in /etc/nginx/nginx.conf:5"), "{shown}");
    // The one whose brace stands where that of another block would.
    let text = "events {}\nhttp {\n    server {\n        server_name a;\n    server {\n    }\n}\n";
    let tree = parse_text(text.as_bytes());
    let error = tree.error.expect("it ends too early");
    let shown = error.render(&tree.sources);
    assert!(shown.contains("3 |     server {"), "{shown}");
    assert!(shown.contains("may be missing at the end of the block \"server\": it ends in line 7, "), "{shown}");
}

#[test]
fn all_problems_are_shown_once_each_and_bounded() {
    let all = |text: &str| {
        let tree = parse_text(text.as_bytes());
        apply(&tree).0.expect_err(text).render_all(&tree.sources, "nginx: ")
    };
    let shown = all("foo;\nhttp {\n sendfile x;\n server { bar; }\n}\n}\n");
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("nginx: ")).collect();
    let told = [
        "unknown directive \"foo\" in /etc/nginx/nginx.conf:1",
        "invalid value \"x\" in \"sendfile\" directive, it must be \"on\" or \"off\" in /etc/nginx/nginx.conf:3",
        "unknown directive \"bar\" in /etc/nginx/nginx.conf:4",
        "unexpected \"}\" in /etc/nginx/nginx.conf:6",
    ];
    assert_eq!(lines, told.map(|line| format!("nginx: [emerg] {line}")));

    // A file that is included in many places.
    let mut files =
        Memory::with(&[(MAIN, "http { server { include x; } server { include x; } }"), ("/etc/nginx/x", "foo;")]);
    let tree = parse(MAIN, None, "/etc/nginx", &mut files);
    let problems = apply(&tree).0.expect_err("twice");
    assert_eq!((problems.len(), problems.render_all(&tree.sources, "").matches("unknown directive").count()), (2, 1));

    let many: String = (0..MAX_SHOWN + 1).map(|number| format!("foo{number};\n")).collect();
    let shown = all(&many);
    assert_eq!(shown.matches("unknown directive").count(), MAX_SHOWN);
    assert!(shown.ends_with("nginx: there are more problems\n"), "{shown}");
}

#[test]
fn what_may_follow_from_a_problem_of_a_directive_is_left_out() {
    let sources = Sources::default();
    let late = Problem::new("unknown \"x\" variable");
    let mut early = Problem::new("invalid value");
    early.order = Some(3);
    assert_eq!(Diagnostics(vec![early, late.clone()]).render_all(&sources, ""), "[emerg] invalid value\n");
    assert_eq!(Diagnostics(vec![late.clone(), late]).render_all(&sources, ""), "[emerg] unknown \"x\" variable\n");
}

#[test]
fn warnings_that_nginx_would_not_have_come_to_are_dropped() {
    let mut cx = Cx::new(Sources::default());
    let at = |order| {
        let mut problem = Problem::warning(format!("{order:?}"));
        problem.order = order;
        problem
    };
    for order in [None, Some(1), Some(3)] {
        cx.warn(at(order));
    }
    cx.report(at(Some(2))).expect("there are few");
    assert!(cx.conclude(Ok(()), None).is_err());
    assert_eq!(cx.warnings.iter().map(|warning| warning.order).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn the_first_of_two_is_named() {
    let tree = parse_text(b"a;\nb;");
    let problem = Problem::new("twice").at_node(&tree.nodes[1]).first_at(tree.nodes[0].name.place);
    assert!(problem.render(&tree.sources).ends_with("help: the first one is in /etc/nginx/nginx.conf:1\n"));
    assert_eq!(Problem::new("twice").first_at(Place::NONE).help(&tree.sources), None);
}

#[test]
fn an_unclosed_quote_is_shown_where_it_begins() {
    let shown = rendered("events {}\nhttp { index \"a;\n}\n");
    assert!(
        shown.starts_with("nginx: [emerg] unexpected end of file, expecting \";\" or \"}\" in /etc/nginx/nginx.conf:4")
    );
    assert!(shown.contains("2 | http { index \"a;\n"), "{shown}");
    assert!(shown.ends_with("help: the quote that begins here is not closed\n"), "{shown}");
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
