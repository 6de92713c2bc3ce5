//! Rules about access that is open though a directive seems to restrict it.

use freerun_conf::{Contexts, Node};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "allow-without-deny",
        level: RuleLevel::Error,
        summary: "`allow` without a `deny` beside it",
        reason: "Who no rule speaks of is let in, so `allow` alone restricts nothing. The rules of a level replace those of the \
                 level around it, so a `deny` there does not count.",
        fix: "Write `deny all;` behind the last `allow`.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    allow 10.0.0.0/8;\n}",
        good: "location /a/ {\n    allow 10.0.0.0/8;\n    deny all;\n}",
        check: allow_without_deny,
    },
    LintRule {
        name: "access-rule-unreachable",
        level: RuleLevel::Warning,
        summary: "`allow` or `deny` behind a rule for `all`",
        reason: "The first rule that fits decides, and `all` fits everybody.",
        fix: "Write the rule for `all` last.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    deny all;\n    allow 10.0.0.0/8;\n}",
        good: "location /a/ {\n    allow 10.0.0.0/8;\n    deny all;\n}",
        check: rule_behind_all,
    },
    LintRule {
        name: "access-after-return",
        level: RuleLevel::Error,
        summary: "`return` or a redirect beside `auth_basic`, `allow`, `deny` or another restriction",
        reason: "`return` and `rewrite` run before access is looked at: everybody gets the response.",
        fix: "Put the `return` into a named location that `try_files` or `error_page` leads to, or serve the text from a file.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    allow 10.0.0.0/8;\n    deny all;\n    return 200 secret;\n}",
        good: "location /a/ {\n    allow 10.0.0.0/8;\n    deny all;\n    try_files /none @a;\n}\nlocation @a {\n    return 200 secret;\n}",
        check: access_after_return,
    },
    LintRule {
        name: "limit-except-open",
        level: RuleLevel::Error,
        summary: "`limit_except` that denies nothing",
        reason: "The block is what holds for the other methods; without a `deny` or an authentication in it they are allowed.",
        fix: "Write `deny all;` into the block.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    limit_except GET { }\n}",
        good: "location /a/ {\n    limit_except GET {\n        deny all;\n    }\n}",
        check: limit_except_open,
    },
    LintRule {
        name: "auth-without-users",
        level: RuleLevel::Error,
        summary: "`auth_basic` without `auth_basic_user_file`",
        reason: "Without a file of users nobody is asked for a password, and everybody is let in.",
        fix: "Name the file: `auth_basic_user_file users;`.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    auth_basic closed;\n}",
        good: "location /a/ {\n    auth_basic closed;\n    auth_basic_user_file users;\n}",
        check: auth_without_users,
    },
    LintRule {
        name: "api-open",
        level: RuleLevel::Error,
        summary: "`api write=on` that everybody may use",
        reason: "A client changes the servers of groups, purges caches and reads paths of the machine.",
        fix: "Write `allow` and `deny all;`, or an authentication, into the location, or listen on loopback only.",
        context: Contexts::SERVER,
        bad: "listen 8080;\nlocation /api/ {\n    api write=on;\n}",
        good: "listen 8080;\nlocation /api/ {\n    api write=on;\n    allow 127.0.0.1;\n    deny all;\n}",
        check: |subject, findings| open_status(subject, findings, &["api"], true),
    },
    LintRule {
        name: "status-open",
        level: RuleLevel::Warning,
        summary: "`status`, `stub_status` or `api` that everybody may read",
        reason: "The answer shows the load, and that of `status` and `api` names servers, files and paths of the machine.",
        fix: "Write `allow` and `deny all;`, or an authentication, into the location, or listen on loopback only.",
        context: Contexts::SERVER,
        bad: "listen 8080;\nlocation = /status {\n    stub_status;\n}",
        good: "listen 8080;\nlocation = /status {\n    stub_status;\n    allow 127.0.0.1;\n    deny all;\n}",
        check: |subject, findings| open_status(subject, findings, &["status", "stub_status", "api"], false),
    },
];

/// The contexts with lists of `allow` and `deny`.
const WITH_LISTS: Contexts = Contexts::HTTP
    .union(Contexts::SERVER)
    .union(Contexts::LOCATION)
    .union(Contexts::LIMIT_EXCEPT)
    .union(Contexts::STREAM)
    .union(Contexts::STREAM_SERVER);

/// Directives that ask who the client is.
pub const AUTHENTICATIONS: [&str; 4] = ["auth_basic", "auth_request", "auth_jwt", "auth_require"];

