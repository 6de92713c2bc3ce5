//! Rules about fields of responses, and about what filters do to bodies.

use freerun_conf::{Contexts, Node};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "field-with-line-break",
        level: RuleLevel::Error,
        summary: "a line break in the value of a field",
        reason: "A field is one line: RFC 9112 has no longer ones, clients refuse them or take the rest for another field.",
        fix: "Write the value on one line; a `set` for each part keeps it readable.",
        context: Contexts::SERVER,
        bad: "add_header Content-Security-Policy \"default-src 'self';\n    img-src *\";",
        good: "add_header Content-Security-Policy \"default-src 'self'; img-src *\";",
        check: line_breaks,
    },
    LintRule {
        name: "content-type-added",
        level: RuleLevel::Warning,
        summary: "`Content-Type` by `add_header`",
        reason: "`add_header` adds a second field beside the one of the response. Clients differ in which of them they believe.",
        fix: "Write `default_type`, with an empty `types { }` where files are served.",
        context: Contexts::SERVER,
        bad: "add_header Content-Type text/plain;",
        good: "default_type text/plain;",
        check: content_types,
    },
    LintRule {
        name: "field-name-with-colon",
        level: RuleLevel::Error,
        summary: "a colon behind the name of a field",
        reason: "The colon is sent as a part of the name, so that clients do not know the field.",
        fix: "Write the name alone.",
        context: Contexts::SERVER,
        bad: "add_header X-Frame-Options: DENY;",
        good: "add_header X-Frame-Options DENY;",
        check: colons,
    },
    LintRule {
        name: "cors-for-everybody",
        level: RuleLevel::Error,
        summary: "`Access-Control-Allow-Origin $http_origin` with credentials",
        reason: "Every page on the internet may read the responses with the cookies of its visitor.",
        fix: "List the origins in a `map` of `$http_origin`, with an empty default, and send its variable.",
        context: Contexts::SERVER,
        bad: "add_header Access-Control-Allow-Origin $http_origin;\nadd_header Access-Control-Allow-Credentials true;",
        good: "add_header Access-Control-Allow-Origin https://app.example.com;\nadd_header Access-Control-Allow-Credentials true;",
        check: reflected_origins,
    },
    LintRule {
        name: "sub-filter-compressed",
        level: RuleLevel::Warning,
        summary: "`sub_filter` for responses that the upstream server may compress",
        reason: "The text of a compressed response is not found, so nothing is replaced in it.",
        fix: "Add `proxy_set_header Accept-Encoding \"\";`.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    sub_filter a b;\n    proxy_pass http://127.0.0.1:81;\n}",
        good: "location /a/ {\n    sub_filter a b;\n    proxy_set_header Accept-Encoding \"\";\n    proxy_pass http://127.0.0.1:81;\n}",
        check: compressed_text,
    },
    LintRule {
        name: "gzip-of-compressed",
        level: RuleLevel::Warning,
        summary: "`gzip_types` or `brotli_types` with files that are compressed already",
        reason: "It takes time of the processor, and the result is not smaller.",
        fix: "Leave the types of pictures, films, archives and WOFF out.",
        context: Contexts::SERVER,
        bad: "gzip_types text/css image/png;",
        good: "gzip_types text/css image/svg+xml;",
        check: compressed_types,
    },
];

/// The fields that a directive sets, as pairs of a node and its words.
fn of_responses<'t>(subject: &Subject<'t>, at: usize) -> impl Iterator<Item = &'t Node> + 't {
    subject.tree.blocks[at].children.iter().filter(|node| matches!(node.name.as_str(), "add_header" | "add_trailer"))
}

fn line_breaks(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.blocks[at].children {
            let is_field = node.name.text.starts_with("more_set_") || node.name.text.ends_with("_set_header");
            if is_field || matches!(node.name.as_str(), "add_header" | "add_trailer") {
                // Behind -t and -s stand types and statuses.
                let before = std::iter::once("").chain(node.args.iter().map(|word| word.as_str()));
                let values = node.args.iter().zip(before).filter(|(_, before)| !matches!(*before, "-t" | "-s"));
                for (word, _) in values.filter(|(word, _)| word.text.contains(['\n', '\r'])) {
                    findings.at_word(word, format!("the value for {} has a line break", node.name.text));
                }
            }
        }
    }
}

