//! Applies one block's directives on top of the settings of the enclosing block.

use std::any::Any;

use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::directive::{Block, Shape};
use crate::node::Node;
use crate::parse::missing_end;
use crate::problem::Problem;
use crate::registry::{Owner, Registry};
use crate::settings::{Entry, SettingsSet};
use crate::similar_name;
use crate::unknown_directive::missing;
use crate::value::raw_entries;

/// Applies the directives of one block. Unknown names, contexts, terminators and counts are checked with nginx's
/// wording, and settings are folded over `parent`. The structural directives (mostly child blocks) are returned in the
/// order in which they were written, for a builder to walk.
///
/// Problems of directives are noted in `cx` and applying goes on, so that [`Cx::conclude`] can report the first problem
/// in reading order. An invalid structural directive is not returned.
///
/// # Errors
/// Only if [`crate::MAX_PROBLEMS`] were noted.
pub fn apply_block<'n>(
    registry: &Registry,
    context: Contexts,
    nodes: &'n [Node],
    parent: &SettingsSet,
    cx: &mut Cx,
) -> Result<(SettingsSet, Vec<&'n Node>), Problem> {
    let outer = std::mem::replace(&mut cx.context, context);
    let mut levels: Vec<BlockLevel> = registry.groups().iter().map(|_| BlockLevel::default()).collect();
    let mut structure = Vec::new();
    let result = nodes.iter().try_for_each(|node| {
        match place(registry, context, node) {
            Err(problem) => cx.report(advised(problem, registry, context, node))?,
            Ok(Owner::Structure) => structure.push(node),
            Ok(Owner::Group(index, row)) => {
                let group = registry.groups()[index];
                let level = &mut levels[index];
                let state = level.state.get_or_insert_with(|| group.level());
                level.locals |= !group.directives()[row].inherit;
                let raw = group.directives()[row].shape.block == Block::Raw;
                let checked = if raw { raw_entries(node).map(drop) } else { Ok(()) };
                let warned = cx.warnings.len();
                let result = checked.and_then(|()| group.set(state.as_mut(), row, node, cx));
                for warning in cx.warnings.iter_mut().skip(warned) {
                    warning.complete(node);
                }
                if let Err(mut problem) = result {
                    problem.complete(node);
                    name_the_first(&mut problem, nodes, node);
                    name_the_first_entry(&mut problem, node);
                    cx.report(advised(problem, registry, context, node))?;
                }
            }
        }
        Ok(())
    });
    cx.context = outer;
    result?;
    Ok((merged(registry, levels, parent, context), structure))
}

/// Adds the place of the first directive to the problem of its second occurrence.
fn name_the_first(problem: &mut Problem, nodes: &[Node], node: &Node) {
    if problem.first.is_some() || !problem.message.ends_with(" directive is duplicate") {
        return;
    }
    let first = nodes.iter().find(|other| other.name.text == node.name.text && other.order < node.order);
    problem.first = first.map(|first| first.name.place);
}

/// Does the same for two entries of a block that its type reads, such as `map {}`.
fn name_the_first_entry(problem: &mut Problem, node: &Node) {
    let is_second = ["conflicting parameter ", "duplicate "].iter().any(|begin| problem.message.starts_with(begin));
    let Some(second) = node.children().iter().find(|entry| is_second && problem.order == Some(entry.order)) else {
        return;
    };
    let is_same = |entry: &&Node| entry.name.text.eq_ignore_ascii_case(&second.name.text) && entry.order < second.order;
    problem.first = problem.first.or(node.children().iter().find(is_same).map(|first| first.name.place));
}

/// Adds to the problem of a directive what may be the reason: a `;` that was forgotten, or a name with a letter wrong.
fn advised(mut problem: Problem, registry: &Registry, context: Contexts, node: &Node) -> Problem {
    if let Some(line) = forgotten_end(&problem, registry, context, node) {
        return problem.hint(missing_end(line));
    }
    if node.args.first().is_some_and(|word| word.text == "=" && !word.quoted)
        && problem.message.starts_with("invalid number of")
    {
        return problem.hint(format!("no \"=\" stands between \"{}\" and its value", node.name.text));
    }
    if problem.hint.is_none()
        && let Some(shape) = registry.lookup(&node.name.text, context).map(|directive| directive.shape)
    {
        problem.hint = similar_name::parameter(&problem.message, shape.syntax).or_else(|| {
            is_of_a_value(&problem).then(|| written(node, shape) + &syntax(&node.name.text, shape) + units(shape))
        });
    }
    problem
}

/// Whether a problem says that a word is not what the directive takes, and not what would be.
fn is_of_a_value(problem: &Problem) -> bool {
    let message = &problem.message;
    problem.first.is_none() && message.contains("invalid ") && !message.contains("it must be")
}

