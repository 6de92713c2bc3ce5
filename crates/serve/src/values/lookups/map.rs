//! `map`: a variable whose value depends on others.

use freerun_conf::{Cx, Node, Problem, Shape, Word, bytes_of, text_of};
use freerun_runtime::log::Level;
use smallvec::SmallVec;

use super::blocks::{Blocks, Lookup, entries, looked_up};
use super::hostnames::{HostnameRefusal, Keys};
use crate::values::subject::Subject;
use crate::values::{Compute, ComputeResult, Pattern, Template, VariableTable};

/// The value of `map`.
pub type Maps<S> = Blocks<Map<S>>;

/// A `map` block.
pub struct Map<S> {
    source: Template<S>,
    keys: Keys,
    expressions: Vec<(Pattern, u32)>,
    values: Vec<Value<S>>,
    default: Option<u32>,
    hostnames: bool,
    volatile: bool,
}

enum Value<S> {
    Text(Box<[u8]>),
    Template(Template<S>),
}

impl<S: Subject> Lookup for Map<S> {
    type Subject = S;

    const SHAPE: Shape = Shape::exactly(2, "string $variable { key value; … }").with_raw_block();

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Map<S>, Problem> {
        let source = looked_up(directive, cx)?;
        let (keys, expressions, values) = (Keys::default(), Vec::new(), Vec::new());
        let mut map = Map { source, keys, expressions, values, default: None, hostnames: false, volatile: false };
        entries(directive, |entry| map.add(entry, cx))?;
        Ok(map)
    }
}

impl<S: Subject> Map<S> {
    fn add(&mut self, entry: &Node, cx: &mut Cx) -> Result<(), Problem> {
        let fail = |message: String, word: &Word| Problem::new(message).at_node(entry).at(word.place);
        let key = &entry.name;
        match (&*entry.args, key.as_str()) {
            ([], "hostnames") => self.hostnames = true,
            ([], "volatile") => self.volatile = true,
            ([value], text) => {
                let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
                let template = Template::parse(value, cx).map_err(|problem| problem.at_node(entry).at(value.place))?;
                self.values.push(match template.constant() {
                    Some(text) => Value::Text(text.into()),
                    None => Value::Template(template),
                });
                if text == "default" {
                    if self.default.replace(number).is_some() {
                        return Err(fail("duplicate default map parameter".to_owned(), key));
                    }
                } else if let Some(pattern) = text.strip_prefix('~') {
                    let (pattern, caseless) = match pattern.strip_prefix('*') {
                        Some(pattern) => (pattern, true),
                        None => (pattern, false),
                    };
                    let table = cx.extensions.get_or_default::<VariableTable<S>>();
                    let pattern = Pattern::new(pattern, caseless, table).map_err(|why| fail(why, key))?;
                    self.expressions.push((pattern, number));
                } else {
                    let text = text.strip_prefix('\\').unwrap_or(text);
                    let lower = text.to_ascii_lowercase();
                    let added = if self.hostnames {
                        self.keys.add_hostname(&bytes_of(&lower), number)
                    } else {
                        self.keys.add(&bytes_of(&lower), number)
                    };
                    added.map_err(|refused| match refused {
                        HostnameRefusal::Conflict => fail(format!("conflicting parameter \"{lower}\""), key),
                        HostnameRefusal::Invalid => fail(format!("invalid hostname or wildcard \"{text}\""), key),
                    })?;
                }
            }
            _ => return Err(fail("invalid number of the map parameters".to_owned(), key)),
        }
        Ok(())
    }

    fn lookup(&self, value: &[u8], subject: &S) -> Option<u32> {
        let name = if self.hostnames { value.strip_suffix(b".").unwrap_or(value) } else { value };
        let found = if name.iter().any(u8::is_ascii_uppercase) {
            let mut lower: SmallVec<[u8; 128]> = SmallVec::from_slice(name);
            lower.make_ascii_lowercase();
            self.keys.find(&lower)
        } else {
            self.keys.find(name)
        };
        // No regular expression is tried on an empty value, as in nginx: it gets the default even if one would match.
        if found.is_some() || name.is_empty() {
            return found.or(self.default);
        }
        for (pattern, number) in &self.expressions {
            match pattern.matches(name, subject.captures()) {
                Ok(true) => return Some(*number),
                Ok(false) => {}
                Err(error) => subject.log(Level::Alert, format_args!("{error} on \"{}\"", text_of(name))),
            }
        }
        self.default
    }
}

impl<S: Subject> Compute<S> for Map<S> {
    fn find(&self, subject: &S) -> ComputeResult {
        // The numbered groups of the map's own expressions are for its own values: they end here, so that `$1` stays what
        // a rule or a location has made it.
        let outer = (!self.expressions.is_empty()).then(|| subject.captures().groups());
        let value = self.source.render(subject);
        let found = match self.lookup(&value, subject) {
            None => ComputeResult::Text(Vec::new()),
            Some(number) => match self.values.get(number as usize) {
                Some(Value::Template(template)) => ComputeResult::Text(template.render(subject).into_owned()),
                _ => ComputeResult::Entry(number),
            },
        };
        if let Some(outer) = outer {
            subject.captures().set(outer);
        }
        found
    }

    fn entry(&self, number: u32) -> &[u8] {
        match self.values.get(number as usize) {
            Some(Value::Text(text)) => text,
            _ => b"",
        }
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}
