//! The status of requests that limits refuse.

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_proto::Status;

/// The status of refused requests: 400 to 599.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusalStatus(pub Status);

impl Value for RefusalStatus {
    const SHAPE: Shape = Shape::exactly(1, "code");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<RefusalStatus, Problem> {
        match u64::parse(directive, cx)? {
            status @ 400..=599 => Ok(RefusalStatus(Status::new(status as u16))),
            _ => Err(Problem::new("value must be between 400 and 599").at(directive.args[0].place)),
        }
    }
}
