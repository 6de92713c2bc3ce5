//! `num_map`: a variable whose value depends on a number.

use std::ops::RangeInclusive;

use freerun_conf::{Cx, Node, Problem, Shape, Word};

use super::blocks::{Blocks, Lookup, entries, looked_up};
use crate::values::subject::Subject;
use crate::values::{Compute, ComputeResult, Template};

/// The value of `num_map`.
pub type NumMaps<S> = Blocks<NumMap<S>>;

/// A `num_map` block: its ranges in the order written, each with its value.
pub struct NumMap<S> {
    source: Template<S>,
    entries: Vec<(RangeInclusive<i64>, Template<S>)>,
    default: Option<Template<S>>,
    volatile: bool,
}

impl<S: Subject> Lookup for NumMap<S> {
    type Subject = S;

    const SHAPE: Shape = Shape::exactly(2, "$number $variable { range value; … }").with_raw_block();

    fn parse(directive: &Node, cx: &mut Cx) -> Result<NumMap<S>, Problem> {
        let source = looked_up(directive, cx)?;
        let mut map = NumMap { source, entries: Vec::new(), default: None, volatile: false };
        entries(directive, |entry| map.add(entry, cx))?;
        Ok(map)
    }
}

impl<S: Subject> NumMap<S> {
    fn add(&mut self, entry: &Node, cx: &mut Cx) -> Result<(), Problem> {
        let fail = |message: String, word: &Word| Problem::new(message).at_node(entry).at(word.place);
        let key = &entry.name;
        match (&*entry.args, key.as_str()) {
            ([], "volatile") => self.volatile = true,
            ([value], "default") => {
                if self.default.replace(Template::parse(value, cx)?).is_some() {
                    return Err(fail("duplicate default num_map parameter".to_owned(), key));
                }
            }
            ([value], text) => {
                let range = range(text).ok_or_else(|| fail(format!("invalid number or range \"{text}\""), key))?;
                self.entries.push((range, Template::parse(value, cx)?));
            }
            _ => return Err(fail("invalid number of the num_map parameters".to_owned(), key)),
        }
        Ok(())
    }
}

impl<S: Subject> Compute<S> for NumMap<S> {
    fn find(&self, subject: &S) -> ComputeResult {
        let text = self.source.render(subject);
        let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
        let entry = number.and_then(|number| self.entries.iter().find(|(range, _)| range.contains(&number)));
        let value = entry.map(|(_, value)| value).or(self.default.as_ref());
        ComputeResult::Text(value.map(|value| value.render(subject).into_owned()).unwrap_or_default())
    }

    fn entry(&self, _: u32) -> &[u8] {
        b""
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}

/// Reads `5`, `1-5`, `<5`, `<=5`, `>5` or `>=5`. `None` if it is no range, or an empty one.
fn range(text: &str) -> Option<RangeInclusive<i64>> {
    let number = |text: &str| text.parse::<i64>().ok();
    let range = if let Some(text) = text.strip_prefix("<=") {
        i64::MIN..=number(text)?
    } else if let Some(text) = text.strip_prefix('<') {
        i64::MIN..=number(text)?.checked_sub(1)?
    } else if let Some(text) = text.strip_prefix(">=") {
        number(text)?..=i64::MAX
    } else if let Some(text) = text.strip_prefix('>') {
        number(text)?.checked_add(1)?..=i64::MAX
    } else if let Some(one) = number(text) {
        one..=one
    } else {
        // The first character may be a sign.
        let dash = text.char_indices().skip(1).find(|(_, letter)| *letter == '-')?.0;
        number(&text[..dash])?..=number(&text[dash + 1..])?
    };
    (!range.is_empty()).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        for (text, wanted) in [
            ("5", Some(5..=5)),
            ("-5", Some(-5..=-5)),
            ("1-5", Some(1..=5)),
            ("-5--1", Some(-5..=-1)),
            ("<5", Some(i64::MIN..=4)),
            ("<=-5", Some(i64::MIN..=-5)),
            (">5", Some(6..=i64::MAX)),
            (">=5", Some(5..=i64::MAX)),
            ("5-1", None),
            ("x", None),
            ("", None),
            ("1-", None),
            ("=<5", None),
            ("-", None),
            ("ü-1", None),
        ] {
            assert_eq!(range(text), wanted, "{text}");
        }
    }
}
