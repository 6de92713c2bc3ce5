//! All directives of a program, by name.

use std::collections::HashMap;

use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::directive::Directive;
use crate::problem::Problem;
use crate::settings::{Entry, Group, SettingsSet};

/// The handler of a directive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    /// A settings group: index of the group, index of the row in its table.
    Group(usize, usize),
    /// A builder, to which [`crate::apply_block`] returns the node.
    Structure,
}

/// The groups of settings and the structural directives, by name.
pub struct Registry {
    groups: Vec<&'static dyn Group>,
    structure: Vec<Directive>,
    by_name: HashMap<&'static str, Vec<(Contexts, Directive, Owner)>>,
}

impl Registry {
    /// Collects the tables.
    ///
    /// # Errors
    /// There are two directives of one name in one context, or a group is given twice: a bug in the program.
    pub fn new(groups: &[&'static dyn Group], structure: &[Directive]) -> Result<Self, Problem> {
        let mut registry = Registry { groups: groups.to_vec(), structure: structure.to_vec(), by_name: HashMap::new() };
        let mut slots: Vec<usize> = groups.iter().map(|group| group.slot()).collect();
        slots.sort_unstable();
        if slots.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Problem::new("a settings group is in the list twice"));
        }
        for directive in structure {
            registry.add(directive, Owner::Structure)?;
        }
        for (index, group) in groups.iter().enumerate() {
            for (row, directive) in group.directives().iter().enumerate() {
                registry.add(directive, Owner::Group(index, row))?;
            }
        }
        Ok(registry)
    }

    fn add(&mut self, directive: &Directive, owner: Owner) -> Result<(), Problem> {
        let entries = self.by_name.entry(directive.name).or_default();
        if entries.iter().any(|(contexts, ..)| contexts.intersects(directive.contexts)) {
            return Err(Problem::new(format!("\"{}\" is declared twice for one context", directive.name)));
        }
        entries.push((directive.contexts, *directive, owner));
        Ok(())
    }

    /// The groups in the order in which they were given.
    pub fn groups(&self) -> &[&'static dyn Group] {
        &self.groups
    }

    /// The structural directives in the order in which they were given.
    pub fn structure(&self) -> &[Directive] {
        &self.structure
    }

    /// Every directive of this name, one for each set of contexts.
    pub fn named(&self, name: &str) -> impl Iterator<Item = &Directive> {
        self.by_name.get(name).into_iter().flatten().map(|(_, directive, _)| directive)
    }

    /// The directive of this name in a context.
    pub fn lookup(&self, name: &str, context: Contexts) -> Option<&Directive> {
        self.find(name, context).map(|(directive, _)| directive)
    }

    pub(crate) fn find(&self, name: &str, context: Contexts) -> Option<(&Directive, Owner)> {
        let entries = self.by_name.get(name)?;
        let (_, directive, owner) = entries.iter().find(|(contexts, ..)| contexts.intersects(context))?;
        Some((directive, *owner))
    }

    /// Whether the name is known in any context.
    pub fn knows(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Every name that may stand in a context (`Contexts::ANY`: every name), in no fixed order.
    pub fn names(&self, context: Contexts) -> impl Iterator<Item = &'static str> {
        let here = move |entries: &&Vec<(Contexts, Directive, Owner)>| {
            entries.iter().any(|(contexts, ..)| contexts.intersects(context))
        };
        self.by_name.iter().filter(move |(_, entries)| here(entries)).map(|(name, _)| *name)
    }

    /// The settings of a configuration in which nothing is written: the parent of the main level.
    ///
    /// # Errors
    /// The text of a default is not valid for its type; [`Registry::check`] finds this in a test.
    pub fn defaults(&self, cx: &mut Cx) -> Result<SettingsSet, Problem> {
        let size = self.groups.iter().map(|group| group.slot() + 1).max().unwrap_or(0);
        let mut entries: Vec<Option<Entry>> = vec![None; size];
        for group in &self.groups {
            let value = group.defaults(cx)?;
            entries[group.slot()] = Some(Entry { default: value.clone(), value, locals: false });
        }
        Ok(SettingsSet(entries.into()))
    }

    /// The faults of the tables, for a test: directives without documentation or contexts, defaults that do not parse
    /// or have the wrong number of words.
    pub fn check(&self, cx: &mut Cx) -> Vec<String> {
        let mut faults = Vec::new();
        let grouped = self.groups.iter().flat_map(|group| group.directives());
        for directive in grouped.chain(&self.structure) {
            let name = directive.name;
            if directive.summary().is_empty() {
                faults.push(format!("\"{name}\" has no documentation"));
            }
            if directive.contexts.is_empty() {
                faults.push(format!("\"{name}\" has no context"));
            }
            if directive.shape.min > directive.shape.max {
                faults.push(format!("\"{name}\" takes at least more than at most"));
            }
            if let Some(text) = directive.default {
                match crate::parse::default_node(name, text) {
                    Ok(node) if !directive.shape.takes(node.args.len()) => {
                        faults.push(format!("the default of \"{name}\" has the wrong number of words"));
                    }
                    Ok(_) => {}
                    Err(problem) => faults.push(problem.message),
                }
            }
        }
        for group in &self.groups {
            if group.docs().trim().is_empty() {
                faults.push(format!("group {} has no documentation", group.name()));
            }
            if let Err(problem) = group.defaults(cx) {
                faults.push(format!("defaults of {}: {}", group.name(), problem.message));
            }
        }
        faults
    }
}
