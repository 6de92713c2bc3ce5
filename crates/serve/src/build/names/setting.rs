//! `server_name`.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};

use super::table::ServerName;
use crate::values::subject::Subject;
use crate::values::{Pattern, VariableTable};

/// The names of one server, whose regular expressions may give variables values.
pub struct ServerNames<S> {
    /// The names in the order written.
    pub names: Arc<Vec<ServerName>>,
    /// The first name, for `$server_name` and redirects: in lower case, or an expression as written.
    pub first: Arc<str>,
    subject: PhantomData<fn(&S)>,
}

// Not derived, because that would demand the trait of the subject.
impl<S> Clone for ServerNames<S> {
    fn clone(&self) -> ServerNames<S> {
        ServerNames { names: self.names.clone(), first: self.first.clone(), subject: PhantomData }
    }
}

impl<S> Default for ServerNames<S> {
    fn default() -> ServerNames<S> {
        ServerNames { names: Arc::default(), first: Arc::default(), subject: PhantomData }
    }
}

impl<S> fmt::Debug for ServerNames<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.names.iter()).finish()
    }
}

impl<S: Subject> Setting for ServerNames<S> {
    const SHAPE: Shape = Shape::at_least(1, "name …");

    fn set(previous: Option<ServerNames<S>>, directive: &Node, cx: &mut Cx) -> Result<ServerNames<S>, Problem> {
        let first = previous.as_ref().map(|names| names.first.clone());
        let mut names = previous.map(|names| names.names.to_vec()).unwrap_or_default();
        for word in &directive.args {
            let text = word.text.as_str();
            let invalid = |what: &str| Problem::new(format!("{what} \"{text}\"")).at(word.place);
            if let Some(pattern) = text.strip_prefix('~') {
                if pattern.is_empty() {
                    return Err(invalid("empty regex in server name"));
                }
                // nginx matches names without regard to case, because it converts the host to lower case.
                let pattern = Pattern::new(pattern, true, cx.extensions.get_or_default::<VariableTable<S>>());
                let pattern = pattern.map_err(|why| Problem::new(why).at(word.place))?;
                names.push(ServerName::Regex(Arc::new(pattern)));
                continue;
            }
            let lower = text.to_lowercase();
            if matches!(lower.as_str(), "." | "*." | ".*") {
                return Err(Problem::new(format!("server name \"{text}\" is invalid")).at(word.place));
            }
            let stars = lower.matches('*').count();
            names.push(if let Some(rest) = lower.strip_prefix("*.") {
                if stars > 1 || rest.is_empty() {
                    return Err(invalid("invalid server name or wildcard"));
                }
                ServerName::Front(format!(".{rest}"), false)
            } else if lower.starts_with('.') && stars == 0 && lower.len() > 1 {
                ServerName::Front(lower, true)
            } else if let Some(rest) = lower.strip_suffix(".*") {
                if stars > 1 || rest.is_empty() {
                    return Err(invalid("invalid server name or wildcard"));
                }
                ServerName::Back(format!("{rest}."))
            } else if stars > 0 {
                return Err(invalid("invalid server name or wildcard"));
            } else {
                ServerName::Exact(lower)
            });
        }
        let first = first.unwrap_or_else(|| {
            let written = directive.args[0].text.as_str();
            if written.starts_with('~') {
                return written.into();
            }
            // `.example.com` stands for `example.com` here.
            written.strip_prefix('.').unwrap_or(written).to_lowercase().into()
        });
        Ok(ServerNames { names: Arc::new(names), first, subject: PhantomData })
    }
}
