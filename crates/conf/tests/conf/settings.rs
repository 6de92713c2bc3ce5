//! Tests from tree to settings: merging, sharing, sets, defaults.

use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use freerun_conf::*;

fn at<'a>(built: &'a Built, path: &str) -> &'a SettingsSet {
    &built.iter().find(|(name, _)| name == path).unwrap_or_else(|| panic!("no {path}")).1
}

#[test]
fn defaults_are_parsed_from_their_text() {
    let built = built("");
    let files = built[0].1.get::<FileSettings>();
    assert!(!files.sendfile);
    assert_eq!(files.sendfile_max_chunk, Size(2 << 20));
    assert_eq!(files.output_buffers, Buffers { count: 2, size: 32 << 10 });
    assert_eq!(files.index.as_slice(), [["index.html"]]);
    assert_eq!(files.send_timeout, Duration::from_secs(60));
    assert_eq!(files.if_modified_since, Modified::Exact);
    assert!(files.keepalive_disable.contains(Browser::Msie6));
    assert!(!files.keepalive_disable.contains(Browser::Safari));
    assert_eq!(files.send_lowat, None);
    assert!(built[0].1.get::<MainSettings>().env.is_empty());
}

#[test]
fn levels_override_and_inherit_whatever_the_order() {
    let built =
        built("http { server { location /a { sendfile off; } location /b {} send_timeout 5; } sendfile on; index x; }");
    let settings = |path: &str| at(&built, path).get::<FileSettings>();
    assert!(settings("/http").sendfile);
    assert!(settings("/http/server").sendfile);
    assert!(!settings("/http/server/location /a").sendfile);
    assert_eq!(settings("/http").send_timeout.as_secs(), 60);
    assert_eq!(settings("/http/server/location /a").send_timeout.as_secs(), 5);
    assert_eq!(settings("/http/server/location /b").index.as_slice(), [["x"]]);
}

#[test]
fn repeated_directives_collect_on_one_level_and_replace_the_outer_one() {
    let built = built("env A; env B=1; http { index a b; index c; server { index d; } }");
    assert_eq!(built[0].1.get::<MainSettings>().env.as_slice(), ["A", "B=1"]);
    let index = |path: &str| at(&built, path).get::<FileSettings>().index.as_slice().to_vec();
    assert_eq!(index("/http"), [vec!["a", "b"], vec!["c"]]);
    assert_eq!(index("/http/server"), [["d"]]);
}

#[test]
fn a_level_that_changes_nothing_shares() {
    let built = built("http { sendfile on; server { rewrite_log on; location / { } } }");
    let files = |path: &str| at(&built, path).share::<FileSettings>();
    assert!(Arc::ptr_eq(&files("/http"), &files("/http/server")));
    assert!(!Arc::ptr_eq(&files(""), &files("/http")));
    let rewrite = |path: &str| at(&built, path).share::<RewriteSettings>();
    assert!(Arc::ptr_eq(&rewrite("/http/server"), &rewrite("/http/server/location /")));
}

#[test]
fn local_fields_start_anew_on_each_level() {
    let built = built(
        "http { server { rewrite_log on; set $a b; location / { location /b { return 200; } location /c {} } } }",
    );
    let settings = |path: &str| at(&built, path).get::<RewriteSettings>();
    assert_eq!(settings("/http/server").script.0, ["set"]);
    assert!(settings("/http/server/location /").script.0.is_empty());
    assert!(settings("/http/server/location /").rewrite_log, "the others are inherited");
    assert_eq!(settings("/http/server/location //location /b").script.0, ["return"]);
    assert!(settings("/http/server/location //location /c").script.0.is_empty());
}

#[test]
fn several_directives_fold_into_one_field_in_order() {
    let text = "http { server { set $a b; break; set $c d; return 200; if ($a) { break; } } }";
    let built = built(text);
    assert_eq!(at(&built, "/http/server").get::<RewriteSettings>().script.0, ["set", "break", "set", "return"]);
    assert_eq!(at(&built, "/http/server/if ($a)").get::<RewriteSettings>().script.0, ["break"]);
    let (_, mut cx) = apply(&parse_text(text.as_bytes()));
    assert_eq!(cx.extensions.remove::<usize>(), Some(5), "extensions are shared by all directives");
}

#[test]
fn raw_blocks_reach_their_type() {
    let built = built("http { types { text/html html htm; image/png png; } }");
    let types = &at(&built, "/http").get::<FileSettings>().types.0;
    assert_eq!(types.len(), 3);
    assert_eq!(types[2], ("png".to_owned(), "image/png".to_owned()));
}

