//! The directives of the rewrite module, `set`, `if`, `rewrite`, `break` and `return`, as a script for each level.
//! [`rewrite`](crate::rewrite) runs the scripts.
//!
//! A script depends on neither requests nor locations: a location holds its script, whose `if`s hold locations.

pub mod condition;
pub mod replace;
pub mod returns;

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};
use freerun_serve::Subject;
pub use freerun_serve::values::target;
use freerun_serve::values::{SetTarget, Template};

use condition::Condition;
use replace::Replace;
use returns::Return;

/// Computes the new value of a variable from the values of the arguments; `None` leaves the variable as it is.
///
/// # Errors
/// There is none: the message is logged, and the request is answered with 500.
pub type Calculate<S> = dyn Fn(&S, &[Vec<u8>]) -> Result<Option<Vec<u8>>, String> + Send + Sync;

/// A directive of a module that gives a variable a value, as `set` does.
pub struct Assignment<S> {
    /// The variable.
    pub target: SetTarget<S>,
    /// The arguments behind it.
    pub arguments: Box<[Template<S>]>,
    /// Makes the value.
    pub calculate: Box<Calculate<S>>,
}

/// A directive of a script.
pub enum Action<S> {
    /// `set`.
    Set(SetTarget<S>, Template<S>),
    /// The directive of a module.
    Assign(Arc<Assignment<S>>),
    /// `rewrite`.
    Rewrite(Arc<Replace<S>>),
    /// `break`.
    Break,
    /// `return`.
    Return(Return<S>),
}

impl<S> Clone for Action<S> {
    fn clone(&self) -> Action<S> {
        match self {
            Action::Set(target, value) => Action::Set(*target, value.clone()),
            Action::Assign(assignment) => Action::Assign(assignment.clone()),
            Action::Rewrite(replace) => Action::Rewrite(replace.clone()),
            Action::Break => Action::Break,
            Action::Return(answer) => Action::Return(answer.clone()),
        }
    }
}

/// The directives of one level except its `if`s, each with its position in the configuration.
pub struct Script<S>(Arc<Vec<(u32, Action<S>)>>);

impl<S> Clone for Script<S> {
    fn clone(&self) -> Script<S> {
        Script(self.0.clone())
    }
}

impl<S> Default for Script<S> {
    fn default() -> Script<S> {
        Script(Arc::default())
    }
}

impl<S: Subject> Setting for Script<S> {
    const SHAPE: Shape = Shape::exactly(2, "$variable value");

    fn set(previous: Option<Script<S>>, directive: &Node, cx: &mut Cx) -> Result<Script<S>, Problem> {
        let mut script = previous.unwrap_or_default();
        let action = match directive.name.as_str() {
            "rewrite" => Action::Rewrite(Arc::new(Replace::parse(directive, cx)?)),
            "break" => Action::Break,
            "return" => Action::Return(Return::parse(directive, cx)?),
            _ => assignment(directive, cx)?,
        };
        Arc::make_mut(&mut script.0).push((directive.order, action));
        Ok(script)
    }
}

fn assignment<S: Subject>(directive: &Node, cx: &mut Cx) -> Result<Action<S>, Problem> {
    let [name, value] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
    Ok(Action::Set(target(name, cx)?, Template::parse(value, cx)?))
}

/// A step of a location's script.
pub enum ScriptStep<S, L> {
    /// A directive, with its position in the configuration.
    Act(Action<S>, u32),
    /// An `if` with the location that answers if its condition holds, and its position in the configuration.
    If(Condition<S>, Arc<L>, u32),
}

impl<S> Script<S> {
    /// Adds a directive with its position in the configuration.
    pub fn push(&mut self, order: u32, action: Action<S>) {
        Arc::make_mut(&mut self.0).push((order, action));
    }

    /// Adds the directives of another script of the same level.
    pub fn add(&mut self, other: &Script<S>) {
        if !other.0.is_empty() {
            Arc::make_mut(&mut self.0).extend(other.0.iter().cloned());
        }
    }

    /// The whole script of a level: its directives, and its `if`s by their position in the configuration.
    pub fn steps<L>(&self, conditions: Vec<(u32, Condition<S>, Arc<L>)>) -> Box<[ScriptStep<S, L>]> {
        let actions = self.0.iter().map(|(order, action)| (*order, ScriptStep::Act(action.clone(), *order)));
        let conditions = conditions
            .into_iter()
            .map(|(order, condition, location)| (order, ScriptStep::If(condition, location, order)));
        let mut steps: Vec<(u32, ScriptStep<S, L>)> = actions.chain(conditions).collect();
        steps.sort_by_key(|(order, _)| *order);
        steps.into_iter().map(|(_, step)| step).collect()
    }
}
