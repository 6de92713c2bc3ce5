//! A rule, and a place of a configuration that is against it.

use std::collections::HashSet;

use freerun_conf::{Contexts, Node, Place, Sources, Word};

use super::blocks::BlockTree;
use super::machine::Machine;

/// The severity of what a rule finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleLevel {
    /// A client can do, read or reach what the configuration seems to forbid.
    Error,
    /// The configuration does something else than it says at first sight.
    Warning,
}

impl RuleLevel {
    /// The word in front of the message.
    pub fn name(self) -> &'static str {
        match self {
            RuleLevel::Error => "error",
            RuleLevel::Warning => "warning",
        }
    }
}

/// A rule, with an example against it, and the same without the fault.
#[derive(Debug)]
pub struct LintRule {
    /// The name, which a comment silences.
    pub name: &'static str,
    /// The severity.
    pub level: RuleLevel,
    /// The thing that it finds: a part of a sentence.
    pub summary: &'static str,
    /// The reason: what happens then.
    pub reason: &'static str,
    /// The advice: what to write instead.
    pub fix: &'static str,
    /// The block that the examples belong into.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests put the examples into it"))]
    pub context: Contexts,
    /// An example against the rule.
    pub bad: &'static str,
    /// The same without the fault.
    pub good: &'static str,
    /// The search for it.
    pub check: fn(&Subject<'_>, &mut FaultList),
}

/// The configuration that rules look at.
pub struct Subject<'t> {
    /// The blocks.
    pub tree: BlockTree<'t>,
    /// The texts.
    pub sources: &'t Sources,
    /// The files that the configuration names.
    pub machine: &'t dyn Machine,
}

impl Subject<'_> {
    /// `FILE:LINE` of a directive.
    pub fn place_of(&self, node: &Node) -> String {
        self.sources.location(node.name.place).unwrap_or_else(|| "the defaults".to_owned())
    }
}

/// A place that is against a rule.
#[derive(Clone, Debug)]
pub struct LintFault {
    /// The rule.
    pub rule: &'static LintRule,
    /// The place.
    pub place: Place,
    /// The message: what is written there, and what happens.
    pub message: String,
}

/// The faults that were found. A file that is included several times has each finding once.
#[derive(Debug, Default)]
pub struct FaultList {
    rule: Option<&'static LintRule>,
    seen: HashSet<(Place, &'static str)>,
    /// The faults, in the order of the rules.
    pub list: Vec<LintFault>,
}

impl FaultList {
    /// Has a rule look at the configuration.
    pub fn collect(&mut self, rule: &'static LintRule, subject: &Subject<'_>) {
        self.rule = Some(rule);
        (rule.check)(subject, self);
    }

    /// Adds a finding about a directive.
    pub fn at(&mut self, node: &Node, message: impl Into<String>) {
        self.add(node.name.place, message);
    }

    /// Adds a finding about a word of a directive.
    pub fn at_word(&mut self, word: &Word, message: impl Into<String>) {
        self.add(word.place, message);
    }

    /// Adds a finding.
    pub fn add(&mut self, place: Place, message: impl Into<String>) {
        let Some(rule) = self.rule else { return };
        if self.seen.insert((place, rule.name)) {
            self.list.push(LintFault { rule, place, message: message.into() });
        }
    }
}
