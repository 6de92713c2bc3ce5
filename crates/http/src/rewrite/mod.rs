//! The rewrite module: `set`, `if`, `rewrite`, `break` and `return`, run as one script for each level, in the order in which
//! they are written.
//!
//! It is part of the path itself and not a module beside others, because `if` is structure: a condition with a location
//! of its own, whose settings hold when the condition does. What was found out about nginx:
//!
//! * A server's script runs before a location is chosen, a location's script after that. A rewritten path is looked up
//!   anew after the location's script, without the server's script; this may happen ten times.
//! * `if` in a location changes the location that answers and the script goes on behind it: of several conditions that
//!   hold, the last one's settings are used, and those of the others are not. `break` inside ends all of the script.
//! * An `if` inherits what its location answers with, but neither `try_files` nor the rest of the script.
//! * `limit_except` replaces the location: its script does not run for the methods that are refused.
//! * `break`, the flag and the directive, also forgets that the path was changed, so it is not looked up again.
//! * What `$1` to `$9` hold is escaped when it is put into arguments or redirects, or is given to `set` before a `rewrite`
//!   has matched, but only if the client's own path had a `%` or a `+` in it.
//! * An expression that does not match in a script clears `$1` to `$9`; one of a `location` does not.

pub mod condition;
mod replace;
mod returns;
mod run;

use std::any::Any;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, settings};

use crate::request::location::Location;
use crate::template::Template;
use crate::variables::{Target, VariableTable};

pub use run::{Ended, at_once, script};

use condition::Condition;
use replace::Replace;
use returns::Return;

settings! {
    /// Changing the path, answering, and setting variables by conditions.
    #[module = "rewrite"]
    pub struct RewriteSettings {
        /// Gives a variable a value, which may contain text, variables and captures.
        #[name = "set"]
        script: Script, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Logs what the rewrite module does, at the level `notice`.
        rewrite_log: bool = "off", in HTTP | SERVER | LOCATION | SERVER_IF | LOCATION_IF;
        /// Whether the use of a variable that `set` has not yet set is logged as a warning.
        uninitialized_variable_warn: bool = "on", in HTTP | SERVER | LOCATION | SERVER_IF | LOCATION_IF;
    }
    also {
        /// Changes the path if it matches a regular expression, or answers with a redirect.
        ///
        /// `last` ends the script and looks for a location for the new path, `break` ends it and stays in the location,
        /// `redirect` answers with 302 and `permanent` with 301; a replacement that begins with `http://`, `https://` or
        /// `$scheme` is always a redirect. The request's arguments are added to those of the replacement, unless it
        /// ends with a question mark.
        "rewrite" => script: Shape::between(2, 3, "regex replacement [last | break | redirect | permanent]"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Ends the script.
        "break" => script: Shape::exactly(0, ""), in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Stops and answers: with a status, a status and a text, or a redirect. 444 closes the connection silently.
        "return" => script: Shape::between(1, 2, "code [text] | code URL | URL"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
    }
}

/// One directive of a script.
#[derive(Clone)]
pub(crate) enum Action {
    Set(Target, Template),
    Rewrite(Arc<Replace>),
    Break,
    Return(Return),
}

/// The directives of one level, but for its `if`s, each with its position in the configuration.
#[derive(Clone, Default)]
pub struct Script(Arc<Vec<(u32, Action)>>);

impl Setting for Script {
    const SHAPE: Shape = Shape::exactly(2, "$variable value");

    fn set(previous: Option<Script>, directive: &Node, cx: &mut Cx) -> Result<Script, Problem> {
        let mut script = previous.unwrap_or_default();
        let action = match directive.name.as_str() {
            "rewrite" => Action::Rewrite(Arc::new(Replace::parse(directive, cx)?)),
            "break" => Action::Break,
            "return" => Action::Return(Return::parse(directive, cx)?),
            _ => assignment(directive, cx)?,
        };
        Arc::make_mut(&mut script.0).push((directive.order, action));
        Ok(script)
    }
}

fn assignment(directive: &Node, cx: &mut Cx) -> Result<Action, Problem> {
    let [name, value] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
    let Some(bare) = name.text.strip_prefix('$').filter(|bare| !bare.is_empty()) else {
        return Err(Problem::new(format!("invalid variable name \"{}\"", name.text)).at(name.place));
    };
    let table = cx.extensions.get_or_default::<VariableTable>();
    let target = table.assign(bare).map_err(|problem| problem.at(name.place))?;
    Ok(Action::Set(target, Template::parse(value, cx)?))
}

/// A step of a location's script.
enum Step {
    /// A directive.
    Act(ActionStep),
    /// An `if` with the location that answers where its condition holds.
    If(Condition, Arc<Location>),
}

/// All steps of a location's script.
type Steps = Box<[Step]>;

/// The script of a location.
fn steps(location: &Location) -> &[Step] {
    let Some(script) = &location.script else { return &[] };
    match script.downcast_ref::<Steps>() {
        Some(steps) => steps,
        None => unreachable!("a script is made by Script::with"),
    }
}

/// A directive of a script, opaque to those who put the script together.
struct ActionStep(Action);

impl Script {
    /// The whole script of a level, as a location keeps it: its directives, and its `if`s by their position in the
    /// configuration. `None` where there is neither.
    pub fn with(&self, conditions: Vec<(u32, Condition, Arc<Location>)>) -> Option<Arc<dyn Any + Send + Sync>> {
        let actions = self.0.iter().map(|(order, action)| (*order, Step::Act(ActionStep(action.clone()))));
        let conditions =
            conditions.into_iter().map(|(order, condition, location)| (order, Step::If(condition, location)));
        let mut steps: Vec<(u32, Step)> = actions.chain(conditions).collect();
        steps.sort_by_key(|(order, _)| *order);
        let steps: Steps = steps.into_iter().map(|(_, step)| step).collect();
        if steps.is_empty() { None } else { Some(Arc::new(steps)) }
    }
}
