//! The value of `queue`: whether subjects wait if no server has room.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value, Word, parse_time};
use freerun_upstream::group::QueueSettings;

use super::number;

/// The longest queue: beyond it requests would only wait for their timeouts.
const MAX_QUEUE: u32 = 1 << 20;

/// `queue number [timeout=time]`
#[derive(Debug, Clone, Copy)]
pub struct Queue(pub QueueSettings);

impl Value for Queue {
    const SHAPE: Shape = Shape::between(1, 2, "number [timeout=time]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<Queue, Problem> {
        let word = &directive.args[0];
        let invalid = |word: &Word| Problem::invalid_value(directive, word);
        let length = number(&word.text).filter(|&length| length > 0).ok_or_else(|| invalid(word))?.min(MAX_QUEUE);
        let mut timeout = Duration::from_secs(60);
        if let Some(word) = directive.args.get(1) {
            let value =
                word.text.strip_prefix("timeout=").ok_or_else(|| Problem::invalid_parameter(directive, word))?;
            timeout = parse_time(value).ok_or_else(|| Problem::invalid_parameter(directive, word))?;
        }
        Ok(Queue(QueueSettings { length, timeout }))
    }
}
