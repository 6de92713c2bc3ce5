//! Rules about limits, caches, logs and groups of servers: what is defined and does nothing.

use std::collections::HashMap;

use freerun_conf::{Contexts, Node};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};
use super::texts::variables;

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "limit-by-claim",
        level: RuleLevel::Error,
        summary: "a limit by a field in which the client says who it is",
        reason: "A client that writes another `X-Forwarded-For` into each request is never limited, and fills the zone.",
        fix: "Write `$binary_remote_addr`; behind a proxy, `set_real_ip_from` and `real_ip_header` give it the address of the client.",
        context: Contexts::HTTP,
        bad: "limit_req_zone $http_x_forwarded_for zone=a:1m rate=1r/s;\nserver {\n    limit_req zone=a;\n}",
        good: "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;\nserver {\n    limit_req zone=a;\n}",
        check: claimed_keys,
    },
    LintRule {
        name: "zone-unused",
        level: RuleLevel::Warning,
        summary: "a zone of a limit or a cache that nothing uses",
        reason: "The zone alone limits and stores nothing.",
        fix: "Write `limit_req`, `limit_conn` or `proxy_cache` where it is to hold, or remove the zone.",
        context: Contexts::HTTP,
        bad: "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;",
        good: "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;\nserver {\n    limit_req zone=a;\n}",
        check: unused_zones,
    },
    LintRule {
        name: "upstream-unused",
        level: RuleLevel::Warning,
        summary: "an `upstream` that nothing names",
        reason: "Requests go elsewhere; the name is often written in another way in `proxy_pass`.",
        fix: "Name it in `proxy_pass`, or remove it.",
        context: Contexts::HTTP,
        bad: "upstream app {\n    server 127.0.0.1:81;\n}",
        good: "upstream app {\n    server 127.0.0.1:81;\n}\nserver {\n    location / {\n        proxy_pass http://app;\n    }\n}",
        check: unused_upstreams,
    },
    LintRule {
        name: "cached-cookie",
        level: RuleLevel::Error,
        summary: "responses with `Set-Cookie` are stored",
        reason: "With `proxy_ignore_headers Set-Cookie` a cookie that was made for one visitor is stored, and given to all others: they \
                 are logged in as that one.",
        fix: "Add `proxy_hide_header Set-Cookie;`, or do not store such responses.",
        context: Contexts::HTTP,
        bad: "proxy_cache_path /var/cache/a keys_zone=a:1m;\nserver {\n    location / {\n        proxy_cache a;\n        proxy_ignore_headers Set-Cookie;\n        proxy_pass http://127.0.0.1:81;\n    }\n}",
        good: "proxy_cache_path /var/cache/a keys_zone=a:1m;\nserver {\n    location / {\n        proxy_cache a;\n        proxy_ignore_headers Set-Cookie;\n        proxy_hide_header Set-Cookie;\n        proxy_pass http://127.0.0.1:81;\n    }\n}",
        check: cached_cookies,
    },
    LintRule {
        name: "cache-without-buffering",
        level: RuleLevel::Warning,
        summary: "`proxy_cache` with `proxy_buffering off`",
        reason: "Only responses that are buffered are stored, so the cache stays empty.",
        fix: "Remove `proxy_buffering off`.",
        context: Contexts::HTTP,
        bad: "proxy_cache_path /var/cache/a keys_zone=a:1m;\nserver {\n    location / {\n        proxy_cache a;\n        proxy_buffering off;\n        proxy_pass http://127.0.0.1:81;\n    }\n}",
        good: "proxy_cache_path /var/cache/a keys_zone=a:1m;\nserver {\n    location / {\n        proxy_cache a;\n        proxy_pass http://127.0.0.1:81;\n    }\n}",
        check: unbuffered_caches,
    },
    LintRule {
        name: "error-log-off",
        level: RuleLevel::Warning,
        summary: "`error_log off`",
        reason: "`off` is the name of a file here, which grows in the folder of the prefix.",
        fix: "Write `error_log /dev/null emerg;`.",
        context: Contexts::HTTP,
        bad: "error_log off;",
        good: "error_log /dev/null emerg;",
        check: logs_named_off,
    },
];

/// Whether a variable is a field in which proxies name the client.
fn is_claim(name: &str) -> bool {
    matches!(
        name,
        "http_x_forwarded_for"
            | "proxy_add_x_forwarded_for"
            | "http_x_real_ip"
            | "http_forwarded"
            | "http_client_ip"
            | "http_x_client_ip"
            | "http_user_agent"
            | "http_referer"
    )
}

