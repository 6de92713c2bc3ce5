//! Rules about checks of `Origin` and `Referer`, and about checks whose result nobody looks at.

use freerun_conf::{Contexts, Node, Word};

use super::rule::{FaultList, LintRule, RuleLevel, Subject};
use super::texts::{PatternComparison, comparison};
use freerun_conf::expression::{ByteSet, Expression, ExpressionPart, bytes, last_bytes};

pub static RULES: &[LintRule] = &[
    LintRule {
        name: "origin-pattern",
        level: RuleLevel::Error,
        summary: "an expression for `$http_origin` or `$http_referer` that other sites fit, too",
        reason: "Without `^` the name may stand anywhere, without `$` or `/` behind it another domain may follow, and a dot without a \
                 backslash stands for any letter.",
        fix: "Write the whole origin: `^https://(www\\.)?example\\.com$`.",
        context: Contexts::SERVER,
        bad: "if ($http_origin ~ https://example\\.com) {\n    set $a 1;\n}",
        good: "if ($http_origin ~ ^https://example\\.com$) {\n    set $a 1;\n}",
        check: origins,
    },
    LintRule {
        name: "referer-none",
        level: RuleLevel::Warning,
        summary: "`valid_referers none` for something else than pictures and films",
        reason: "A page has its visitors send no `Referer`, and passes every check that takes a request without one.",
        fix: "Remove `none`; or compare a token, if this is to protect a form.",
        context: Contexts::SERVER,
        bad: "valid_referers none server_names;\nif ($invalid_referer) {\n    return 403;\n}",
        good: "valid_referers server_names;\nif ($invalid_referer) {\n    return 403;\n}",
        check: missing_referers,
    },
    LintRule {
        name: "check-without-effect",
        level: RuleLevel::Error,
        summary: "`valid_referers`, `secure_link` or `ssl_verify_client optional` whose result is not used",
        reason: "They only set a variable. Without an `if`, a `map` or an application that looks at it, everybody passes.",
        fix: "Return 403 by the variable: `if ($invalid_referer) { return 403; }`.",
        context: Contexts::SERVER,
        bad: "valid_referers server_names;",
        good: "valid_referers server_names;\nif ($invalid_referer) {\n    return 403;\n}",
        check: unused_results,
    },
];

/// The reason why an expression for an origin fits others. `is_referer`: a path follows.
fn fault(text: &str, is_referer: bool) -> Option<&'static str> {
    let pattern = Expression::parse(text, true)?;
    let mut sequences = Vec::new();
    for sequence in &pattern.alternatives {
        sequences.extend(unfolded(sequence));
    }
    sequences.iter().find_map(|sequence| fault_of(sequence, is_referer))
}

/// The most sequences that are made of one.
const MAX_SEQUENCES: usize = 64;

/// The sequence with groups at its ends replaced by each of their alternatives.
fn unfolded(sequence: &[ExpressionPart]) -> Vec<Vec<ExpressionPart>> {
    let mut done = vec![Vec::new()];
    for part in sequence {
        match part {
            ExpressionPart::Group(group) => {
                let inner: Vec<Vec<ExpressionPart>> =
                    group.alternatives.iter().flat_map(|inner| unfolded(inner)).collect();
                if done.len() * inner.len() > MAX_SEQUENCES {
                    return vec![sequence.to_vec()];
                }
                done = done.iter().flat_map(|begin| inner.iter().map(|end| [begin.as_slice(), end].concat())).collect();
            }
            part => done.iter_mut().for_each(|begin| begin.push(part.clone())),
        }
    }
    done
}

fn fault_of(sequence: &[ExpressionPart], is_referer: bool) -> Option<&'static str> {
    let is_letter = |part: Option<&ExpressionPart>| match part {
        Some(ExpressionPart::Bytes(set, false)) => (b'a'..=b'z').any(|byte| set.has(byte)),
        _ => false,
    };
    let letters = sequence.iter().filter(|part| is_letter(Some(part))).count();
    // An expression without a name in it (^$, .+) compares with nothing.
    if letters < 3 {
        return None;
    }
    if !matches!(sequence.first(), Some(ExpressionPart::Start)) {
        return Some("without \"^\" the name may stand anywhere");
    }
    let is_any = |part: &ExpressionPart| matches!(part, ExpressionPart::Bytes(_, true));
    for (at, part) in sequence.iter().enumerate() {
        let next = sequence.get(at + 1);
        if is_any(part) && is_letter(next) {
            return Some("a dot without a backslash stands for any letter");
        }
        if let ExpressionPart::Repeat { part: inner, max: None, .. } = part
            && at > 0
            && last_bytes(inner).has(b'-')
            && is_letter(next)
        {
            return Some("anything may stand directly in front of the name");
        }
        if let ExpressionPart::Repeat { part: inner, max: None, .. } = part
            && is_referer
            && is_any(inner)
            && next.is_some_and(|next| !matches!(next, ExpressionPart::End))
        {
            return Some("\".*\" takes a path with the name in it, too");
        }
    }
    let ends = sequence.iter().any(|part| matches!(part, ExpressionPart::End));
    let slash = sequence.iter().skip(1).rev().find(|part| !matches!(part, ExpressionPart::Repeat { min: 0, .. }));
    let slashes = slash.is_some_and(|part| !bytes(part).is_empty() && !bytes(part).meets(letters_and_dot()));
    (!ends && !slashes).then_some("without \"$\" or \"/\" behind it the name may go on")
}