/// The question whether a size or a time was meant whose unit is longer than a letter, as other programs write it.
fn written(node: &Node, shape: Shape) -> String {
    let meant = node.args.iter().find_map(|word| {
        let digits = word.text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = word.text.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let unit = unit.to_ascii_lowercase();
        match unit.as_str() {
            "kb" | "kib" if units(shape) == OF_SIZES => Some(format!("{number}k")),
            "mb" | "mib" if units(shape) == OF_SIZES => Some(format!("{number}m")),
            "gb" | "gib" if units(shape) == OF_SIZES => Some(format!("{}m", number.checked_mul(1024)?)),
            "sec" | "secs" | "second" | "seconds" if units(shape) == OF_TIMES => Some(format!("{number}s")),
            "min" | "mins" | "minute" | "minutes" if units(shape) == OF_TIMES => Some(format!("{number}m")),
            "hr" | "hrs" | "hour" | "hours" if units(shape) == OF_TIMES => Some(format!("{number}h")),
            "day" | "days" if units(shape) == OF_TIMES => Some(format!("{number}d")),
            _ => None,
        }
    });
    meant.map_or_else(String::new, |meant| format!("did you mean \"{meant}\"? "))
}

/// The form of sizes.
const OF_SIZES: &str = " where a size is 512, 8k or 10m";

/// The form of times.
const OF_TIMES: &str = " where a time is 500ms, 30, 30s, 5m, 12h or 1d";

/// The form of the sizes and times that a directive takes.
fn units(shape: Shape) -> &'static str {
    let takes = |what: &str| shape.syntax.split(|mark: char| !mark.is_alphabetic()).any(|word| word == what);
    match (takes("size"), takes("time")) {
        (true, false) => OF_SIZES,
        (false, true) => OF_TIMES,
        _ => "",
    }
}

/// The help for arguments that are not as they should be.
fn syntax(name: &str, shape: Shape) -> String {
    let tail = if shape.is_block() { " { … }" } else { ";" };
    let space = if shape.syntax.is_empty() { "" } else { " " };
    format!("the syntax is: {name}{space}{}{tail}", shape.syntax)
}

/// The line at whose end a `;` may be missing: the line after it begins with the name of a directive, but this name has
/// become an argument. In a block that its type reads, it is the line of an entry that goes on in the next one.
fn forgotten_end(problem: &Problem, registry: &Registry, context: Contexts, node: &Node) -> Option<u32> {
    let is_raw = registry.lookup(&node.name.text, context).is_some_and(|known| known.shape.block == Block::Raw);
    let entry = node.children().iter().find(|entry| is_raw && problem.order == Some(entry.order));
    let blamed = entry.unwrap_or(node);
    let words = || std::iter::once(&blamed.name).chain(&blamed.args);
    words().zip(words().skip(1)).find_map(|(before, word)| {
        let goes_on = before.last_line() < word.place.line && before.place.file == word.place.file && !word.quoted;
        let is_name = || entry.is_some() || registry.lookup(&word.text, context).is_some();
        (goes_on && is_name()).then(|| before.last_line())
    })
}

#[derive(Default)]
struct BlockLevel {
    state: Option<Box<dyn Any>>,
    locals: bool,
}

/// The new set; the parent's own set if the block changes nothing.
fn merged(registry: &Registry, levels: Vec<BlockLevel>, parent: &SettingsSet, within: Contexts) -> SettingsSet {
    let mut entries: Option<Vec<Option<Entry>>> = None;
    for (group, level) in registry.groups().iter().zip(levels) {
        let Some(Some(old)) = parent.0.get(group.slot()) else { continue };
        if level.state.is_none() && !old.locals && !group.merges_always() {
            continue;
        }
        let value = group.merge(level.state, &old.value, &old.default, within);
        // Values that an `if` took over from its location must not be inherited further.
        let kept = old.locals && within.contains(Contexts::LOCATION_IF);
        let entry = Entry { value, default: old.default.clone(), locals: level.locals || kept };
        entries.get_or_insert_with(|| parent.0.to_vec())[group.slot()] = Some(entry);
    }
    entries.map_or_else(|| parent.clone(), |entries| SettingsSet(entries.into()))
}

/// The owner of a directive, after nginx's checks in nginx's order: name, context, terminator, number of arguments.
fn place(registry: &Registry, context: Contexts, node: &Node) -> Result<Owner, Problem> {
    let name = &node.name.text;
    let Some((directive, owner)) = registry.find(name, context) else {
        return Err(missing(registry, context, node));
    };
    let shape = directive.shape;
    match (&node.block, shape.is_block()) {
        (None, true) => {
            let message = format!("directive \"{name}\" has no opening \"{{\"");
            // With one word more than it takes, the block's directives have become words.
            let within = node.args.iter().find(|word| registry.knows(&word.text)).map(|word| word.place);
            return Err(Problem::new(message)
                .at_node(node)
                .at(within.unwrap_or(node.end))
                .hint_if(within.map(|_| "is a \"{\" missing before this word?".to_owned())));
        }
        (Some(_), false) => {
            let message = format!("directive \"{name}\" is not terminated by \";\"");
            return Err(Problem::new(message).at_node(node).at(node.end));
        }
        _ => {}
    }
    if !shape.takes(node.args.len()) {
        let problem = Problem::wrong_count(node);
        let problem = match node.args.get(shape.max as usize) {
            Some(extra) => problem.at(extra.place),
            None => problem,
        };
        return Err(problem.hint(syntax(name, shape)));
    }
    Ok(owner)
}
