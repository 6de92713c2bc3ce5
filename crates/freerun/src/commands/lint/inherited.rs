//! Rules about directives that a level replaces as a whole: one `add_header` on a lower level takes away all of the upper ones.

use freerun_conf::{Contexts, Node};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "add-header-lost",
        level: RuleLevel::Warning,
        summary: "fields of an upper level are lost by an `add_header` on a lower one",
        reason: "A level takes over the fields of the level around it only if it has no `add_header` of its own. Security \
                 fields of the server are missing from a location that adds one field.",
        fix: "Repeat the fields, `include` a file with all of them, or write `add_header_inherit merge;`.",
        context: Contexts::SERVER,
        bad: "add_header X-Content-Type-Options nosniff;\nlocation /a/ {\n    add_header X-Frame-Options DENY;\n}",
        good: "add_header X-Content-Type-Options nosniff;\nlocation /a/ {\n    add_header_inherit merge;\n    add_header X-Frame-Options DENY;\n}",
        check: |subject, findings| lost(subject, findings, &ADD_HEADER),
    },
    LintRule {
        name: "set-header-lost",
        level: RuleLevel::Warning,
        summary: "fields for the upstream server are lost by a `proxy_set_header` or `grpc_set_header` on a lower level",
        reason: "A level takes over the fields of the level around it only if it sets none itself. The application no longer gets \
                 `Host` or the address of the client, and takes each client for the proxy.",
        fix: "Repeat the fields on the lower level, or `include` a file with all of them.",
        context: Contexts::SERVER,
        bad: "proxy_set_header X-Real-IP $remote_addr;\nlocation /a/ {\n    proxy_set_header X-Part a;\n    proxy_pass http://127.0.0.1:81;\n}",
        good: "proxy_set_header X-Real-IP $remote_addr;\nlocation /a/ {\n    proxy_set_header X-Real-IP $remote_addr;\n    proxy_set_header X-Part a;\n    proxy_pass http://127.0.0.1:81;\n}",
        check: |subject, findings| SET_HEADER.iter().for_each(|family| lost(subject, findings, family)),
    },
    LintRule {
        name: "param-lost",
        level: RuleLevel::Warning,
        summary: "parameters of an upper level are lost by a `fastcgi_param`, `uwsgi_param` or `scgi_param` on a lower one",
        reason: "A level takes over the parameters of the level around it only if it has none of its own.",
        fix: "Repeat the parameters on the lower level, or `include` a file with all of them.",
        context: Contexts::SERVER,
        bad: "fastcgi_param SCRIPT_FILENAME /srv$fastcgi_script_name;\nlocation /a/ {\n    fastcgi_param HTTPS on;\n    fastcgi_pass 127.0.0.1:9000;\n}",
        good: "location /a/ {\n    fastcgi_param SCRIPT_FILENAME /srv$fastcgi_script_name;\n    fastcgi_param HTTPS on;\n    fastcgi_pass 127.0.0.1:9000;\n}",
        check: |subject, findings| PARAM.iter().for_each(|family| lost(subject, findings, family)),
    },
    LintRule {
        name: "hide-header-lost",
        level: RuleLevel::Warning,
        summary: "fields that an upper level hides are shown again by a `…_hide_header` on a lower one",
        reason: "A level takes over what the level around it hides only if it hides nothing itself.",
        fix: "Repeat the fields on the lower level.",
        context: Contexts::SERVER,
        bad: "proxy_hide_header X-Powered-By;\nlocation /a/ {\n    proxy_hide_header X-Debug;\n    proxy_pass http://127.0.0.1:81;\n}",
        good: "proxy_hide_header X-Powered-By;\nlocation /a/ {\n    proxy_hide_header X-Powered-By;\n    proxy_hide_header X-Debug;\n    proxy_pass http://127.0.0.1:81;\n}",
        check: |subject, findings| HIDE_HEADER.iter().for_each(|family| lost(subject, findings, family)),
    },
];

