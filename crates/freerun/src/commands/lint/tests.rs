//! Tests of the rules: an example of each that is found, and one that is not.

use std::collections::BTreeSet;

use freerun_conf::{Contexts, OneText, parse};
use freerun_serve::configuration::zones::Zones;
use freerun_serve::tls::files::{KnownFile, SecretFiles};

use super::machine::Machine;
use super::rule::LintRule;
use super::{find, rules};
use crate::configuration::{KnownFacts, Side, read_after};
use crate::source::Input;

/// A machine on which everybody may read one key.
pub struct OpenKey;

impl Machine for OpenKey {
    fn mode(&self, path: &str) -> Option<u32> {
        Some(if path == "open.key" { 0o644 } else { 0o600 })
    }
}

/// A whole configuration with the text in the block.
fn whole(context: Contexts, text: &str) -> String {
    match context {
        Contexts::HTTP => format!("events {{ }}\nhttp {{\n{text}\n}}\n"),
        Contexts::SERVER => format!("events {{ }}\nhttp {{\nserver {{\n{text}\n}}\n}}\n"),
        _ => format!("events {{ }}\n{text}\n"),
    }
}

/// The names of the rules that find something, with the lines.
fn found(text: &str) -> Vec<(&'static str, u32)> {
    let tree = parse("a.conf", None, "", &mut OneText(text));
    assert!(tree.error.is_none(), "{text}\n{:?}", tree.error);
    find(&tree.nodes, &tree.sources, &OpenKey).iter().map(|finding| (finding.rule.name, finding.place.line)).collect()
}

/// The names alone.
fn names(text: &str) -> BTreeSet<&'static str> {
    found(text).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn each_rule_finds_its_bad_example_and_no_rule_a_good_one() {
    for LintRule { name, context, bad, good, .. } in rules::all() {
        assert_eq!(names(&whole(*context, bad)), BTreeSet::from([*name]), "{bad}");
        assert_eq!(names(&whole(*context, good)), BTreeSet::new(), "{name}: {good}");
    }
}

/// Texts of a server with the lines of what a rule finds in them, besides the examples of the table.
const CASES: &[(&str, &str, &[u32])] = &[
    // The level that counts is the nearest one with the directive; fields of caching differ on purpose.
    ("add-header-lost", "add_header Cache-Control no-store;\nlocation /a/ {\n add_header X-A b;\n}", &[]),
    ("add-header-lost", "add_header X-A b;\nlocation /a/ {\n add_header x-a c;\n}", &[]),
    ("add-header-lost", "add_header X-A b;\nlocation /a/ {\n add_header X-B c;\n return 204;\n}", &[]),
    (
        "add-header-lost",
        "add_header X-A b;\nlocation /a/ {\n if ($arg_a) {\n add_header X-B c;\n return 403;\n }\n}",
        &[7],
    ),
    ("set-header-lost", "proxy_set_header X-A b;\nlocation /a/ {\n proxy_set_header X-B c;\n}", &[]),
    ("allow-without-deny", "satisfy any;\nallow 10.0.0.0/8;\nauth_basic a;", &[]),
    ("allow-without-deny", "deny all;\nlocation /a/ {\n allow 10.0.0.1;\n}", &[6]),
    ("access-after-return", "location /a/ {\n deny all;\n return 403;\n}", &[]),
    ("access-after-return", "location /a/ {\n auth_basic a;\n rewrite ^ /b redirect;\n}", &[6]),
    ("status-open", "listen 127.0.0.1:81;\nlocation /a {\n stub_status;\n}", &[]),
    ("decoded-path-in-redirect", "location ~ ^/a/([^/]+)$ {\n return 302 /b/$1;\n}", &[5]),
    ("decoded-path-in-redirect", "location ~ ^/a/([^/\\s]+)$ {\n return 302 /b/$1;\n}", &[]),
    ("decoded-path-in-redirect", "set $a $uri;\nrewrite ^ http://b$a permanent;", &[5]),
    ("decoded-path-in-redirect", "rewrite ^/a/([^/]+)$ /b/$1 redirect;", &[]),
    (
        "if-in-location",
        "location /a/ {\n if (!-f $request_filename) {\n proxy_pass http://127.0.0.1:81;\n break;\n }\n}",
        &[],
    ),
    ("client-chooses-upstream", "location ~ ^/a/(.+)/(.*)$ {\n proxy_pass http://$1/$2;\n}", &[5]),
    ("client-chooses-upstream", "location ~ ^/a/(b|c)/(.*)$ {\n proxy_pass http://$1/$2;\n}", &[]),
    ("client-chooses-upstream", "set $a $arg_b;\nlocation /a/ {\n proxy_pass http://x.$a;\n}", &[6]),
    ("client-chooses-upstream", "server_name a.example;\nlisten 81;\nlocation / {\n proxy_pass http://$host;\n}", &[7]),
    ("proxy-pass-slash", "location /a {\n proxy_pass http://127.0.0.1:81/;\n}", &[5]),
    ("proxy-pass-slash", "location / {\n proxy_pass http://127.0.0.1:81;\n}", &[]),
    ("resolver-missing", "location / {\n set $a 127.0.0.1:81;\n proxy_pass http://$a;\n}", &[]),
    ("resolver-external", "ssl_stapling on;\nresolver 8.8.8.8;", &[]),
    ("origin-pattern", "if ($http_origin ~ '^https://a.example.com$') {\n set $a 1;\n}", &[4]),
    ("origin-pattern", "if ($http_referer ~ spam\\.example) {\n return 403;\n}", &[]),
    ("origin-pattern", "if ($http_referer !~ good\\.example) {\n return 403;\n}", &[4]),
    ("pattern-end", "location ~ \\.(sql|sh) {\n deny all;\n}", &[]),
    ("referer-none", "location ~ \\.(jpg|png)$ {\n valid_referers none server_names;\n}", &[]),
    ("alias-traversal", "location ~ ^/a {\n alias /srv/;\n}", &[]),
    ("root-missing", "root /srv;\nlocation / {\n root /a;\n}\nlocation /b {\n}", &[]),
    ("location-unreachable", "location ~ \\.a$ {\n}\nlocation ~ \\.a$ {\n}", &[6]),
    ("location-unreachable", "location ^~ / {\n}\nlocation ~ \\.a$ {\n}\nlocation /b {\n}", &[]),
    ("pattern-dot", "location ~ ^/index.php$ {\n}", &[]),
    ("pattern-end", "location ~ \\.php {\n fastcgi_split_path_info ^(.+\\.php)(/.+)$;\n}", &[]),
    ("regex-exponential", "if ($http_user_agent ~ ^(a+)+$) {\n return 403;\n}", &[4]),
    ("merge-slashes-off", "merge_slashes off;\nlocation / {\n deny all;\n}", &[]),
    ("server-name-odd", "server_name a.example:81;", &[4]),
    ("server-name-odd", "server_name ~^(www\\.)?a$ *.b.example [::1] \"\" $hostname;", &[]),
    ("listen-without-ssl", "listen 80;\nssl_certificate a.crt;", &[5]),
    ("ssl-ciphers-weak", "ssl_ciphers HIGH:!aNULL:!MD5:+3DES;", &[]),
];

