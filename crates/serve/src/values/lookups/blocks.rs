//! The common part of the directives that define a variable by a block: `map`, `geo` and their kin.

use std::marker::PhantomData;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};

use super::variable_name;
use crate::configuration::stateless::stateless;
use crate::values::subject::Subject;
use crate::values::{Compute, Template, VariableTable};

/// A table that a block makes, and that computes the variable which is the last argument of its directive.
pub trait Lookup: Compute<Self::Subject> + Sized + 'static {
    /// The subjects whose variable it is.
    type Subject: Subject;

    /// The arguments of the directive.
    const SHAPE: Shape;

    /// Reads a block.
    ///
    /// # Errors
    /// What is wrong with an argument or an entry.
    fn parse(directive: &Node, cx: &mut Cx) -> Result<Self, Problem>;
}

/// All blocks of one directive; their variables are in the table of variables.
pub struct Blocks<T>(PhantomData<fn() -> T>);

stateless!(Blocks);

impl<T: Lookup> Setting for Blocks<T> {
    const SHAPE: Shape = T::SHAPE;

    fn set(_: Option<Blocks<T>>, directive: &Node, cx: &mut Cx) -> Result<Blocks<T>, Problem> {
        let lookup = T::parse(directive, cx)?;
        let Some(word) = directive.args.last() else { return Err(Problem::wrong_count(directive)) };
        let name = variable_name(word)?.to_owned();
        let table = cx.extensions.get_or_default::<VariableTable<T::Subject>>();
        table.define(&name, Arc::new(lookup)).map_err(|problem| problem.at(word.place))?;
        Ok(Blocks(PhantomData))
    }
}

/// The text that is looked up, of a block with the arguments `text $variable`.
///
/// # Errors
/// One of the arguments is not possible.
pub(super) fn looked_up<S: Subject>(directive: &Node, cx: &mut Cx) -> Result<Template<S>, Problem> {
    let [text, name] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
    let text = Template::parse(text, cx)?;
    variable_name(name)?;
    Ok(text)
}

/// Reads the entries of a block, each by `add`.
///
/// # Errors
/// The first one of `add`, at the entry if it has no better place.
pub(super) fn entries(directive: &Node, mut add: impl FnMut(&Node) -> Result<(), Problem>) -> Result<(), Problem> {
    directive.children().iter().try_for_each(|entry| {
        add(entry).map_err(|problem| if problem.place.is_some() { problem } else { problem.at_node(entry) })
    })
}
