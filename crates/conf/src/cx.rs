//! State that is shared while a configuration is applied.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use crate::contexts::Contexts;
use crate::diagnostics::Diagnostics;
use crate::node::Node;
use crate::place::Sources;
use crate::problem::{Problem, Severity, UNQUOTED};
use crate::tree::MAX_WARNINGS;

/// The most problems that are collected before applying gives up.
pub const MAX_PROBLEMS: usize = 100;

/// A map with one value of each type: modules share state (pool names, variables, paths) in it while a configuration is
/// applied.
#[derive(Default)]
pub struct TypeMap(HashMap<TypeId, Box<dyn Any>>);

impl TypeMap {
    /// Stores a value, and returns the earlier one of its type.
    pub fn insert<T: 'static>(&mut self, value: T) -> Option<T> {
        let old = self.0.insert(TypeId::of::<T>(), Box::new(value))?;
        old.downcast().ok().map(|value| *value)
    }

    /// The value of this type.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// The value of this type, mutable.
    pub fn get_mut<T: 'static>(&mut self) -> Option<&mut T> {
        self.0.get_mut(&TypeId::of::<T>())?.downcast_mut()
    }

    /// The value of this type, made if there is none.
    pub fn get_or_default<T: Default + 'static>(&mut self) -> &mut T {
        let slot = self.0.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        match slot.downcast_mut() {
            Some(value) => value,
            None => unreachable!("the key is the value's type"),
        }
    }

    /// Takes the value of this type out.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        self.0.remove(&TypeId::of::<T>())?.downcast().ok().map(|value| *value)
    }
}

/// Shared state while a configuration is applied: it is passed to every [`crate::Value`] and [`crate::Setting`].
pub struct Cx {
    /// State that modules share, by type.
    pub extensions: TypeMap,
    /// The texts, for messages.
    pub sources: Sources,
    /// The context of the block being applied; exactly one (`MAIN` before the first block).
    pub context: Contexts,
    /// Warnings so far, in the order found; bounded.
    pub warnings: Vec<Problem>,
    problems: Vec<Problem>,
}

impl Cx {
    /// A context for these texts, without any state.
    pub fn new(sources: Sources) -> Self {
        Cx {
            extensions: TypeMap::default(),
            sources,
            context: Contexts::MAIN,
            warnings: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Notes a warning; warnings beyond [`MAX_WARNINGS`] are dropped.
    pub fn warn(&mut self, problem: Problem) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Problem { level: problem.level.min(Severity::Warn), ..problem });
        }
    }

    /// Notes an error and continues, so that the error that comes first in the text can be reported later.
    ///
    /// # Errors
    /// The problem itself, if there are [`MAX_PROBLEMS`] already.
    pub fn report(&mut self, problem: Problem) -> Result<(), Problem> {
        if self.problems.len() >= MAX_PROBLEMS {
            return Err(problem);
        }
        self.problems.push(problem);
        Ok(())
    }

    /// Whether an error has been noted.
    pub fn has_problems(&self) -> bool {
        !self.problems.is_empty()
    }

    /// Whether an error has been noted that is inside this block: what is missing in it may only be missing because of that.
    pub fn has_problems_in(&self, block: &Node) -> bool {
        let last = block.children().last().map_or(block.order, |last| last.order);
        self.problems.iter().filter_map(|problem| problem.order).any(|order| (block.order..=last).contains(&order))
    }

    /// Ends the application: the result, unless a problem was noted or the text itself has an error.
    ///
    /// nginx checks directives while it reads and stops at the first problem. Here a block's simple directives are
    /// applied before its child blocks, so problems are collected and sorted. First are the problems of directives in
    /// reading order, then the syntax error, then `result`'s own error if it belongs to no directive. The warnings are
    /// sorted too.
    ///
    /// # Errors
    /// All problems; nginx would report the first.
    pub fn conclude<T>(&mut self, result: Result<T, Problem>, syntax: Option<Problem>) -> Result<T, Diagnostics> {
        let rank = |problem: &Problem| problem.order.map_or(u64::from(u32::MAX) + 1, u64::from);
        self.warnings.sort_by_key(rank);
        let mut problems = std::mem::take(&mut self.problems);
        // With a brace that opens or closes no block, the blocks' own braces are counted wrongly.
        let is_miscounted = problems.iter().any(|problem| problem.hint.as_deref() == Some(UNQUOTED));
        let syntax = syntax.filter(|_| !is_miscounted);
        problems.extend(syntax.map(|problem| Problem { order: Some(u32::MAX), ..problem }));
        match result {
            Ok(value) if problems.is_empty() => return Ok(value),
            Ok(_) => {}
            Err(problem) => problems.push(problem),
        }
        problems.sort_by_key(rank);
        // nginx has not come as far as to warn of what follows the problem.
        if let Some(first) = problems.first().map(rank) {
            self.warnings.retain(|warning| rank(warning) <= first);
        }
        Err(Diagnostics(problems))
    }
}
