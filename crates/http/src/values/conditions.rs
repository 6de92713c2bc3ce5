//! Conditions of directives: texts with variables. A text holds if it is neither empty nor `0`; one is enough.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};
use freerun_serve::values::Template;
use freerun_serve::values::subject::Subject;

/// The conditions of a directive such as `early_hints` or `proxy_no_cache`, about subjects of the type `S`.
#[derive(Debug)]
pub struct Conditions<S>(Arc<Vec<Template<S>>>);

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for Conditions<S> {
    fn clone(&self) -> Conditions<S> {
        Conditions(self.0.clone())
    }
}

impl<S> Default for Conditions<S> {
    fn default() -> Conditions<S> {
        Conditions(Arc::default())
    }
}

impl<S: Subject> Setting for Conditions<S> {
    const SHAPE: Shape = Shape::at_least(1, "string …");

    /// Several directives of one level add up, as in nginx.
    fn set(previous: Option<Conditions<S>>, directive: &Node, cx: &mut Cx) -> Result<Conditions<S>, Problem> {
        let mut conditions = previous.unwrap_or_default();
        for word in &directive.args {
            let template = Template::parse(word, cx)?;
            Arc::make_mut(&mut conditions.0).push(template);
        }
        Ok(conditions)
    }
}

impl<S: Subject> Conditions<S> {
    /// Whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them holds.
    pub fn hold(&self, subject: &S) -> bool {
        self.0.iter().any(|condition| is_met(condition, subject))
    }

    /// Whether all of them hold.
    pub fn all_hold(&self, subject: &S) -> bool {
        self.0.iter().all(|condition| is_met(condition, subject))
    }
}

/// Whether a text with variables is neither empty nor `0`.
pub fn is_met<S: Subject>(condition: &Template<S>, subject: &S) -> bool {
    let value = condition.render(subject);
    !value.is_empty() && *value != *b"0"
}
