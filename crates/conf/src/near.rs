//! Messages about an unknown name.

use crate::contexts::Contexts;
use crate::known::{self, Origin};
use crate::problem::Problem;
use crate::registry::Registry;
use crate::tree::Node;

/// The problem of a directive whose name is unknown in this context, with who has it or what may be meant as help.
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
    if let Some((_, instead)) = known::WITHOUT.iter().find(|(without, _)| without == name) {
        return problem.hint(*instead);
    }
    if let Some((_, instead)) = known::REMOVED.iter().find(|(removed, _)| removed == name) {
        return problem.hint(*instead);
    }
    match known::origin(name) {
        Some(Origin::Nginx(module)) => {
            let instead = known::INSTEAD.iter().find(|(replaced, _)| *replaced == module).map(|(_, instead)| *instead);
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
    match near(name, known::modules().flat_map(|(_, names)| names)) {
        Some(near) => problem.hint(format!("did you mean \"{near}\"? nginx has it, freerun does not have it yet")),
        None => problem,
    }
}

/// The hint to a brace of a regular expression that was taken for that of a block.
pub(crate) const UNQUOTED: &str = "a regular expression with \"{\" or \"}\" has to stand in quotes";

/// Whether a word is what follows `{` in a regular expression that is not in quotes: `2}$` of `^/a{2}$`.
fn is_repetition(name: &str) -> bool {
    name.split_once('}').is_some_and(|(count, _)| {
        count.starts_with(|first: char| first.is_ascii_digit())
            && count.bytes().all(|byte| byte.is_ascii_digit() || byte == b',')
    })
}

/// The hint to a parameter of a directive with this syntax that is similar to the one in nginx's message about it.
pub(crate) fn parameter(message: &str, syntax: &str) -> Option<String> {
    // The last one is of `stream`.
    let beginnings = ["invalid parameter \"", "invalid value \"", "the invalid \""];
    let quoted = beginnings.iter().find_map(|begin| message.strip_prefix(begin))?;
    let wrong = quoted.split_once('"')?.0;
    let (name, value) = wrong.split_once('=').map_or((wrong, false), |(name, _)| (name, true));
    // What the documentation writes as `[name]`, `[name=value]` or between `|` is written as it stands.
    let words = syntax.split(|sign: char| sign.is_whitespace() || "[]|".contains(sign)).filter(|word| !word.is_empty());
    let parameters = words.filter_map(|word| match word.split_once('=') {
        Some((name, _)) => value.then_some(name),
        None => (!value).then_some(word),
    });
    let near = near(name, parameters).filter(|near| *near != name)?;
    Some(format!("did you mean \"{near}{}\"?", if value { "=" } else { "" }))
}

/// The most similar of some names, if it is similar enough: at most a quarter of the letters, and at most three, are
/// wrong.
pub fn near<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters = wrong.chars().count();
    let limit = (letters / 4).clamp(1, 3);
    if !(3..=64).contains(&letters) {
        return None;
    }
    names
        .filter(|name| name.len().abs_diff(letters) <= limit)
        .filter_map(|name| Some((distance(wrong, name)?, name)))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// The number of edits (insert, delete, replace, swap of neighbours) that turn one name into the other, ignoring case.
fn distance(left: &str, right: &str) -> Option<usize> {
    let left: Vec<char> = left.chars().map(|letter| letter.to_ascii_lowercase()).collect();
    let right: Vec<char> = right.chars().map(|letter| letter.to_ascii_lowercase()).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, a) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in right.iter().enumerate() {
            let mut best = (above[column] + usize::from(a != b)).min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *a == right[column - 1] && left[row - 1] == *b {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied()
}
