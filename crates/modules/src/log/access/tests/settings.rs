//! Tests of `access_log` and `log_format` in configurations.

use crate::in_process::read;

const SERVER: &str = "server { listen 127.0.0.1:1; }";

/// The paths of the logs that are opened.
fn logs(http: &str) -> Vec<String> {
    read(http).unwrap_or_else(|refused| panic!("{http}: {refused:?}")).log_paths
}

#[test]
fn faults_are_told_as_nginx_tells_them() {
    for (http, message) in [
        ("access_log a nope;", "unknown log format \"nope\""),
        ("access_log a nope; log_format nope 'x';", "unknown log format \"nope\""),
        ("server { access_log a late; } log_format late 'x';", "unknown log format \"late\""),
        ("access_log a buffer=4k;", "unknown log format \"buffer=4k\""),
        ("access_log;", "invalid number of arguments in \"access_log\" directive"),
        ("access_log off x;", "invalid parameter \"x\""),
        ("access_log off if=1;", "invalid parameter \"if=1\""),
        ("access_log a combined foo;", "invalid parameter \"foo\""),
        ("access_log a combined foo=1;", "invalid parameter \"foo=1\""),
        ("access_log a combined flush=5s;", "no buffer is defined for access_log \"a\""),
        ("access_log a combined buffer=x;", "invalid buffer size \"x\""),
        ("access_log a combined buffer=0;", "invalid buffer size \"0\""),
        ("access_log a combined buffer=;", "invalid buffer size \"\""),
        ("access_log a combined buffer=1g;", "invalid buffer size \"1g\""),
        ("access_log a combined buffer=4k flush=x;", "invalid flush time \"x\""),
        ("access_log a combined buffer=4k flush=0;", "invalid flush time \"0\""),
        ("access_log a combined if=$-;", "invalid variable name"),
        ("access_log a combined if=$nope;", "unknown \"nope\" variable"),
        ("access_log a combined gzip=0;", "invalid compression level \"0\""),
        ("access_log a combined gzip=10;", "invalid compression level \"10\""),
        (
            "access_log a combined buffer=4k; access_log a combined buffer=8k;",
            "access_log \"a\" already defined with conflicting parameters",
        ),
        (
            "access_log a combined buffer=4k flush=1s; server { access_log a combined buffer=4k flush=2s; }",
            "access_log \"a\" already defined with conflicting parameters",
        ),
        ("log_format x;", "invalid number of arguments in \"log_format\" directive"),
        ("log_format combined 'x';", "duplicate \"log_format\" name \"combined\""),
        ("log_format x 'x'; log_format x 'y';", "duplicate \"log_format\" name \"x\""),
        ("log_format x escape=foo 'x';", "unknown log format escaping \"foo\""),
        ("log_format x escape=JSON 'x';", "unknown log format escaping \"JSON\""),
        ("log_format x 'a' '$' 'd';", "invalid parameter \"$\""),
        ("log_format x 'a$-b c' 'd';", "invalid parameter \"$-b c\""),
        ("log_format x '$${a';", "invalid parameter \"$${a\""),
        ("log_format x '${';", "invalid parameter \"${\""),
        ("log_format x '${}';", "invalid parameter \"${}\""),
        ("log_format x '${a';", "the closing bracket in \"a\" variable is missing"),
        ("log_format x '${-b} c';", "the closing bracket in \"\" variable is missing"),
        ("log_format x '$unknown';", "unknown \"unknown\" variable"),
        ("log_format x '$1';", "unknown \"1\" variable"),
        ("log_format x '$1a';", "unknown \"1a\" variable"),
        ("server { log_format x 'a'; }", "\"log_format\" directive is not allowed here"),
    ] {
        let told = read(&format!("{http} {SERVER}")).err().unwrap_or_else(|| panic!("{http} is accepted"));
        let told = told.line.strip_prefix("[emerg] ").unwrap_or(&told.line);
        assert_eq!(told.strip_suffix(" in test.conf:1").unwrap_or(told), message, "{http}");
    }
}

#[test]
fn what_nginx_accepts_is_accepted() {
    for http in [
        "access_log off; access_log a;",
        "access_log a; access_log off; access_log off;",
        "access_log a combined if=;",
        "access_log a combined if=$host if=$uri;",
        "access_log a combined buffer=4k; access_log a combined;",
        "access_log a combined; access_log a combined;",
        "access_log a combined buffer=4k buffer=8k;",
        "access_log a combined buffer=1024m flush=1m;",
        "log_format x escape=json;",
        "log_format x 'a' escape=json;",
        "log_format \"\" 'a'; access_log a \"\";",
        "log_format x '${status}a$status'; server { location / { access_log a x; } }",
    ] {
        logs(&format!("{http} {SERVER}"));
    }
}

#[test]
fn the_default_log_is_opened_only_where_something_uses_it() {
    let default = "/prefix/default.log";
    assert_eq!(logs(SERVER), [default]);
    assert_eq!(logs("server { } server { location / { } }"), [default]);
    assert_eq!(logs(""), [""; 0]);
    assert_eq!(logs("access_log off; server { }"), [""; 0]);
    assert_eq!(logs("server { access_log off; location / { } }"), [""; 0]);
    assert_eq!(logs("access_log /x; server { location / { } }"), ["/x"]);
    assert_eq!(logs("server { access_log b; location / { } }"), ["/prefix/b"]);
    assert_eq!(logs("server { access_log b; } server { }"), ["/prefix/b", default]);
    assert_eq!(logs("server { access_log off; access_log c; }"), ["/prefix/c"], "nginx opens it too");
}

#[test]
fn what_is_wrong_with_a_format_is_hinted_at() {
    for (http, hint) in [
        ("log_format main 'x'; access_log a mian;", "did you mean \"main\"?"),
        ("access_log a jsno;", "did you mean \"json\"?"),
        ("access_log a buffer=4k;", "the format comes first: access_log path format parameters"),
        (
            "server { access_log a late; } log_format late 'x';",
            "it is defined in test.conf:1, and must be defined before it is used",
        ),
    ] {
        let refused = read(&format!("{http} {SERVER}")).err().unwrap();
        assert_eq!(refused.hint.as_deref(), Some(hint), "{http}");
    }
}
