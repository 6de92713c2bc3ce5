//! `sticky` of stream: clients stay with the server that they had before.

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_serve::upstream::StickyValues;

use crate::session::Session;

/// The value of `sticky`.
#[derive(Debug, Clone)]
pub struct Sticky(pub StickyValues<Session>);

impl Value for Sticky {
    const SHAPE: Shape = Shape::at_least(2, "route $variable … | learn create=… lookup=… zone=…");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Sticky, Problem> {
        let kind = &directive.args[0];
        match StickyValues::parse(directive, cx)? {
            Some(values) => Ok(Sticky(values)),
            None if kind.text == "cookie" => {
                let problem = Problem::invalid_parameter(directive, kind);
                Err(problem.hint("sessions of stream have no cookies; \"route\" and \"learn\" go by their values"))
            }
            None => Err(Problem::invalid_parameter(directive, kind)),
        }
    }
}
