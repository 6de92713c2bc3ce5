//! Comments that silence rules: `# lint: allow NAME`, and why.

use std::collections::{BTreeMap, BTreeSet};

use freerun_conf::{Contexts, Place, Sources, comments, near};

use super::rule::{FaultList, LintFault, LintRule, RuleLevel, Subject};
use super::rules;

pub static RULES: &[LintRule] = &[LintRule {
    name: "lint-comment",
    level: RuleLevel::Warning,
    summary: "a comment that begins with `lint:` and names no rule",
    reason: "It silences nothing.",
    fix: "Write `# lint: allow NAME`, with a name of this list.",
    context: Contexts::SERVER,
    bad: "# lint: allow root-to-wide\nroot /srv/www;",
    good: "# lint: allow root-too-wide\nroot /etc;",
    check: wrong_comments,
}];

/// The beginning of such a comment.
const BEGIN: &str = "lint:";

/// The names behind `allow`: words with commas between them. What follows is the reason.
fn names(text: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    for word in text.strip_prefix(BEGIN)?.trim_start().strip_prefix("allow ")?.split_whitespace() {
        names.push(word.trim_end_matches([',', ':', '.', ';']));
        if !word.ends_with(',') {
            break;
        }
    }
    Some(names)
}

fn wrong_comments(subject: &Subject<'_>, findings: &mut FaultList) {
    for (index, source) in (0..).zip(subject.sources.iter()) {
        for comment in comments(&source.text, index).into_iter().filter(|comment| comment.text.starts_with(BEGIN)) {
            match names(&comment.text) {
                None => findings.add(comment.place, "a comment for the lint is written \"# lint: allow NAME\""),
                Some(names) => {
                    for name in names.into_iter().filter(|name| rules::find(name).is_none()) {
                        let similar = near(name, rules::all().map(|rule| rule.name));
                        let similar = similar.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
                        findings.add(comment.place, format!("there is no rule \"{name}\"{similar}"));
                    }
                }
            }
        }
    }
}

/// The rules that the comments of a configuration silence.
#[derive(Debug, Default)]
pub struct SilencedRules {
    /// The names by file, for the whole of it.
    files: BTreeMap<u32, BTreeSet<String>>,
    /// The names by file and line.
    lines: BTreeMap<(u32, u32), BTreeSet<String>>,
}

impl SilencedRules {
    /// Reads the comments of all texts.
    pub fn of(sources: &Sources) -> Self {
        let mut silenced = SilencedRules::default();
        for (index, source) in (0..).zip(sources.iter()) {
            let found = comments(&source.text, index);
            let alone: BTreeSet<u32> =
                found.iter().filter(|comment| comment.is_alone).map(|comment| comment.place.line).collect();
            for comment in &found {
                let Some(names) = names(&comment.text) else { continue };
                let mut line = comment.place.line;
                // A comment that has its line for itself speaks of the line below it and further comments.
                while comment.is_alone && alone.contains(&line) {
                    line += 1;
                }
                let here = silenced.lines.entry((index, line)).or_default();
                here.extend(names.iter().map(|name| (*name).to_owned()));
                if comment.is_in_head {
                    silenced.files.entry(index).or_default().extend(names.iter().map(|name| (*name).to_owned()));
                }
            }
        }
        silenced
    }

    /// Whether a finding is silenced.
    pub fn has(&self, finding: &LintFault) -> bool {
        let Place { file, line, .. } = finding.place;
        let name = finding.rule.name;
        self.files.get(&file).is_some_and(|names| names.contains(name))
            || self.lines.get(&(file, line)).is_some_and(|names| names.contains(name))
    }
}
