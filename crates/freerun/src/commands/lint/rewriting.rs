//! Rules about `return`, `rewrite` and `if`, and about the path after its escapes were resolved.

use freerun_conf::{Contexts, Node};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};
use super::texts::{ValueQuestion, is_decoded};

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "decoded-path-in-redirect",
        level: RuleLevel::Error,
        summary: "`$uri`, `$document_uri` or a group that may match a line break in a redirect",
        reason: "They have the path after its escapes were resolved. `%3F` and `%23` lead to another address, and `%0d%0a` begins a \
                 new field of the response in nginx; freerun sends spaces instead.",
        fix: "Write `$request_uri`, or a group that matches no line break: `[^/\\s]+`.",
        context: Contexts::SERVER,
        bad: "return 301 https://www.example.com$uri;",
        good: "return 301 https://www.example.com$request_uri;",
        check: redirects,
    },
    LintRule {
        name: "decoded-path-in-field",
        level: RuleLevel::Error,
        summary: "`$uri`, `$document_uri` or a group that may match a line break in a field",
        reason: "They have the path after its escapes were resolved: with `%0d%0a` a client begins a new field in nginx; freerun \
                 sends spaces instead.",
        fix: "Write `$request_uri`, or a group that matches no line break: `[^/\\s]+`.",
        context: Contexts::SERVER,
        bad: "add_header X-Path $uri;",
        good: "add_header X-Path $request_uri;",
        check: fields,
    },
    LintRule {
        name: "decoded-path-to-upstream",
        level: RuleLevel::Error,
        summary: "`$uri`, `$document_uri` or a group that may match a line break in `proxy_pass`",
        reason: "The path after its escapes were resolved is sent as it is, so an escaped `?` begins the arguments. nginx sends line \
                 breaks, too, with which a client writes a request of its own.",
        fix: "Leave the path out, `proxy_pass http://app;`, or write `$request_uri`.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    proxy_pass http://127.0.0.1:81$uri;\n}",
        good: "location /a/ {\n    proxy_pass http://127.0.0.1:81$request_uri;\n}",
        check: upstream_paths,
    },
    LintRule {
        name: "after-return",
        level: RuleLevel::Warning,
        summary: "`set`, `if`, `rewrite` or `return` behind a `return` of the same block",
        reason: "`return` ends the block, so what is behind it never runs.",
        fix: "Remove it, or move it in front of the `return`.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    return 404;\n    set $a 1;\n}",
        good: "location /a/ {\n    set $a 1;\n    return 404;\n}",
        check: after_return,
    },
    LintRule {
        name: "if-in-location",
        level: RuleLevel::Warning,
        summary: "`if` in a location with anything but `return`, `rewrite`, `set` and `break`",
        reason: "The block of the last `if` that is true takes the place of the location: blocks before it have no effect, and some \
                 directives of the location itself are lost.",
        fix: "Compute a value with `map`, and use the variable; or `return` from the `if`.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    if ($arg_a) {\n        add_header X-A $arg_a;\n    }\n}",
        good: "location /a/ {\n    add_header X-A $arg_a;\n}",
        check: conditions,
    },
    LintRule {
        name: "if-with-try-files",
        level: RuleLevel::Warning,
        summary: "`if` beside `try_files`",
        reason: "`try_files` does not run where the condition is true, even if the block only sets a variable.",
        fix: "Compute the value with `map`, or `return` from the `if`.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    if ($arg_a) {\n        set $b 1;\n    }\n    try_files $uri /none;\n}",
        good: "location /a/ {\n    set $b $arg_a;\n    try_files $uri /none;\n}",
        check: conditions_beside_try_files,
    },
];

/// The question whether a client puts a line break, or an escape that was resolved, into a value.
fn decoded(is_capture: bool) -> ValueQuestion<'static> {
    if is_capture {
        ValueQuestion { variable: &is_decoded, group: &|bytes| bytes.has(b'\n') }
    } else {
        ValueQuestion { variable: &is_decoded, group: &|_| false }
    }
}