fn content_types(subject: &Subject<'_>, findings: &mut FaultList) {
    for at in subject.tree.of_http() {
        let all: Vec<&Node> = of_responses(subject, at).collect();
        for node in all.iter().filter(|node| node.arg(0).is_some_and(|name| name.eq_ignore_ascii_case("content-type")))
        {
            // Where the field of the upstream server is hidden, there is one alone.
            let hides = ["proxy_hide_header", "fastcgi_hide_header"].iter().any(|hide| {
                subject
                    .tree
                    .own(at, hide)
                    .any(|node| node.arg(0).is_some_and(|name| name.eq_ignore_ascii_case("content-type")))
            });
            if !hides {
                findings.at(node, "add_header makes a second Content-Type");
            }
        }
    }
}

fn colons(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.blocks[at].children {
            if matches!(node.name.as_str(), "add_header" | "proxy_set_header" | "grpc_set_header" | "proxy_hide_header")
                && let Some(word) = node.args.first().filter(|word| word.text.ends_with(':'))
            {
                findings.at_word(word, format!("the colon is taken for a part of the name \"{}\"", word.text));
            }
        }
    }
}

fn reflected_origins(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let value = |name: &str| {
            of_responses(subject, at).find(|node| node.arg(0).is_some_and(|field| field.eq_ignore_ascii_case(name)))
        };
        let (Some(origin), Some(credentials)) =
            (value("access-control-allow-origin"), value("access-control-allow-credentials"))
        else {
            continue;
        };
        let is_checked = tree.around(at).any(|level| {
            tree.blocks[level].node.is_some_and(|node| {
                node.name.text == "if" && node.args.iter().any(|word| word.text.contains("$http_origin"))
            }) || tree.own(level, "if").any(|node| node.args.iter().any(|word| word.text.contains("$http_origin")))
        });
        if origin.arg(1) == Some("$http_origin") && credentials.arg(1) == Some("true") && !is_checked {
            findings.at(origin, "every page may read the responses with the cookies of its visitor");
        }
    }
}

fn compressed_text(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::LOCATION) {
        let Some(filter) = tree.first(at, "sub_filter").or_else(|| tree.first(at, "subs_filter")) else { continue };
        let is_cleared = tree.level_of(at, "proxy_set_header").is_some_and(|level| {
            let mut fields = tree.own(level, "proxy_set_header");
            fields.any(|node| node.arg(0).is_some_and(|name| name.eq_ignore_ascii_case("accept-encoding")))
        });
        if tree.has(at, &["proxy_pass"]) && !is_cleared && !tree.is_set(at, "gunzip", "on") {
            findings
                .at(filter, format!("{} replaces nothing in what the upstream server compresses", filter.name.text));
        }
    }
}

/// Whether what has a type is compressed already.
fn is_compressed(word: &str) -> bool {
    ["image/jpeg", "image/jpg", "image/png", "image/gif", "image/webp", "image/avif", "video/", "audio/mp", "audio/ogg"]
        .iter()
        .any(|begin| word.starts_with(begin))
        || matches!(
            word,
            "application/zip"
                | "application/gzip"
                | "application/x-gzip"
                | "application/pdf"
                | "font/woff"
                | "font/woff2"
        )
        || matches!(
            word,
            "application/font-woff"
                | "application/font-woff2"
                | "application/x-font-woff"
                | "application/x-7z-compressed"
        )
}

fn compressed_types(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.own(at, "gzip_types").chain(tree.own(at, "brotli_types")).chain(tree.own(at, "zstd_types")) {
            let found: Vec<&str> =
                node.args.iter().map(|word| word.as_str()).filter(|word| is_compressed(word)).collect();
            if !found.is_empty() {
                findings.at(node, format!("compressed already: {}", found.join(", ")));
            }
        }
    }
}