/// Whether a directive restricts access.
fn restricts(node: &Node) -> bool {
    match node.name.text.as_str() {
        "deny" => true,
        "allow" => node.arg(0) != Some("all"),
        name => AUTHENTICATIONS.contains(&name) && node.arg(0) != Some("off"),
    }
}

fn allow_without_deny(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(WITH_LISTS) {
        let allow = tree.own(at, "allow").find(|node| node.arg(0) != Some("all"));
        let has_all = tree.own(at, "allow").any(|node| node.arg(0) == Some("all"));
        if let Some(allow) = allow
            && !has_all
            && !tree.has(at, &["deny"])
            && !tree.is_set(at, "satisfy", "any")
        {
            findings.at(allow, "allow restricts nothing without a deny on the same level");
        }
    }
}

fn rule_behind_all(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(WITH_LISTS) {
        let mut all = None;
        for node in tree.blocks[at].children.iter().filter(|node| matches!(node.name.text.as_str(), "allow" | "deny")) {
            match all {
                Some(all) => {
                    let (name, who) = (&node.name.text, node.arg(0).unwrap_or_default());
                    findings.at(
                        node,
                        format!("{name} {who} is never reached: the rule for all in {} decides", subject.place_of(all)),
                    );
                }
                None if node.arg(0) == Some("all") => all = Some(node),
                None => {}
            }
        }
    }
}

/// Whether a `return` or `rewrite` answers with something that is worth protecting.
fn answers(node: &Node) -> bool {
    match (node.name.text.as_str(), node.arg(0), node.arg(2)) {
        ("return", Some(code), _) => !code.starts_with(['4', '5']),
        ("rewrite", _, Some("redirect" | "permanent")) => true,
        _ => false,
    }
}

fn access_after_return(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::SERVER | Contexts::LOCATION) {
        let children = tree.blocks[at].children;
        let restriction = children.iter().find(|node| restricts(node));
        let answer = children.iter().find(|node| answers(node));
        if let (Some(restriction), Some(answer)) = (restriction, answer) {
            let (name, first) = (&restriction.name.text, &answer.name.text);
            findings
                .at(answer, format!("{first} runs before {name} in {} is looked at", subject.place_of(restriction)));
        }
    }
}

fn limit_except_open(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::LIMIT_EXCEPT) {
        let children = tree.blocks[at].children;
        if let Some(node) = tree.blocks[at].node
            && !children.iter().any(|node| node.name.text != "allow")
        {
            findings.at(node, "limit_except denies nothing: all methods are allowed");
        }
    }
}

fn auth_without_users(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let file = "auth_basic_user_file";
        if let Some(node) = tree.first(at, "auth_basic")
            && node.arg(0) != Some("off")
            && tree.in_force(at, file).is_none()
            && !tree.within(at).any(|inner| tree.has(inner, &[file]))
        {
            findings.at(node, "without auth_basic_user_file everybody is let in");
        }
    }
}

/// Whether nobody but this machine reaches a server.
fn is_local(subject: &Subject<'_>, server: usize) -> bool {
    let mut listens = subject.tree.own(server, "listen").peekable();
    listens.peek().is_some()
        && listens.all(|node| {
            let address = node.arg(0).unwrap_or_default();
            ["127.", "unix:", "[::1]", "localhost"].iter().any(|local| address.starts_with(local))
        })
}

fn open_status(subject: &Subject<'_>, findings: &mut FaultList, names: &[&str], writes: bool) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::SERVER | Contexts::LOCATION) {
        let Some(node) = tree.blocks[at].children.iter().find(|node| names.contains(&node.name.text.as_str())) else {
            continue;
        };
        let is_writable = node.name.text == "api" && node.args.iter().any(|word| word.text == "write=on");
        let is_restricted = tree.around(at).any(|level| tree.blocks[level].children.iter().any(restricts))
            || tree.has(at, &["internal", "secure_link"])
            || tree
                .server(at)
                .is_none_or(|server| is_local(subject, server) || tree.is_set(server, "ssl_verify_client", "on"));
        // A condition may send strangers away.
        let has_condition = tree.within(at).any(|inner| inner != at && tree.has(inner, &["return"]));
        if is_writable == writes && !is_restricted && !has_condition {
            let may = if writes { "change the server" } else { "read this" };
            findings.at(node, format!("everybody who reaches the server may {may} through {}", node.name.text));
        }
    }
}