fn claimed_keys(subject: &Subject<'_>, findings: &mut FaultList) {
    subject.tree.each(|node| {
        if matches!(node.name.as_str(), "limit_req_zone" | "limit_conn_zone")
            && let Some(word) = node.args.first()
        {
            let names: Vec<&str> = variables(&word.text).collect();
            if let Some(name) = names.iter().find(|name| is_claim(name))
                && !names.iter().any(|name| name.ends_with("remote_addr"))
            {
                findings.at_word(word, format!("a client that changes ${name} with each request is never limited"));
            }
        }
    });
}

/// The number of times that each name stands in a word of the configuration.
struct NameCounts<'t>(HashMap<&'t str, usize>);

/// The names in a word: what stands between signs that no name of a zone or group has.
fn names(word: &str) -> impl Iterator<Item = &str> {
    word.split(|letter: char| !letter.is_alphanumeric() && !"_-.".contains(letter)).filter(|name| !name.is_empty())
}

impl<'t> NameCounts<'t> {
    fn of(subject: &Subject<'t>) -> Self {
        let mut counts = HashMap::new();
        subject.tree.each(|node| {
            for name in std::iter::once(&node.name).chain(&node.args).flat_map(|word| names(&word.text)) {
                *counts.entry(name).or_default() += 1;
            }
        });
        NameCounts(counts)
    }

    /// Whether another directive than this one names it. A name with other signs counts as named.
    fn has_other(&self, name: &str, by: &Node) -> bool {
        let own = by.args.iter().flat_map(|word| names(&word.text)).filter(|other| *other == name).count();
        own == 0 || self.0.get(name).is_some_and(|count| *count > own)
    }
}

fn unused_zones(subject: &Subject<'_>, findings: &mut FaultList) {
    let counts = NameCounts::of(subject);
    subject.tree.each(|node| {
        let key = match node.name.as_str() {
            "limit_req_zone" | "limit_conn_zone" => "zone=",
            name if name.ends_with("_cache_path") => "keys_zone=",
            _ => return,
        };
        let zone = node.args.iter().find_map(|word| Some((word, word.text.strip_prefix(key)?.split(':').next()?)));
        if let Some((word, zone)) = zone.filter(|(_, zone)| !counts.has_other(zone, node)) {
            findings.at_word(word, format!("nothing uses the zone \"{zone}\""));
        }
    });
}

fn unused_upstreams(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    let counts = NameCounts::of(subject);
    for at in tree.of(Contexts::UPSTREAM | Contexts::STREAM_UPSTREAM) {
        if let Some(node) = tree.blocks[at].node
            && let Some(word) = node.args.first().filter(|word| !counts.has_other(&word.text, node))
        {
            findings.at_word(word, format!("nothing names the upstream \"{}\"", word.text));
        }
    }
}

fn cached_cookies(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for family in ["proxy", "fastcgi", "uwsgi", "scgi"] {
        let (ignore, hide, cache) =
            (format!("{family}_ignore_headers"), format!("{family}_hide_header"), format!("{family}_cache"));
        let is_cookie = |node: &Node| node.args.iter().any(|word| word.text.eq_ignore_ascii_case("set-cookie"));
        for at in tree.of_http() {
            let Some(level) = tree.level_of(at, &ignore) else { continue };
            let Some(node) = tree.own(level, &ignore).find(|node| is_cookie(node)) else { continue };
            let stores = tree.in_force(at, &cache).is_some_and(|node| node.arg(0) != Some("off"));
            let hides = tree.level_of(at, &hide).is_some_and(|level| tree.own(level, &hide).any(is_cookie));
            // Requests and responses with cookies may be kept out of the cache by a condition.
            let has_condition = [format!("{family}_no_cache"), format!("{family}_cache_bypass")]
                .iter()
                .any(|name| tree.in_force(at, name).is_some());
            if stores && !hides && !has_condition && tree.has(at, &[&format!("{family}_pass")]) {
                findings.at(node, "a cookie of one visitor is stored and given to all others");
            }
        }
    }
}

fn unbuffered_caches(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for family in ["proxy", "fastcgi", "uwsgi", "scgi"] {
        let (cache, buffering) = (format!("{family}_cache"), format!("{family}_buffering"));
        for at in tree.of_http().filter(|at| tree.has(*at, &[&format!("{family}_pass")])) {
            let cache = tree.in_force(at, &cache).filter(|node| node.arg(0) != Some("off"));
            if let (Some(cache), true) = (cache, tree.is_set(at, &buffering, "off")) {
                findings.at(cache, format!("nothing is stored with {buffering} off"));
            }
        }
    }
}

fn logs_named_off(subject: &Subject<'_>, findings: &mut FaultList) {
    subject.tree.each(|node| {
        if node.name.text == "error_log"
            && let Some(word) = node.args.first().filter(|word| word.text == "off")
        {
            findings.at_word(word, "the errors go to a file with the name \"off\"");
        }
    });
}
