//! Rules of the directives: the responses or requests that they apply to, and the fields that they set.

use std::sync::Arc;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word, bytes_of};
use freerun_http::template::Template;

/// The longest name of a field that a directive may have, in bytes.
const MAX_NAME: usize = 1024;

/// The change of one field.
#[derive(Debug, Clone)]
pub(super) struct FieldChange {
    /// The name as written, `*` included.
    pub(super) name: Bytes,
    /// The value; if it comes out empty, the field is removed.
    pub(super) value: Template,
}

impl FieldChange {
    /// The beginning of the names that it concerns, if its own ends with `*`.
    pub(super) fn prefix(&self) -> Option<&[u8]> {
        self.name.strip_suffix(b"*")
    }

    /// Whether it concerns the field of this name.
    pub(super) fn is_for(&self, name: &[u8]) -> bool {
        match self.prefix() {
            Some(prefix) => name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
            None => name.eq_ignore_ascii_case(&self.name),
        }
    }
}

/// A directive.
#[derive(Debug, Clone)]
pub(super) struct HeaderRule {
    /// The statuses that it applies to; all if there are none.
    statuses: Box<[u16]>,
    /// The media types that it applies to; all if there are none.
    types: Box<[Box<[u8]>]>,
    /// Whether it only replaces fields (`-r`).
    pub(super) only_existing: bool,
    /// Whether its fields stand beside fields of the same name (`-a`).
    pub(super) appends: bool,
    pub(super) changes: Box<[FieldChange]>,
}

impl HeaderRule {
    pub(super) fn takes_status(&self, status: u16) -> bool {
        self.statuses.is_empty() || self.statuses.contains(&status)
    }

    pub(super) fn takes_type(&self, media_type: Option<&[u8]>) -> bool {
        self.types.is_empty() || media_type.is_some_and(|this| self.types.iter().any(|listed| &**listed == this))
    }

    fn parse(directive: &Node, cx: &mut Cx) -> Result<HeaderRule, Problem> {
        let named = directive.name.as_str();
        let is_input = named.contains("input");
        let sets = named.starts_with("more_set");
        let (mut statuses, mut types, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut only_existing, mut appends) = (false, false);
        let mut words = directive.args.iter();
        while let Some(word) = words.next() {
            let mut argument = || {
                let missing =
                    || Problem::new(format!("{named}: option {} takes an argument", word.text)).at(word.place);
                words.next().ok_or_else(missing)
            };
            match word.as_str() {
                "-s" if !is_input => parse_statuses(named, argument()?, &mut statuses)?,
                "-t" => types.extend(argument()?.text.split_whitespace().filter_map(media_type)),
                "-r" if is_input => only_existing = true,
                "-a" if sets && !is_input => appends = true,
                text if text.starts_with('-') => {
                    return Err(Problem::new(format!("{named}: invalid option name: \"{text}\"")).at(word.place));
                }
                _ => changes.extend(parse_change(named, word, sets, cx)?),
            }
        }
        let (statuses, types, changes) = (statuses.into(), types.into(), changes.into());
        Ok(HeaderRule { statuses, types, only_existing, appends, changes })
    }
}

fn parse_statuses(directive: &str, list: &Word, out: &mut Vec<u16>) -> Result<(), Problem> {
    for status in list.text.split_whitespace() {
        let wrong = status.chars().find(|char| !char.is_ascii_digit());
        if let Some(wrong) = wrong {
            let list = &list.text;
            let message = format!("{directive}: invalid digit \"{wrong}\" found in the status code list \"{list}\"");
            return Err(Problem::new(message));
        }
        // A larger number is the status of no response.
        out.extend(status.parse::<u16>());
    }
    Ok(())
}

/// The media type without parameters.
fn media_type(text: &str) -> Option<Box<[u8]>> {
    let bare = text.split(';').next().unwrap_or_default();
    (!bare.is_empty()).then(|| bytes_of(bare).into())
}

fn parse_change(directive: &str, word: &Word, sets: bool, cx: &mut Cx) -> Result<Option<FieldChange>, Problem> {
    let (name, value) = word.text.split_once(':').unwrap_or((&word.text, ""));
    let name = name.trim();
    if name.is_empty() {
        return Ok(None);
    }
    if name == "*" {
        return Err(Problem::new(format!("{directive}: wildcard key too short: {name}")).at(word.place));
    }
    if name.len() > MAX_NAME || name.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(Problem::new(format!("{directive}: invalid name of a field \"{name}\"")).at(word.place));
    }
    let value = if sets { value.trim_start().to_owned() } else { String::new() };
    let value = Template::parse(&Word { text: value, ..word.clone() }, cx)?;
    Ok(Some(FieldChange { name: Bytes::from(bytes_of(name).into_owned()), value }))
}

/// The directives of a level, behind the directives of the levels around it.
#[derive(Debug, Clone, Default)]
pub struct HeaderRules(Arc<Vec<HeaderRule>>);

impl HeaderRules {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &HeaderRule> {
        self.0.iter()
    }
}

impl Setting for HeaderRules {
    const SHAPE: Shape = Shape::at_least(1, "[options] name:value …");

    fn set(previous: Option<HeaderRules>, directive: &Node, cx: &mut Cx) -> Result<HeaderRules, Problem> {
        let mut level = previous.unwrap_or_default();
        Arc::make_mut(&mut level.0).push(HeaderRule::parse(directive, cx)?);
        Ok(level)
    }

    fn merge(level: Option<HeaderRules>, outer: &HeaderRules) -> HeaderRules {
        match level {
            Some(own) if outer.is_empty() => own,
            Some(own) => HeaderRules(Arc::new(outer.iter().chain(own.iter()).cloned().collect())),
            None => outer.clone(),
        }
    }
}