/// The bytes with which a name of a host goes on.
fn letters_and_dot() -> ByteSet {
    ByteSet::of(b"abcdefghijklmnopqrstuvwxyz0123456789.-")
}

fn origins(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    let mut look = |source: &str, word: &Word, text: &str| {
        let name = source.trim_start_matches(['(', '$']);
        if matches!(name, "http_origin" | "http_referer")
            && let Some(fault) = fault(text, name == "http_referer")
        {
            findings.at_word(word, format!("other sites fit \"{text}\", too: {fault}"));
        }
    };
    tree.each(|node| match (node.name.as_str(), node.args.as_slice()) {
        ("if", _) => {
            // A list of what is refused may be as wide as it likes.
            let refuses = node
                .children()
                .iter()
                .any(|inner| inner.name.text == "return" && inner.arg(0).is_some_and(|code| code.starts_with('4')));
            if let Some(PatternComparison { variable, is_negated, word, text }) = comparison(node)
                && (is_negated || !refuses)
            {
                look(variable, word, text);
            }
        }
        ("map", [source, _]) if source.text == "$http_origin" => {
            for entry in node.children() {
                if let Some(pattern) = entry.name.text.strip_prefix('~')
                    && entry.arg(0).is_some_and(|value| !matches!(value, "" | "0"))
                {
                    look(&source.text, &entry.name, pattern.strip_prefix('*').unwrap_or(pattern));
                }
            }
        }
        _ => {}
    });
}

/// Ends of names of files that other pages show.
const OF_MEDIA: [&str; 12] = ["jpg", "jpe", "png", "gif", "webp", "mp4", "mp3", "webm", "flv", "svg", "zip", "image"];

fn missing_referers(subject: &Subject<'_>, findings: &mut FaultList) {
    let tree = &subject.tree;
    for at in tree.of_http() {
        let is_media = |node: &Node| node.args.iter().any(|word| OF_MEDIA.iter().any(|end| word.text.contains(end)));
        if let Some(node) = tree.first(at, "valid_referers")
            && let Some(word) = node.args.iter().find(|word| word.text == "none")
            && !tree.blocks[at].node.is_some_and(is_media)
        {
            findings.at_word(word, "a page passes the check by having its visitors send no Referer");
        }
    }
}

fn unused_results(subject: &Subject<'_>, findings: &mut FaultList) {
    let checks = [
        ("valid_referers", "$invalid_referer"),
        ("secure_link", "$secure_link"),
        ("secure_link_secret", "$secure_link"),
        ("ssl_verify_client", "$ssl_client_"),
    ];
    let tree = &subject.tree;
    for (name, variable) in checks {
        let mut is_used = false;
        tree.each(|node| {
            let braced = variable.replace('$', "${");
            // A variable of a check is no argument of the check itself.
            let is_check = node.name.text.starts_with("secure_link");
            let uses = |word: &Word| word.text.contains(variable) || word.text.contains(&braced);
            is_used |= !is_check && (node.args.iter().any(uses) || uses(&node.name));
            is_used |= node.name.text == "auth_require";
        });
        if is_used {
            continue;
        }
        for at in tree.of(Contexts::ANY) {
            for node in tree.own(at, name) {
                let only_sets =
                    name != "ssl_verify_client" || node.arg(0).is_some_and(|mode| mode.starts_with("optional"));
                if only_sets
                    && tree.blocks[at].context.intersects(Contexts::HTTP | Contexts::SERVER | Contexts::LOCATION)
                {
                    findings.at(
                        node,
                        format!(
                            "{name} only sets {variable}{}, and nothing looks at it",
                            if variable.ends_with('_') { "…" } else { "" }
                        ),
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_for_origins_are_judged() {
        for text in [
            r"https://example\.com",
            r"^https://example\.com",
            "^https://www.example.com$",
            r"^https?://.*example\.com$",
            r"(^https://a\.example\.com)|(^https://b\.example\.com$)",
            r"example\.com$",
        ] {
            assert!(fault(text, false).is_some(), "{text}");
        }
        for text in [
            r"^https://example\.com$",
            r"^https?://([a-z0-9-]+\.)*example\.com$",
            r"^https://(a|b)\.example\.com(:\d+)?$",
            "^$",
            r"^https?://(localhost|127\.0\.0\.1)$",
            r"^https://example\.com/",
        ] {
            assert_eq!(fault(text, false), None, "{text}");
        }
        assert!(fault(r"^https?://.*\.example\.com/", true).is_some());
        assert_eq!(fault(r"^https?://([^/]+\.)?example\.com/", true), None);
    }
}
