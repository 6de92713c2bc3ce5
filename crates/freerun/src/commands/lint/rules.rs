//! The table of all rules, and what the reference says of them.

use std::fmt::Write as _;

use freerun_conf::{fold, plain};

use super::rule::LintRule;
use super::{access, fields, inherited, limits, locations, origins, paths, proxying, rewriting, servers, silence};

/// The families: a title, and the rules.
pub const FAMILIES: [(&str, &[LintRule]); 11] = [
    ("What a lower level loses", inherited::RULES),
    ("Access", access::RULES),
    ("return, rewrite and if", rewriting::RULES),
    ("Upstream servers", proxying::RULES),
    ("Fields and bodies of responses", fields::RULES),
    ("Origins and other checks", origins::RULES),
    ("Files", paths::RULES),
    ("Locations and expressions", locations::RULES),
    ("Servers, TLS and addresses", servers::RULES),
    ("Limits, caches and logs", limits::RULES),
    ("Comments", silence::RULES),
];

/// All rules.
pub fn all() -> impl Iterator<Item = &'static LintRule> {
    FAMILIES.iter().flat_map(|(_, rules)| *rules)
}

/// The rule of a name.
pub fn find(name: &str) -> Option<&'static LintRule> {
    all().find(|rule| rule.name == name)
}

/// The page of the reference, without its title.
pub fn page() -> String {
    let mut text = "What `freerun -t --lint` looks for: what is legal, and most likely wrong. [The guide](../guide/lint.md) shows how\n\
                    it is used, and how a comment silences a rule. `freerun explain NAME` prints the entry of one.\n"
        .to_owned();
    for (title, rules) in FAMILIES {
        let _ = write!(text, "\n## {title}\n");
        for LintRule { name, level, summary, reason, fix, bad, good, .. } in rules {
            let _ = write!(text, "\n### {name}\n\n");
            text += &fold(&format!("**{}**: {summary}.", level.name()), 0);
            let _ = write!(text, "\n{}\n{}", fold(reason, 0), fold(fix, 0));
            let _ = write!(text, "\n```nginx\n# is found\n{bad}\n\n# is not\n{good}\n```\n");
        }
    }
    text
}

/// The entry of a rule, as plain text for a terminal.
pub fn explain(name: &str) -> Option<String> {
    let LintRule { name, level, summary, reason, fix, bad, good, .. } = find(name)?;
    let mut text = format!("{name}\n");
    text += &plain(&format!("{} of \"freerun -t --lint\": {summary}.", level.name()), 2);
    for part in [reason, fix] {
        let _ = write!(text, "\n{}", plain(part, 2));
    }
    for (title, example) in [("This is found:", bad), ("This is not:", good)] {
        let _ = write!(text, "\n  {title}\n\n");
        for line in example.lines() {
            let _ = writeln!(text, "      {line}");
        }
    }
    let _ = write!(
        text,
        "\n{}",
        fold(&format!("The comment \"# lint: allow {name}\" on the line, or above it, silences it."), 2)
    );
    Some(text)
}
