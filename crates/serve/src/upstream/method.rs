//! Values of the directives that choose the method of balancing.

use std::fmt;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word};
use freerun_upstream::method::{Measure, Method, Two};

use crate::subject::Subject;
use crate::values::Template;

/// The method of a group, and the text that it depends on.
pub struct Balance<S> {
    /// How the next server is chosen.
    pub method: Method,
    /// The text that `hash` uses.
    pub key: Option<Template<S>>,
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for Balance<S> {
    fn clone(&self) -> Balance<S> {
        Balance { method: self.method, key: self.key.clone() }
    }
}

impl<S> Default for Balance<S> {
    fn default() -> Balance<S> {
        Balance { method: Method::default(), key: None }
    }
}

impl<S> fmt::Debug for Balance<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Balance").field(&self.method).field(&self.key).finish()
    }
}

impl<S: Subject> Setting for Balance<S> {
    const SHAPE: Shape = Shape::exactly(0, "");

    fn set(previous: Option<Balance<S>>, directive: &Node, cx: &mut Cx) -> Result<Balance<S>, Problem> {
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
                    [word] => Method::RandomTwo(match word.text.as_str() {
                        "least_conn" => Two::LeastConn,
                        "least_time=header" => Two::LeastTime(Measure::Header),
                        "least_time=last_byte" => Two::LeastTime(Measure::LastByte),
                        _ => return Err(invalid(word)),
                    }),
                    _ => return Err(Problem::wrong_count(directive)),
                },
                [word, ..] => return Err(invalid(word)),
            },
            _ => {
                let measure = match args[0].text.as_str() {
                    "header" => Measure::Header,
                    "last_byte" => Measure::LastByte,
                    _ => return Err(invalid(&args[0])),
                };
                let inflight = match args.get(1) {
                    None => false,
                    Some(word) if word.text == "inflight" => true,
                    Some(word) => return Err(invalid(word)),
                };
                Method::LeastTime { measure, inflight }
            }
        };
        Ok(Balance { method, key })
    }
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
