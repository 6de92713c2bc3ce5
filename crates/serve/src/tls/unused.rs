//! Directives that are read and checked, and have no effect yet.

use std::collections::BTreeSet;

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value};

/// A value that is checked, and not used.
#[derive(Debug, Clone, Copy)]
pub struct Unused<T>(std::marker::PhantomData<fn() -> T>);

impl<T: Value> Value for Unused<T> {
    const SHAPE: Shape = T::SHAPE;

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Unused<T>, Problem> {
        T::parse(directive, cx)?;
        // Defaults are read in no context of http.
        if cx.context != freerun_conf::Contexts::MAIN {
            let written = cx.extensions.get_or_default::<Written>();
            written.names.insert(directive.name.text.clone());
            let first = written.first.is_none_or(|(order, ..)| directive.order < order);
            if first {
                written.first = Some((directive.order, directive.name.place, directive.end));
            }
        }
        Ok(Unused(std::marker::PhantomData))
    }
}

/// The directives of this file that a configuration has, and the place of the first of them.
#[derive(Default)]
struct Written {
    /// Their names.
    names: BTreeSet<String>,
    /// Where the first of them is in the order of reading, where it is written, and where it ends.
    first: Option<(u32, Place, Place)>,
}

/// The name of a file, which is not opened.
#[derive(Debug, Clone, Copy)]
pub struct File;

impl Value for File {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(_: &Node, _: &mut Cx) -> Result<File, Problem> {
        Ok(File)
    }
}

/// Warns once of the directives of this kind that the configuration has.
pub fn warn(cx: &mut Cx) {
    let Some(Written { names, first: Some((order, place, end)) }) = cx.extensions.remove::<Written>() else { return };
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let have = if names.len() == 1 { "has" } else { "have" };
    let mut warning = Problem::warning(format!("{} {have} no effect yet", names.join(", "))).at(place).reported_at(end);
    warning.order = Some(order);
    cx.warn(warning);
}