fn redirects(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.blocks[at].children {
            // What a rewrite itself has matched gets its escapes again.
            let (text, captures) = match (node.name.text.as_str(), node.args.as_slice()) {
                ("return", [code, url]) if code.text.starts_with('3') => (url, true),
                ("return", [url]) if url.text.contains('$') => (url, true),
                ("rewrite", [_, url, flag]) if matches!(flag.as_str(), "redirect" | "permanent") => (url, false),
                ("rewrite", [_, url])
                    if ["http://", "https://", "$scheme"].iter().any(|begin| url.text.starts_with(begin)) =>
                {
                    (url, false)
                }
                _ => continue,
            };
            if let Some(name) = tree.find_variable(at, &text.text, &decoded(captures)) {
                findings.at_word(
                    text,
                    format!("a client chooses what ${name} adds to the redirect: its escapes are resolved"),
                );
            }
        }
    }
}

/// Directives whose last values go into fields, with the number of words before these.
const FIELDS: [(&str, usize); 5] =
    [("add_header", 1), ("add_trailer", 1), ("proxy_set_header", 1), ("grpc_set_header", 1), ("more_set_headers", 0)];

fn fields(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.blocks[at].children {
            let Some((_, skip)) = FIELDS.iter().find(|(name, _)| node.name.text == *name) else { continue };
            for word in node.args.iter().skip(*skip) {
                if let Some(name) = tree.find_variable(at, &word.text, &decoded(true)) {
                    findings.at_word(
                        word,
                        format!("a client chooses what ${name} adds to the field: its escapes are resolved"),
                    );
                }
            }
        }
    }
}

fn upstream_paths(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.own(at, "proxy_pass") {
            if let Some(word) = node.args.first()
                && let Some(name) = tree.find_variable(at, &word.text, &decoded(true))
            {
                findings.at_word(word, format!("${name} sends the path with its escapes resolved"));
            }
        }
    }
}

/// The directives that run in order.
const IN_ORDER: [&str; 5] = ["return", "rewrite", "set", "if", "break"];

fn after_return(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let in_order = tree.blocks[at].children.iter().filter(|node| IN_ORDER.contains(&node.name.text.as_str()));
        let mut behind = in_order.skip_while(|node| node.name.text != "return");
        if let (Some(ends), Some(node)) = (behind.next(), behind.next()) {
            findings.at(node, format!("{} is never reached: {} returns", node.name.text, subject.place_of(ends)));
        }
    }
}

/// Whether the block of an `if` ends the request, or sends it to another location.
fn leaves(children: &[Node]) -> bool {
    children.iter().any(|node| match (node.name.text.as_str(), node.args.as_slice()) {
        ("return", _) => true,
        ("rewrite", [.., flag]) => matches!(flag.as_str(), "last" | "redirect" | "permanent"),
        _ => false,
    })
}

/// Directives that are safe in an `if`: those that run in order, and those that only concern the log and the rate.
const SAFE: [&str; 10] = [
    "return",
    "rewrite",
    "set",
    "break",
    "rewrite_log",
    "access_log",
    "limit_rate",
    "limit_rate_after",
    "set_md5",
    "set_random",
];

/// Directives that give the request to another server.
const PASSES: [&str; 5] = ["proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass"];

fn conditions(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::LOCATION_IF) {
        let children = tree.blocks[at].children;
        let condition = tree.blocks[at].node;
        // The last condition counts, so its block may send the request to another server.
        let is_last =
            tree.blocks[at].parent.and_then(|location| tree.own(location, "if").last()).map(|last| last.order)
                == condition.map(|node| node.order);
        let is_unsafe = |node: &&Node| {
            let name = node.name.as_str();
            !(SAFE.contains(&name) || is_last && PASSES.contains(&name))
        };
        let (Some(node), Some(condition)) = (children.iter().find(is_unsafe), condition) else { continue };
        if !leaves(children) {
            let name = &node.name.text;
            findings.at(
                condition,
                format!("if with {name} takes the place of the location; of several that are true, the last one alone counts"),
            );
        }
    }
}

fn conditions_beside_try_files(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::LOCATION_IF) {
        let beside = tree.blocks[at].parent.and_then(|location| tree.first(location, "try_files"));
        if let (Some(try_files), Some(condition), false) =
            (beside, tree.blocks[at].node, leaves(tree.blocks[at].children))
        {
            findings.at(
                condition,
                format!("where the condition is true, try_files in {} does not run", subject.place_of(try_files)),
            );
        }
    }
}
