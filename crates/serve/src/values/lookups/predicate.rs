//! `predicate`: a variable that says whether all of its conditions hold.

use freerun_conf::{Cx, Node, Problem, Shape};
use freerun_runtime::log::Level;

use super::blocks::{Blocks, Lookup};
use super::variable_name;
use crate::values::subject::Subject;
use crate::values::{Comparison, Compute, ComputeResult};

/// The value of `predicate`.
pub type Predicates<S> = Blocks<Predicate<S>>;

/// A block: its conditions, each with whether it is negated.
pub struct Predicate<S>(Vec<(Comparison<S>, bool)>);

impl<S: Subject> Lookup for Predicate<S> {
    type Subject = S;

    const SHAPE: Shape = Shape::exactly(1, "$variable { match condition; … }").with_raw_block();

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Predicate<S>, Problem> {
        let [name] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        variable_name(name)?;
        let mut conditions = Vec::new();
        for entry in freerun_conf::raw_entries(directive)? {
            if entry.name.text != "match" {
                let message = format!("unknown directive \"{}\"", entry.name.text);
                return Err(Problem::new(message).at_node(entry));
            }
            let condition = Comparison::parse(entry, &entry.args, cx)?.ok_or_else(|| {
                let shown = entry.arg(0).unwrap_or_default();
                Problem::new(format!("invalid condition \"{shown}\"")).at_node(entry)
            })?;
            conditions.push(condition);
        }
        if conditions.is_empty() {
            Err(Problem::new("no \"match\" in predicate").at_node(directive))
        } else {
            Ok(Predicate(conditions))
        }
    }
}

impl<S: Subject> Compute<S> for Predicate<S> {
    fn find(&self, subject: &S) -> ComputeResult {
        let holds = self.0.iter().all(|(comparison, negative)| match comparison.holds(subject) {
            Ok(holds) => holds != *negative,
            Err(error) => {
                subject.log(Level::Alert, format_args!("{error} in a predicate"));
                false
            }
        });
        if holds { ComputeResult::Entry(0) } else { ComputeResult::Text(Vec::new()) }
    }

    fn entry(&self, _: u32) -> &[u8] {
        b"1"
    }

    // The variables of the conditions may change, for example when a location is looked for once more.
    fn is_volatile(&self) -> bool {
        true
    }
}
