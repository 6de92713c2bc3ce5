//! A directive that holds up an event loop, for tests of what the other loops do meanwhile. Only builds with debug assertions
//! have it, and the reference leaves it out.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use freerun_conf::{Cx, Node, Problem, Shape, Value, parse_time, path_of};
use freerun_runtime::log::Level;

use crate::values::subject::Subject;

/// The time between two looks whether the file is there.
const STEP: Duration = Duration::from_millis(1);

/// The value of `debug_block_loop`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopBlock {
    /// For how long the loop is held up.
    time: Duration,
    /// The file that ends the wait when it exists.
    until: Option<PathBuf>,
}

impl Value for LoopBlock {
    const SHAPE: Shape = Shape::between(1, 2, "time [file]");

    fn parse(directive: &Node, _: &mut Cx) -> Result<LoopBlock, Problem> {
        let word = &directive.args[0];
        let time = parse_time(&word.text).ok_or_else(|| Problem::invalid_value(directive, word))?;
        Ok(LoopBlock { time, until: directive.arg(1).map(|path| path_of(path).into_owned()) })
    }
}

impl LoopBlock {
    /// Holds up the loop of this thread, as a call would that waits in the kernel. The log says when it begins.
    pub fn hold(&self, subject: &impl Subject) {
        let begun = Instant::now();
        subject.log(Level::Notice, format_args!("this loop is held up for {} ms at most", self.time.as_millis()));
        while begun.elapsed() < self.time && !self.until.as_ref().is_some_and(|file| file.exists()) {
            std::thread::sleep(STEP.min(self.time.saturating_sub(begun.elapsed())));
        }
    }
}
