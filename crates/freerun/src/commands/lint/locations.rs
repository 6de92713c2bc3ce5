//! Rules about `location` and its expressions: which location a request comes to.

use freerun_conf::{Contexts, Node, Word};

use super::access::AUTHENTICATIONS;
use super::rule::{FaultList, LintRule, RuleLevel, Subject};
use super::texts::comparison;
use freerun_conf::expression::Expression;

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "location-unreachable",
        level: RuleLevel::Warning,
        summary: "a `location` that no request reaches",
        reason: "The first expression that fits is taken. One like `~ .*` fits everything, and behind `^~ /` no expression is tried.",
        fix: "Order expressions from the special to the general; write `location /` for the rest.",
        context: Contexts::SERVER,
        bad: "location ~ ^/ {\n    return 404;\n}\nlocation ~ \\.php$ {\n    return 403;\n}",
        good: "location ~ \\.php$ {\n    return 403;\n}\nlocation / {\n    return 404;\n}",
        check: unreachable,
    },
    LintRule {
        name: "pattern-dot",
        level: RuleLevel::Warning,
        summary: "a dot without a backslash before the end of a name in an expression",
        reason: "It stands for any letter, so `~ .php$` fits `/telephp`, too.",
        fix: "Write `\\.`.",
        context: Contexts::SERVER,
        bad: "location ~ .php$ {\n    return 403;\n}",
        good: "location ~ \\.php$ {\n    return 403;\n}",
        check: dots,
    },
    LintRule {
        name: "pattern-end",
        level: RuleLevel::Warning,
        summary: "an expression for the end of a name without `$`",
        reason: "It fits in the middle of a path, too: `\\.php` runs `/x.phpfoo`, `\\.jpg` takes `/a.jpg/edit`.",
        fix: "Write `$` at the end, or `(/|$)` if a path may follow.",
        context: Contexts::SERVER,
        bad: "location ~ \\.(jpg|png) {\n    expires 1d;\n}",
        good: "location ~ \\.(jpg|png)$ {\n    expires 1d;\n}",
        check: ends,
    },
    LintRule {
        name: "regex-exponential",
        level: RuleLevel::Error,
        summary: "an expression with a repetition inside of a repetition",
        reason: "The time for a text that nearly fits doubles with each of its bytes. An event loop that is busy with it serves nobody, \
                 until the limit of PCRE ends it with 500.",
        fix: "Begin what is repeated with something that is not in it: `(/[^/]+)*` instead of `([^/]+/*)*`.",
        context: Contexts::SERVER,
        bad: "location ~ ^/(\\w+-?)*$ {\n    return 403;\n}",
        good: "location ~ ^/\\w+(-\\w+)*$ {\n    return 403;\n}",
        check: exponential,
    },
    LintRule {
        name: "merge-slashes-off",
        level: RuleLevel::Error,
        summary: "`merge_slashes off` beside locations that restrict access",
        reason: "`//admin/` is another path than `/admin/` then: it does not come to the location, but the application takes it for the \
                 same.",
        fix: "Leave slashes merged, or deny what is not wanted by `location /` as well.",
        context: Contexts::SERVER,
        bad: "merge_slashes off;\nlocation /admin/ {\n    deny all;\n}",
        good: "location /admin/ {\n    deny all;\n}",
        check: unmerged_slashes,
    },
];

/// The expression of a location, with the sign in front of it.
fn expression(location: &Node) -> Option<(&str, &Word)> {
    match location.args.as_slice() {
        [sign, pattern] if matches!(sign.as_str(), "~" | "~*") => Some((&sign.text, pattern)),
        _ => None,
    }
}

/// Whether an expression fits every path.
fn fits_all(pattern: &str) -> bool {
    matches!(
        pattern,
        "" | "."
            | ".*"
            | "^"
            | "/"
            | "^/"
            | "^.*"
            | "^/.*"
            | "^.*$"
            | "^/.*$"
            | "^(.*)$"
            | "^/(.*)$"
            | "(.*)"
            | ".*$"
            | "^(.*)"
            | "^/(.*)"
    )
}

fn unreachable(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for around in tree.of(Contexts::SERVER | Contexts::LOCATION) {
        let locations: Vec<&Node> = tree.own(around, "location").collect();
        let is_in_server = tree.blocks[around].context.intersects(Contexts::SERVER);
        let closed = locations.iter().find(|node| {
            is_in_server && matches!(node.args.as_slice(), [sign, path] if sign.text == "^~" && path.text == "/")
        });
        let has_longer = locations.iter().any(|node| match node.args.as_slice() {
            [path] => path.text.len() > 1 && path.text.starts_with('/'),
            _ => false,
        });
        let mut before: Vec<(&str, &Word, &Node)> = Vec::new();
        for node in &locations {
            let Some((sign, pattern)) = expression(node) else { continue };
            let same = before
                .iter()
                .find(|(other, text, _)| *other == sign && text.text == pattern.text || fits_all(&text.text));
            match (same, closed) {
                (Some((_, _, first)), _) => {
                    findings
                        .at(node, format!("no request reaches this location: {} takes them", subject.place_of(first)));
                }
                (None, Some(closed)) if !has_longer => {
                    let place = subject.place_of(closed);
                    findings.at(
                        node,
                        format!("no request reaches this location: behind \"^~ /\" in {place} no expression is tried"),
                    );
                }
                _ => before.push((sign, pattern, node)),
            }
        }
    }
}

