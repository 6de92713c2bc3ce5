//! Messages about a directive whose name is unknown where it stands.

use crate::contexts::Contexts;
use crate::directive_owners::{self, Origin};
use crate::node::Node;
use crate::problem::{Problem, UNQUOTED};
use crate::registry::Registry;
use crate::similar_name::near;

/// The problem of a directive whose name is unknown in this context. Its help is the name's owner or the name that may
/// be meant.
pub fn missing(registry: &Registry, context: Contexts, node: &Node) -> Problem {
    let name = &node.name.text;
    if registry.knows(name) {
        let mut places: Vec<&str> = Vec::new();
        for directive in registry.named(name) {
            places.extend(directive.contexts.names());
        }
        let problem = Problem::new(format!("\"{name}\" directive is not allowed here")).at_node(node);
        return problem.hint(format!("\"{name}\" may stand in: {}", places.join(", ")));
    }
    let problem = Problem::new(format!("unknown directive \"{name}\"")).at_node(node);
    if name.starts_with('\u{feff}') {
        return problem.hint("the file begins with a byte order mark; save it without one");
    }
    if is_repetition(name) {
        return problem.hint(UNQUOTED);
    }
    if let Some((_, instead)) = directive_owners::WITHOUT.iter().find(|(without, _)| without == name) {
        return problem.hint(*instead);
    }
    if let Some((_, instead)) = directive_owners::REMOVED.iter().find(|(removed, _)| removed == name) {
        return problem.hint(*instead);
    }
    match directive_owners::origin(name) {
        Some(Origin::Nginx(module)) => {
            let instead =
                directive_owners::INSTEAD.iter().find(|(replaced, _)| *replaced == module).map(|(_, instead)| *instead);
            let lacking = || format!("nginx has this directive (in {module}), freerun does not have it yet");
            return problem.hint(instead.map_or_else(lacking, str::to_owned));
        }
        Some(Origin::Plus(module)) => {
            return problem.hint(format!("NGINX Plus has this directive (in {module}), freerun does not have it yet"));
        }
        Some(Origin::Other(program, "")) => {
            return problem.hint(format!("the directive is of {program}, which freerun does not have"));
        }
        Some(Origin::Other(program, instead)) => {
            return problem.hint(format!("the directive is of {program}, which freerun does not have; {instead}"));
        }
        None => {}
    }
    if let Some(near) = near(name, registry.names(context)).or_else(|| near(name, registry.names(Contexts::ANY))) {
        return problem.hint(format!("did you mean \"{near}\"?"));
    }
    match near(name, directive_owners::modules().flat_map(|(_, names)| names)) {
        Some(near) => problem.hint(format!("did you mean \"{near}\"? nginx has it, freerun does not have it yet")),
        None => problem,
    }
}

/// Whether a word is what follows `{` in a regular expression that is not in quotes: `2}$` of `^/a{2}$`.
fn is_repetition(name: &str) -> bool {
    name.split_once('}').is_some_and(|(count, _)| {
        count.starts_with(|first: char| first.is_ascii_digit())
            && count.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
    })
}