#[test]
fn keywords_compare_without_case_and_warn_when_doubled() {
    let built = built("http { if_modified_since BEFORE; sendfile ON; }");
    assert_eq!(at(&built, "/http").get::<FileSettings>().if_modified_since, Modified::Before);
    let tree = parse_text(b"http {\n keepalive_disable none none; }");
    let (built, cx) = apply(&tree);
    assert!(built.is_ok());
    assert_eq!(cx.warnings[0].first_line(&tree.sources), "[warn] duplicate value \"none\" in /etc/nginx/nginx.conf:2");
}

#[test]
fn times() {
    for (text, milliseconds) in [
        ("5", Some(5_000)),
        ("5s", Some(5_000)),
        ("5ms", Some(5)),
        ("1h30m", Some(5_400_000)),
        ("1h  30m ", Some(5_400_000)),
        ("1w2d", Some(9 * 86_400_000)),
        ("1m5", Some(65_000)),
        ("1s500ms", Some(1_500)),
        ("1m1m", None),
        ("30m1h", None),
        ("5 1s", None),
        (" 5", None),
        ("1M", None),
        ("1y", None),
        ("1.5s", None),
        ("m", None),
        ("", None),
        ("-1", None),
        ("9999999999999999w", None),
    ] {
        assert_eq!(parse_time(text), milliseconds.map(Duration::from_millis), "{text:?}");
    }
    assert_eq!(parse_seconds("1y2M"), Some((365 + 60) * 86_400));
    assert_eq!(parse_seconds("1m30s"), Some(90));
    assert_eq!(parse_seconds("5ms"), None);
    assert_eq!(parse_seconds("2M1y"), None);
}

#[test]
fn numbers() {
    for (text, number) in [
        ("0", Some(0)),
        ("007", Some(7)),
        ("9223372036854775807", Some(i64::MAX as u64)),
        ("9223372036854775808", None),
        ("+1", None),
        ("-1", None),
        ("1k", None),
        (" 1", None),
        ("", None),
    ] {
        assert_eq!(parse_number(text), number, "{text:?}");
    }
}

#[test]
fn sizes() {
    for (text, size, offset) in [
        ("0", Some(0), Some(0)),
        ("10", Some(10), Some(10)),
        ("8k", Some(8 << 10), Some(8 << 10)),
        ("8K", Some(8 << 10), Some(8 << 10)),
        ("1M", Some(1 << 20), Some(1 << 20)),
        ("2g", None, Some(2 << 30)),
        ("k", None, None),
        ("", None, None),
        ("1 k", None, None),
        ("+1", None, None),
        ("1kk", None, None),
        ("9223372036854775807", Some(i64::MAX as u64), Some(i64::MAX as u64)),
        ("9223372036854775808", None, None),
        ("9223372036854775807k", None, None),
    ] {
        assert_eq!(parse_size(text), size, "{text:?}");
        assert_eq!(parse_offset(text), offset, "{text:?}");
    }
}

#[test]
fn many_problems_end_the_work() {
    let tree = parse_text("foo;".repeat(MAX_PROBLEMS + 50).as_bytes());
    let problems = apply(&tree).0.expect_err("faulty");
    assert_eq!(problems.len(), MAX_PROBLEMS + 1);
}

#[test]
fn a_problem_of_no_directive_comes_after_those_of_the_text() {
    let tree = parse_text(b"http {\n server { foo; } }");
    let mut cx = Cx::new(tree.sources.clone());
    let merged = Problem::new("no \"events\" section in configuration");
    cx.report(Problem::new("first").at_node(&tree.nodes[0])).expect("there is room");
    let problems = cx.conclude::<()>(Err(merged), Some(Problem::new("syntax"))).expect_err("faulty");
    let messages: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["first", "syntax", "no \"events\" section in configuration"]);
    assert!(!cx.has_problems(), "the next application starts without problems");
}

#[test]
fn names_are_unique_in_a_context() {
    static TWICE: &[Directive] = &[Directive::structural("sendfile", Contexts::HTTP, Shape::exactly(0, ""), "Twice.")];
    static OTHER: &[Directive] = &[Directive::structural("sendfile", Contexts::STREAM, Shape::exactly(0, ""), "Else.")];
    assert!(Registry::new(&[group::<FileSettings>()], TWICE).is_err());
    assert!(Registry::new(&[group::<FileSettings>()], OTHER).is_ok());
    assert!(Registry::new(&[group::<FileSettings>(), group::<FileSettings>()], &[]).is_err());
}

#[test]
fn three_thousand_servers_stay_small() {
    let mut text = String::from("http {\n");
    for index in 0..3_000 {
        text.push_str(&format!("server {{ listen 80; server_name s{index}; location / {{ root /srv/{index}; }} }}\n"));
    }
    text.push('}');
    let built = built(&text);
    assert_eq!(built.len(), 2 + 2 * 3_000);
    let http = at(&built, "/http").share::<RewriteSettings>();
    // One reference is in `main`'s own set, and all others are shared: the default in the set, and this handle.
    assert!(Arc::strong_count(&http) >= 3_000);
}
