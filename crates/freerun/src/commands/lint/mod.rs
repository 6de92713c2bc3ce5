//! `-t --lint`: says what is legal in a configuration, and most likely wrong.
//!
//! A rule looks at the tree of directives; it knows neither the settings that are made of it nor the machine, but for the
//! permissions of keys. The families of rules are a file each; `rules.rs` has the table.

mod access;
mod blocks;
mod fields;
mod inherited;
mod limits;
mod locations;
mod machine;
mod origins;
mod paths;
mod proxying;
mod report;
mod rewriting;
mod rule;
pub mod rules;
mod servers;
mod silence;
#[cfg(test)]
mod tests;
mod texts;

use freerun_conf::{Node, Problem, Sources, Tree};

use crate::configuration::registry;
use crate::console;
use blocks::BlockTree;
use machine::{KeyFiles, Machine};
use report::ReportedFault;
use rule::{FaultList, LintFault, Subject};
use silence::SilencedRules;

/// The findings of all rules that no comment silences, in the order of the text.
fn find(nodes: &[Node], sources: &Sources, machine: &dyn Machine) -> Vec<LintFault> {
    let subject = Subject { tree: BlockTree::new(registry(), nodes), sources, machine };
    let mut findings = FaultList::default();
    for rule in rules::all() {
        findings.collect(rule, &subject);
    }
    let silenced = SilencedRules::of(sources);
    let mut list: Vec<LintFault> = findings.list.into_iter().filter(|finding| !silenced.has(finding)).collect();
    list.sort_by_key(|finding| (finding.place.file, finding.place.line, finding.place.column));
    list
}

/// Prints the findings of a configuration to stdout, as lines or as an array of JSON, and the number of them, unless `quiet`, to
/// stderr. The `problems` for which the test has failed are with them. Relative paths of keys start from the folder
/// `conf_prefix`. Returns whether there are no findings.
pub fn run(tree: &Tree, problems: &[Problem], conf_prefix: &str, (json, quiet): (bool, bool)) -> bool {
    // Behind an error of the syntax the rest is unknown, and much would seem to be missing.
    let findings = match tree.error {
        Some(_) => Vec::new(),
        None => find(&tree.nodes, &tree.sources, &KeyFiles(conf_prefix.to_owned())),
    };
    let failures = problems.iter().filter_map(|problem| ReportedFault::of_problem(problem, &tree.sources));
    let further = findings.iter().map(|finding| ReportedFault::new(finding, &tree.sources));
    let reported: Vec<ReportedFault> = failures.chain(further).collect();
    if json {
        // Texts and numbers always have a form in JSON.
        console::output(&(serde_json::to_string_pretty(&reported).unwrap_or_default() + "\n"));
    } else {
        console::output(&reported.iter().map(ReportedFault::line).collect::<String>());
    }
    if !quiet && !findings.is_empty() {
        console::print(&format!("nginx: {}\n", report::summary(&findings)));
    }
    findings.is_empty()
}

/// The findings of a tree alone, without a machine, for a test: names of rules, lines, and messages with the text of the line.
#[cfg(test)]
pub fn lint_tree(tree: &Tree) -> Vec<(&'static str, u32, String)> {
    find(&tree.nodes, &tree.sources, &tests::OpenKey)
        .into_iter()
        .map(|LintFault { rule, place, message }| {
            let line = tree.sources.line(place).map(String::from_utf8_lossy).unwrap_or_default();
            (rule.name, place.line, format!("{message} | {}", line.trim()))
        })
        .collect()
}
