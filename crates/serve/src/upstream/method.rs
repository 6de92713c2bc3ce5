//! Values of the directives that choose the method of balancing.

use std::fmt;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word};
use freerun_upstream::method::{Measure, Method, Two};

use super::SubjectProtocol;
use crate::values::Template;

/// The method of a group, and the text that it depends on.
pub struct GroupMethod<P: SubjectProtocol> {
    /// The method of choosing the next server.
    pub method: Method,
    /// The text that `hash` uses.
    pub key: Option<Template<P::Subject>>,
}

// Not derived, because that would demand the trait of the subject.
impl<P: SubjectProtocol> Clone for GroupMethod<P> {
    fn clone(&self) -> GroupMethod<P> {
        GroupMethod { method: self.method, key: self.key.clone() }
    }
}

impl<P: SubjectProtocol> Default for GroupMethod<P> {
    fn default() -> GroupMethod<P> {
        GroupMethod { method: Method::default(), key: None }
    }
}

impl<P: SubjectProtocol> fmt::Debug for GroupMethod<P> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Balance").field(&self.method).field(&self.key).finish()
    }
}

impl<P: SubjectProtocol> Setting for GroupMethod<P> {
    const SHAPE: Shape = Shape::exactly(0, "");

    fn set(previous: Option<GroupMethod<P>>, directive: &Node, cx: &mut Cx) -> Result<GroupMethod<P>, Problem> {
        if previous.is_some() {
            cx.warn(redefined(directive));
        }
        let args = &*directive.args;
        let invalid = |word: &Word| Problem::invalid_parameter(directive, word);
        let mut key = None;
        let method = match directive.name.text.as_str() {
            "least_conn" => Method::LeastConn,
            "ip_hash" => Method::IpHash,
            "hash" => {
                let method = match args.get(1) {
                    None => Method::Hash,
                    Some(word) if word.text == "consistent" => Method::ConsistentHash,
                    Some(word) => return Err(invalid(word)),
                };
                key = Some(Template::parse(&args[0], cx)?);
                method
            }
            "random" => match args {
                [] => Method::Random,
                [two, rest @ ..] if two.text == "two" => match rest {
                    [] => Method::RandomTwo(Two::LeastConn),
                    [word] => Method::RandomTwo(match word.text.split_once('=') {
                        None if word.text == "least_conn" => Two::LeastConn,
                        Some(("least_time", time)) => Two::LeastTime(measure::<P>(time).ok_or_else(|| invalid(word))?),
                        _ => return Err(invalid(word)),
                    }),
                    _ => return Err(Problem::wrong_count(directive)),
                },
                [word, ..] => return Err(invalid(word)),
            },
            _ => {
                let measure = measure::<P>(&args[0].text).ok_or_else(|| invalid(&args[0]))?;
                let inflight = match args.get(1) {
                    None => false,
                    Some(word) if word.text == "inflight" => true,
                    Some(word) => return Err(invalid(word)),
                };
                Method::LeastTime { measure, inflight }
            }
        };
        Ok(GroupMethod { method, key })
    }
}

/// The time that a word of `least_time` stands for.
fn measure<P: SubjectProtocol>(word: &str) -> Option<Measure> {
    P::MEASURES.iter().find(|(name, _)| *name == word).map(|(_, measure)| *measure)
}

fn redefined(directive: &Node) -> Problem {
    Problem::warning("load balancing method redefined").at_node(directive)
}

/// Whether servers after a directive with this name cannot be `backup`; `None` if it does not choose the method.
pub(super) fn refuses_backup(directive: &str) -> Option<bool> {
    match directive {
        "ip_hash" | "hash" | "random" => Some(true),
        "least_conn" | "least_time" => Some(false),
        _ => None,
    }
}

/// Warns, as nginx does, of a method after `keepalive`, which replaces it there.
pub(super) fn warn_of_order(block: &Node, cx: &mut Cx) {
    let mut kept = false;
    for directive in block.children() {
        if directive.name.text == "keepalive" {
            kept = true;
        } else if refuses_backup(&directive.name.text).is_some() && std::mem::take(&mut kept) {
            cx.warn(redefined(directive));
        }
    }
}
