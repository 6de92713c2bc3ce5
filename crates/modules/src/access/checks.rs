//! Texts with variables that all have to hold before a request may pass: `auth_require`, `auth_jwt_require`.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_http::values::conditions::is_met;
use freerun_proto::Status;

/// A directive: values that have to hold.
#[derive(Debug, Clone)]
struct Check {
    values: Box<[Template]>,
    /// The status of the answer if one of the values does not hold.
    status: Status,
}

/// The directives of one level.
#[derive(Debug, Clone, Default)]
pub struct Checks(Arc<Vec<Check>>);

impl Checks {
    /// Whether nothing is checked.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The status of the first directive that does not hold.
    pub(super) fn refusal(&self, request: &Request) -> Option<Status> {
        let holds = |check: &&Check| check.values.iter().all(|value| is_met(value, request));
        self.0.iter().find(|check| !holds(check)).map(|check| check.status)
    }
}

impl Setting for Checks {
    const SHAPE: Shape = Shape::at_least(1, "$value … [error=status]");

    fn set(previous: Option<Checks>, directive: &Node, cx: &mut Cx) -> Result<Checks, Problem> {
        let mut checks = previous.unwrap_or_default();
        let is_token = directive.name.as_str() == "auth_jwt_require";
        if !is_token && matches!(&*directive.args, [word] if word.text == "off") {
            return Ok(checks);
        }
        let mut status = if is_token { 401 } else { 403 };
        let mut values = Vec::new();
        for word in &directive.args {
            if let Some(text) = word.text.strip_prefix("error=") {
                let allowed =
                    |status: &u16| if is_token { matches!(status, 401 | 403) } else { (400..600).contains(status) };
                status =
                    text.parse().ok().filter(allowed).ok_or_else(|| Problem::invalid_parameter(directive, word))?;
            } else if word.text.starts_with('$') {
                values.push(Template::parse(word, cx)?);
            } else {
                return Err(Problem::invalid_parameter(directive, word));
            }
        }
        if values.is_empty() {
            return Err(Problem::wrong_count(directive));
        }
        Arc::make_mut(&mut checks.0).push(Check { values: values.into(), status: Status::new(status) });
        Ok(checks)
    }
}