/// Expressions for paths: of locations and of `rewrite`, not of those that compare fields of requests.
fn of_paths<'t>(subject: &Subject<'t>) -> Vec<&'t Word> {
    let mut found = Vec::new();
    subject.tree.each(|node| match node.name.as_str() {
        "location" => found.extend(expression(node).map(|(_, word)| word)),
        "rewrite" => found.extend(node.args.first()),
        _ => {}
    });
    found
}

/// Ends of names after which an expression may go wrong.
const ENDS: [&str; 24] = [
    "php", "html", "htm", "css", "js", "jpg", "jpeg", "png", "gif", "ico", "svg", "txt", "xml", "json", "pdf", "zip",
    "cgi", "pl", "py", "asp", "aspx", "jsp", "sh", "sql",
];

/// The names in an expression that stand for the end of a file's name, `php` or `(jpg|png)`, without what is behind.
fn end_names(text: &str) -> Option<(bool, &str)> {
    let inside = match text.strip_prefix('(') {
        Some(inside) => inside.strip_prefix("?:").unwrap_or(inside),
        None => text,
    };
    let length = inside.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(inside.len());
    let rest = &inside[length..];
    let is_group = text.starts_with('(');
    if !ENDS.contains(&inside[..length].to_ascii_lowercase().as_str()) {
        return None;
    }
    if is_group { rest.find(')').map(|end| (true, &rest[end + 1..])) } else { Some((false, rest)) }
}

fn dots(subject: &Subject<'_>, findings: &mut FaultList) {
    for word in of_paths(subject) {
        let text = &word.text;
        let found = text.match_indices('.').find(|(at, _)| {
            // In a name that is written out, as in index.php, any letter in the place of the dot does no harm.
            let is_for_ends = text[..*at].chars().next_back().is_none_or(|before| "*+/^".contains(before));
            let is_in_class = text[..*at].rfind('[').is_some_and(|open| !text[open..*at].contains(']'));
            is_for_ends && !is_in_class && end_names(&text[at + 1..]).is_some_and(|(_, rest)| matches!(rest, "" | "$"))
        });
        if let Some((at, _)) = found {
            findings.at_word(word, format!("the dot in \"{}\" stands for any letter", &text[at..]));
        }
    }
}

fn ends(subject: &Subject<'_>, findings: &mut FaultList) {
    let mut found = Vec::new();
    subject.tree.each(|node| {
        let splits = node.children().iter().any(|inner| inner.name.text == "fastcgi_split_path_info");
        // It does no harm to refuse too much.
        let refuses = node.children().iter().any(|inner| {
            let word = inner.arg(0).unwrap_or_default();
            inner.name.text == "deny" || inner.name.text == "return" && word.starts_with('4')
        });
        if node.name.text == "location" && !splits && !refuses {
            found.extend(expression(node).map(|(_, word)| word));
        }
    });
    for word in found {
        let text = &word.text;
        let at = text.rfind("\\.");
        if let Some((_, "")) = at.and_then(|at| end_names(&text[at + 2..])) {
            findings.at_word(word, format!("\"{text}\" fits in the middle of a path, too"));
        }
    }
}

/// Whether expressions stand in the words of a directive, and which.
fn patterns(node: &Node) -> Vec<(&Word, &str)> {
    let strip = |word: &'_ Word| word.text.trim_start_matches('~').trim_start_matches('*').len();
    match (node.name.as_str(), node.args.as_slice()) {
        ("location", [sign, word]) if sign.text.starts_with('~') => vec![(word, word.as_str())],
        ("rewrite", [word, ..]) => vec![(word, word.as_str())],
        ("if", _) => comparison(node).map(|condition| (condition.word, condition.text)).into_iter().collect(),
        ("server_name" | "valid_referers", words) => words
            .iter()
            .filter(|word| word.text.starts_with('~'))
            .map(|word| (word, &word.text[word.text.len() - strip(word)..]))
            .collect(),
        ("map", _) => node
            .children()
            .iter()
            .map(|entry| &entry.name)
            .filter(|word| word.text.starts_with('~'))
            .map(|word| (word, &word.text[word.text.len() - strip(word)..]))
            .collect(),
        ("fastcgi_split_path_info", [word]) => vec![(word, word.as_str())],
        _ => Vec::new(),
    }
}

fn exponential(subject: &Subject<'_>, findings: &mut FaultList) {
    subject.tree.each(|node| {
        for (word, text) in patterns(node) {
            if Expression::parse(text, false).is_some_and(|pattern| pattern.is_exponential()) {
                findings
                    .at_word(word, format!("the time for a text that nearly fits \"{text}\" doubles with each byte"));
            }
        }
    });
}

fn unmerged_slashes(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of(Contexts::HTTP | Contexts::SERVER) {
        let Some(node) = tree.first(at, "merge_slashes").filter(|node| node.arg(0) == Some("off")) else { continue };
        let restricted = tree.within(at).find(|inner| {
            let is_path =
                tree.blocks[*inner].node.and_then(|node| node.args.last()).is_some_and(|path| path.text.len() > 1);
            tree.blocks[*inner].context.intersects(Contexts::LOCATION)
                && is_path
                && (tree.has(*inner, &["deny", "internal"]) || tree.has(*inner, &AUTHENTICATIONS))
        });
        if let Some(location) = restricted.and_then(|inner| tree.blocks[inner].node) {
            findings.at(
                node,
                format!("a second slash in the path leads around the location in {}", subject.place_of(location)),
            );
        }
    }
}