/// The first problem that the program has with an example.
fn problem(text: &str) -> Option<String> {
    let input = Input {
        conf: "a.conf".to_owned(),
        globals: None,
        prefix: String::new(),
        conf_prefix: String::new(),
        error_log: "stderr".to_owned(),
        privileged: true,
    };
    let file = |path: &str, contents: &[u8]| (path.to_owned(), KnownFile::read(contents.to_vec(), None));
    let key = include_bytes!("../../../../tls/tests/fixtures/ec.key");
    let secrets = SecretFiles::from_iter([
        file("a.crt", include_bytes!("../../../../tls/tests/fixtures/ec.crt")),
        file("a.key", key),
        file("open.key", key),
    ]);
    let known = KnownFacts { secrets, ..KnownFacts::default() };
    let failure = read_after(&input, &mut OneText(text), Side::Worker, known, Zones::default()).err()?;
    Some(failure.problems.render(&failure.sources, ""))
}

#[test]
fn examples_are_configurations_that_are_accepted() {
    let mut wrong = String::new();
    for LintRule { name, context, bad, good, .. } in rules::all() {
        for text in [bad, good] {
            wrong += &problem(&whole(*context, text)).map(|problem| format!("{name}: {problem}")).unwrap_or_default();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn cases_beside_the_examples_are_judged() {
    for (rule, text, lines) in CASES {
        let found: Vec<u32> = found(&whole(Contexts::SERVER, text))
            .into_iter()
            .filter(|(name, _)| name == rule)
            .map(|(_, line)| line)
            .collect();
        assert_eq!(found, *lines, "{rule}: {text}");
    }
}

#[test]
fn names_and_texts_of_rules_have_their_form() {
    let mut seen = BTreeSet::new();
    for LintRule { name, summary, reason, fix, .. } in rules::all() {
        assert!(seen.insert(*name), "{name} is there twice");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name}");
        assert!(crate::configuration::registry().named(name).next().is_none(), "{name} is a directive, too");
        assert!(!summary.ends_with('.') && reason.ends_with('.') && fix.ends_with('.'), "{name}");
    }
    assert!(seen.len() >= 30, "{}", seen.len());
}

#[test]
fn comments_silence_rules() {
    let lines = |text: &str| found(text).into_iter().map(|(_, line)| line).collect::<Vec<_>>();
    let text = |first: &str, second: &str, third: &str| {
        format!("{first}\nevents {{ }}\nhttp {{\n{second}\nerror_log off;{third}\nerror_log off;\n}}\n")
    };
    assert_eq!(lines(&text("", "", "")), [5, 6]);
    assert_eq!(lines(&text("", "# lint: allow error-log-off it is meant", "")), [6]);
    assert_eq!(lines(&text("", "# lint: allow error-log-off\n# a further comment", "")), [7]);
    assert_eq!(lines(&text("", "", " # lint: allow zone-unused, error-log-off")), [6]);
    assert_eq!(lines(&text("# lint: allow error-log-off: legacy", "", "")), [0; 0]);
    assert_eq!(lines(&text("", "# lint: allow zone-unused", "")), [5, 6]);
    let found = found(&text("# lint: allow eror-log-off\n# lint: forbid x", "", ""));
    assert_eq!(found[..2], [("lint-comment", 1), ("lint-comment", 2)]);
}
