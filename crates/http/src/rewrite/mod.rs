//! The rewrite module: `set`, `if`, `rewrite`, `break` and `return`, run as one script for each level, in the order in which
//! they are written.
//!
//! It is part of the request path and not a module beside others, because `if` is structure: a condition with a
//! location of its own. The settings of that location apply if the condition holds. Observations about nginx:
//!
//! * A server's script runs before a location is chosen, a location's script after that. A rewritten path is looked up
//!   anew after the location's script, without the server's script; this may happen ten times.
//! * `if` in a location changes the location that answers, and the script goes on behind it. If several conditions
//!   hold, only the settings of the last one are used. `break` inside ends all of the script.
//! * An `if` inherits what its location answers with, but neither `try_files` nor the rest of the script.
//! * `limit_except` replaces the location: its script does not run for the methods that are refused.
//! * `break`, the flag and the directive, also forgets that the path was changed, so it is not looked up again.
//! * The values of `$1` to `$9` are escaped when they are put into arguments or redirects, or are given to `set` before
//!   a `rewrite` has matched. They are so only if the client's own path had a `%` or a `+` in it.
//! * An expression that does not match in a script clears `$1` to `$9`; one of a `location` does not.

mod replace;
mod returns;
mod run;

use freerun_conf::{Shape, settings};

use crate::request::Request;
use crate::script::Script;

pub use run::{ScriptEnd, at_once, script};

settings! {
    /// Changing the path, answering, and setting variables by conditions.
    #[module = "rewrite"]
    pub struct RewriteSettings {
        /// Gives a variable a value, which may contain text, variables and captures.
        #[name = "set"]
        script: Script<Request>, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Logs what the rewrite module does, at the level `notice`.
        rewrite_log: bool = "off", in HTTP | SERVER | LOCATION | SERVER_IF | LOCATION_IF;
        /// Whether the use of a variable that `set` has not yet set is logged as a warning.
        uninitialized_variable_warn: bool = "on", in HTTP | SERVER | LOCATION | SERVER_IF | LOCATION_IF;
    }
    also {
        /// Changes the path if it matches a regular expression, or answers with a redirect.
        ///
        /// `last` ends the script and looks for a location for the new path, `break` ends it and stays in the location.
        /// `redirect` answers with 302 and `permanent` with 301; a replacement that begins with `http://`, `https://`
        /// or `$scheme` is always a redirect. The request's arguments are added to the arguments of the replacement,
        /// unless it ends with a question mark.
        "rewrite" => script: Shape::between(2, 3, "regex replacement [last | break | redirect | permanent]"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Ends the script.
        "break" => script: Shape::exactly(0, ""), in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Stops and answers: with a status, a status and a text, or a redirect. 444 closes the connection silently.
        "return" => script: Shape::between(1, 2, "code [text] | code URL | URL"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
    }
}
