//! The choice of a `location`, as its arguments say it, and directives that exclude each other in it.

use freerun_conf::{Cx, Node, Problem};
use freerun_serve::values::VariableReference;

use crate::regex::Pattern;
use crate::request::Request;
use crate::variables::VariableTable;

/// The way to choose a location.
pub(super) enum Kind {
    /// By its whole path.
    Exact,
    /// By the beginning of the path.
    Prefix { no_regex: bool },
    /// By a regular expression.
    Regex(Pattern),
    /// By a variable.
    Predicate(VariableReference<Request>),
    /// By its name alone.
    Named,
}

/// Warns of an alias that leads out of its folder: `location /img { alias /x/; }` serves `/img../secret` from
/// `/x/../secret`.
pub(super) fn warn_of_way_out(location: &Node, name: &str, cx: &mut Cx) {
    let alias = location.children().iter().find(|node| node.name.text == "alias");
    let Some((alias, path)) = alias.and_then(|alias| Some((alias, alias.args.first()?))) else { return };
    if !name.ends_with('/') && path.text.ends_with('/') {
        let message = format!(
            "location \"{name}\" does not end with a slash and its alias \"{}\" does: \"{name}..\" leads out of the folder",
            path.text
        );
        cx.warn(Problem::warning(message).at_node(alias).hint(format!("write: location {name}/")));
    }
}

/// Refuses `root` together with `alias` in one location, and `alias` in a named location, where no part of the path was
/// matched that it could replace.
pub(super) fn root_and_alias(location: &Node, named: bool, cx: &mut Cx) -> Result<(), Problem> {
    if let Some(alias) = location.children().iter().find(|node| named && node.name.text == "alias") {
        let message = "the \"alias\" directive cannot be used inside the named location";
        cx.report(Problem::new(message).at_node(alias))?;
    }
    let mut both = location.children().iter().filter(|node| matches!(node.name.text.as_str(), "root" | "alias"));
    let (Some(first), Some(second)) = (both.next(), both.next()) else { return Ok(()) };
    if first.name.text == second.name.text {
        return Ok(());
    }
    let (earlier, name) = (&first.name.text, &second.name.text);
    let message = format!("\"{name}\" directive is duplicate, \"{earlier}\" directive was specified earlier");
    cx.report(Problem::new(message).at_node(second).first_at(first.name.place))
}

/// Modifier and name of a location; the modifier may be glued to the name (`=/x`).
fn modifier_and_name(node: &Node) -> (&str, &str) {
    let first = node.args.first().map_or("", |word| word.text.as_str());
    match node.args.get(1) {
        Some(second) => (first, second.text.as_str()),
        None => {
            let modifier = ["^~", "~*", "~", "="].into_iter().find(|modifier| first.starts_with(modifier));
            (modifier.unwrap_or(""), first.strip_prefix(modifier.unwrap_or("")).unwrap_or(first))
        }
    }
}

/// Whether a directive is a location that there cannot be beside this one.
pub(super) fn is_same(other: &Node, location: &Node) -> bool {
    let ((modifier, name), (known, same)) = (modifier_and_name(location), modifier_and_name(other));
    other.name.text == location.name.text
        && name == same
        && (modifier == "=") == (known == "=")
        && !known.starts_with('~')
}

/// Reads modifier and name.
pub(super) fn kind(node: &Node, cx: &mut Cx) -> Result<(Kind, String), Problem> {
    let (modifier, name) = modifier_and_name(node);
    if node.args.len() > 1 && modifier.is_empty() {
        return Err(Problem::new("invalid location modifier \"\"").at_node(node));
    }
    let place = node.args.last().map_or(node.name.place, |word| word.place);
    let kind = match modifier {
        "=" => Kind::Exact,
        "^~" => Kind::Prefix { no_regex: true },
        "~" | "~*" => {
            let variables = cx.extensions.get_or_default::<VariableTable>();
            let pattern = Pattern::new(name, modifier == "~*", variables);
            Kind::Regex(pattern.map_err(|why| Problem::new(why).at(place))?)
        }
        "" if name.starts_with('@') => Kind::Named,
        "" if name.starts_with('$') => {
            let variable = &name[1..];
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if variable.is_empty() || !variable.bytes().all(is_name) {
                return Err(Problem::new(format!("invalid variable name \"{name}\"")).at(place));
            }
            Kind::Predicate(cx.extensions.get_or_default::<VariableTable>().resolve(variable, place))
        }
        "" => Kind::Prefix { no_regex: false },
        other => {
            return Err(Problem::new(format!("invalid location modifier \"{other}\""))
                .at(node.args[0].place)
                .hint("modifiers are =, ~, ~* and ^~"));
        }
    };
    Ok((kind, name.to_owned()))
}