/// Directives whose entries a level replaces as a whole.
struct ReplacedList {
    /// The directive.
    directive: &'static str,
    /// The directive that has the lists of all levels count.
    inherit: Option<&'static str>,
    /// The directive without which the list is not used.
    used_by: Option<&'static str>,
    /// The fate of the entries.
    consequence: &'static str,
}

const ADD_HEADER: ReplacedList = ReplacedList {
    directive: "add_header",
    inherit: Some("add_header_inherit"),
    used_by: None,
    consequence: "not sent from here",
};

const fn used_by(directive: &'static str, pass: &'static str, consequence: &'static str) -> ReplacedList {
    ReplacedList { directive, inherit: None, used_by: Some(pass), consequence }
}

const SET_HEADER: [ReplacedList; 2] = [
    used_by("proxy_set_header", "proxy_pass", "not set here"),
    used_by("grpc_set_header", "grpc_pass", "not set here"),
];

const PARAM: [ReplacedList; 3] = [
    used_by("fastcgi_param", "fastcgi_pass", "not set here"),
    used_by("uwsgi_param", "uwsgi_pass", "not set here"),
    used_by("scgi_param", "scgi_pass", "not set here"),
];

const HIDE_HEADER: [ReplacedList; 3] = [
    used_by("proxy_hide_header", "proxy_pass", "not hidden here"),
    used_by("fastcgi_hide_header", "fastcgi_pass", "not hidden here"),
    used_by("uwsgi_hide_header", "uwsgi_pass", "not hidden here"),
];

/// Fields about the time for which a response may be stored: a location that sets another one does it on purpose.
const OF_CACHING: [&str; 3] = ["cache-control", "expires", "pragma"];

/// Statuses whose responses have no content that a field could protect.
const WITHOUT_CONTENT: [&str; 6] = ["204", "301", "302", "303", "307", "308"];

/// The most names that a message has.
const MAX_NAMES: usize = 6;

fn lost(subject: &Subject<'_>, findings: &mut FaultList, list: &ReplacedList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let Some(first) = tree.first(at, list.directive) else { continue };
        let Some(upper) = tree.blocks[at].parent.and_then(|parent| tree.level_of(parent, list.directive)) else {
            continue;
        };
        let merges =
            list.inherit.and_then(|inherit| tree.in_force(at, inherit)).is_some_and(|node| node.arg(0) != Some("on"));
        let returns =
            tree.first(at, "return").and_then(|node| node.arg(0)).is_some_and(|code| WITHOUT_CONTENT.contains(&code));
        let is_used = list.used_by.is_none_or(|pass| {
            tree.within(at).any(|inner| tree.has(inner, &[pass]) && tree.level_of(inner, list.directive) == Some(at))
        });
        if merges || returns || !is_used {
            continue;
        }
        let key = |node: &Node| node.arg(0).unwrap_or_default().to_ascii_lowercase();
        let own: Vec<String> = tree.own(at, list.directive).map(key).collect();
        let mut names: Vec<&str> = Vec::new();
        for node in tree.own(upper, list.directive) {
            let (key, name) = (key(node), node.arg(0).unwrap_or_default());
            if !own.contains(&key) && !OF_CACHING.contains(&key.as_str()) && !names.contains(&name) {
                names.push(name);
            }
        }
        let Some(above) = tree.first(upper, list.directive).filter(|_| !names.is_empty()) else { continue };
        let further = names.len().saturating_sub(MAX_NAMES);
        let mut shown = names[..names.len() - further].join(", ");
        if further > 0 {
            shown += &format!(" and {further} more");
        }
        let is = if names.len() == 1 { "is" } else { "are" };
        let (name, place) = (list.directive, subject.place_of(above));
        findings.at(first, format!("{name} here replaces those of {place}: {shown} {is} {}", list.consequence));
    }
}
