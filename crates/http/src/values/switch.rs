//! Directives whose presence is their only meaning.

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Value};

/// A directive without arguments, present or not.
#[derive(Debug, Clone, Copy, Default)]
pub struct Switch(pub bool);

impl Value for Switch {
    const SHAPE: Shape = Shape::exactly(0, "");

    fn parse(_: &Node, _: &mut Cx) -> Result<Switch, Problem> {
        Ok(Switch(true))
    }
}

/// A directive that may be present any number of times, with up to `MAX` arguments that have no meaning.
#[derive(Debug, Clone, Copy, Default)]
pub struct Present<const MAX: u16>(pub bool);

impl<const MAX: u16> Setting for Present<MAX> {
    const SHAPE: Shape = Shape::between(0, MAX, "");

    fn set(_: Option<Present<MAX>>, _: &Node, _: &mut Cx) -> Result<Present<MAX>, Problem> {
        Ok(Present(true))
    }
}
