//! `keepalive_timeout`.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_time};

/// How long an idle connection is kept, and what the client is told.
#[derive(Debug, Clone, Copy)]
pub struct KeepaliveTimeout {
    /// Kept for so long; zero turns keep-alive off.
    pub timeout: Duration,
    /// `Keep-Alive: timeout=`, in seconds.
    pub header: Option<u64>,
}

impl Value for KeepaliveTimeout {
    const SHAPE: Shape = Shape::between(1, 2, "timeout [header_timeout]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<KeepaliveTimeout, Problem> {
        let time = |index: usize| {
            let word = &directive.args[index];
            parse_time(&word.text).ok_or_else(|| Problem::invalid_value(directive, word))
        };
        let header = if directive.args.len() > 1 { Some(time(1)?.as_secs()) } else { None };
        Ok(KeepaliveTimeout { timeout: time(0)?, header })
    }
}
