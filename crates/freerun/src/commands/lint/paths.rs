//! Rules about `root`, `alias` and `try_files`: which file a request means.

use freerun_conf::{Contexts, Node};
use freerun_http::build::route_list::content_directives;

use super::rule::{FaultList, LintRule, RuleLevel, Subject};
use crate::configuration::modules;

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "alias-traversal",
        level: RuleLevel::Error,
        summary: "`alias` with a slash at its end in a `location` without one",
        reason: "`/a../x` begins with `/a`, and the rest `../x` leads out of the folder: a client reads what lies beside it.",
        fix: "End the name of the location in a slash, too.",
        context: Contexts::SERVER,
        bad: "location /a {\n    alias /srv/files/;\n}",
        good: "location /a/ {\n    alias /srv/files/;\n}",
        check: traversals,
    },
    LintRule {
        name: "alias-slash",
        level: RuleLevel::Warning,
        summary: "`alias` without a slash at its end in a `location` with one",
        reason: "The rest of the path is appended as it is: `/a/x` means the file `/srv/filesx`.",
        fix: "End the `alias` in a slash, too.",
        context: Contexts::SERVER,
        bad: "location /a/ {\n    alias /srv/files;\n}",
        good: "location /a/ {\n    alias /srv/files/;\n}",
        check: missing_slashes,
    },
    LintRule {
        name: "root-too-wide",
        level: RuleLevel::Error,
        summary: "`root` or `alias` of a folder of the system",
        reason: "Every file below it that the worker may read can be fetched: passwords, keys, the configuration.",
        fix: "Make a folder that holds only what is to be served.",
        context: Contexts::SERVER,
        bad: "root /etc;",
        good: "root /srv/www;",
        check: wide_roots,
    },
    LintRule {
        name: "root-missing",
        level: RuleLevel::Warning,
        summary: "a location that serves files without a `root`, beside others that have one each",
        reason: "A `root` in `location /` is not one of the other locations; those serve the folder `html` of the prefix.",
        fix: "Write the `root` into the `server`.",
        context: Contexts::SERVER,
        bad: "location / {\n    root /srv/www;\n}\nlocation /images/ {\n    expires 1d;\n}",
        good: "root /srv/www;\nlocation / {\n}\nlocation /images/ {\n    expires 1d;\n}",
        check: missing_roots,
    },
    LintRule {
        name: "try-files-loop",
        level: RuleLevel::Warning,
        summary: "`try_files` that ends with `$uri` or `$uri/`",
        reason: "The last word is no file to try but the place where a request goes that has found none: here to itself, in a circle \
                 that ends with 500.",
        fix: "Add `=404`, or the page that answers instead.",
        context: Contexts::SERVER,
        bad: "location / {\n    try_files $uri $uri/;\n}",
        good: "location / {\n    try_files $uri $uri/ =404;\n}",
        check: circles,
    },
];

/// The name of a location that is a prefix.
fn prefix(location: &Node) -> Option<&str> {
    match location.args.as_slice() {
        [prefix] if !prefix.text.starts_with(['@', '~', '=']) => Some(&prefix.text),
        [sign, prefix] if sign.text == "^~" => Some(&prefix.text),
        _ => None,
    }
}

fn traversals(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::LOCATION) {
        let Some(location) = tree.blocks[at].node else { continue };
        let Some(alias) = tree.first(at, "alias").and_then(|node| node.args.first()) else { continue };
        if let Some(prefix) = prefix(location).filter(|prefix| !prefix.ends_with('/'))
            && alias.text.ends_with('/')
        {
            findings.at(location, format!("\"{prefix}../\" leads out of {}", alias.text));
        }
    }
}

fn missing_slashes(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::LOCATION) {
        let Some(location) = tree.blocks[at].node else { continue };
        let Some(alias) = tree.first(at, "alias").and_then(|node| node.args.first()) else { continue };
        if let Some(prefix) = prefix(location).filter(|prefix| prefix.ends_with('/') && prefix.len() > 1)
            && !alias.text.ends_with('/')
            && !alias.text.contains('$')
        {
            findings.at_word(alias, format!("{prefix}x means the file {}x", alias.text));
        }
    }
}

/// Folders whose contents are not meant for clients.
const OF_SYSTEM: [&str; 12] = [
    "/",
    "/etc",
    "/etc/nginx",
    "/etc/freerun",
    "/etc/ssl",
    "/root",
    "/home",
    "/var",
    "/var/log",
    "/proc",
    "/usr",
    "/dev",
];

fn wide_roots(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        for node in tree.own(at, "root").chain(tree.own(at, "alias")) {
            let Some(word) = node.args.first() else { continue };
            let folder = match word.text.trim_end_matches('/') {
                "" if word.text.starts_with('/') => "/",
                folder => folder,
            };
            // A location of exactly one file, or of names with certain ends, serves no folder.
            let is_narrow = tree.blocks[at].node.is_some_and(|node| {
                node.name.text == "location" && matches!(node.arg(0), Some("=" | "~" | "~*"))
                    || tree.has(at, &["internal"])
            });
            if OF_SYSTEM.contains(&folder) && !is_narrow {
                findings.at_word(word, format!("every file below {folder} that the worker may read can be fetched"));
            }
        }
    }
}

/// Directives with which a location answers with something else than the files of its `root`. The directives of modules of
/// content come to them. Some are of modules that freerun does not have.
const ANSWERS: [&str; 17] = [
    "return",
    "rewrite",
    "alias",
    "root",
    "deny",
    "try_files",
    "internal",
    "include",
    "if",
    "perl",
    "js_content",
    "content_by_lua_block",
    "content_by_lua_file",
    "dav_methods",
    "internal_redirect",
    "hls",
    "error_page",
];

fn missing_roots(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    let answers: Vec<&str> = content_directives(modules()).chain(ANSWERS).collect();
    for server in tree.of(Contexts::SERVER) {
        if tree.in_force(server, "root").is_some() || tree.first(server, "return").is_some() {
            continue;
        }
        let is_location = |at: &usize| {
            tree.blocks[*at].parent == Some(server) && tree.blocks[*at].context.intersects(Contexts::LOCATION)
        };
        let locations: Vec<usize> = tree.within(server).filter(is_location).collect();
        let Some(other) = locations.iter().find_map(|at| tree.first(*at, "root")) else { continue };
        for at in locations {
            let is_plain = !tree.has(at, &answers) && !tree.within(at).any(|inner| inner != at);
            if let Some(location) = tree.blocks[at].node.filter(|_| is_plain) {
                let place = subject.place_of(other);
                findings.at(location, format!("this location has no root; the one in {place} is of another location"));
            }
        }
    }
}

fn circles(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        if let Some(word) = tree.first(at, "try_files").and_then(|node| node.args.last())
            && matches!(word.as_str(), "$uri" | "$uri/" | "${uri}" | "${uri}/")
        {
            findings.at_word(word, "a request for a file that is not there is sent to itself, and ends with 500");
        }
    }
}
