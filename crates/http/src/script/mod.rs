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
use freerun_serve::values::{Target, Template, VariableTable};

use condition::Condition;
use replace::Replace;
use returns::Return;

/// One directive of a script.
pub enum Action<S> {
    /// `set`.
    Set(Target<S>, Template<S>),
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
    let Some(bare) = name.text.strip_prefix('$').filter(|bare| !bare.is_empty()) else {
        return Err(Problem::new(format!("invalid variable name \"{}\"", name.text)).at(name.place));
    };
    let table = cx.extensions.get_or_default::<VariableTable<S>>();
    let target = table.assign(bare).map_err(|problem| problem.at(name.place))?;
    Ok(Action::Set(target, Template::parse(value, cx)?))
}

/// A step of a location's script.
pub enum Step<S, L> {
    /// A directive.
    Act(Action<S>),
    /// An `if` with the location that answers if its condition holds.
    If(Condition<S>, Arc<L>),
}

impl<S> Script<S> {
    /// The whole script of a level: its directives, and its `if`s by their position in the configuration.
    pub fn steps<L>(&self, conditions: Vec<(u32, Condition<S>, Arc<L>)>) -> Box<[Step<S, L>]> {
        let actions = self.0.iter().map(|(order, action)| (*order, Step::Act(action.clone())));
        let conditions =
            conditions.into_iter().map(|(order, condition, location)| (order, Step::If(condition, location)));
        let mut steps: Vec<(u32, Step<S, L>)> = actions.chain(conditions).collect();
        steps.sort_by_key(|(order, _)| *order);
        steps.into_iter().map(|(_, step)| step).collect()
    }
}
