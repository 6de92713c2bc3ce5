//! `map`: a variable whose value depends on others.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word, group, settings};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::template::Template;
use freerun_http::variables::{Compute, Found, VariableTable};
use smallvec::SmallVec;

use super::hostnames::{Keys, Refused};
use super::{define, variable_name};

settings! {
    /// Variables whose values depend on other variables.
    #[module = "map"]
    pub struct MapSettings {
        /// Defines a variable whose value is looked up in a table.
        ///
        /// Keys are compared without regard to case; `~` begins a regular expression and `~*` one without regard to case,
        /// which are tried in their order after all other keys, and not on an empty value. With `hostnames`, keys may have a wildcard at one end.
        /// `default` is the value of what is not there, `include` takes entries from a file, and a backslash in front
        /// takes the meaning away from a key like these. The value is found once for each request, unless there is
        /// `volatile`.
        map: Maps, in HTTP;
        /// Size of the table.
        map_hash_max_size: u32 = "2048", in HTTP, fidelity = NoEffect("tables size themselves");
        /// Bucket size of the table.
        map_hash_bucket_size: u32 = "64", in HTTP, fidelity = NoEffect("tables size themselves");
    }
}

/// The module.
pub static MODULE: Module = Module { name: "map", groups: &[group::<MapSettings>()], ..Module::EMPTY };

/// All `map` blocks; what they define is in the table of variables.
#[derive(Debug, Clone, Copy, Default)]
pub struct Maps;

impl Setting for Maps {
    const SHAPE: Shape = Shape::exactly(2, "string $variable { key value; … }").with_raw_block();

    fn set(_: Option<Maps>, directive: &Node, cx: &mut Cx) -> Result<Maps, Problem> {
        let map = Map::parse(directive, cx)?;
        define(directive, Arc::new(map), cx)?;
        Ok(Maps)
    }
}

/// One map.
struct Map {
    source: Template,
    keys: Keys,
    expressions: Vec<(Pattern, u32)>,
    values: Vec<Value>,
    default: Option<u32>,
    hostnames: bool,
    volatile: bool,
}

enum Value {
    Text(Box<[u8]>),
    Template(Template),
}

impl Map {
    fn parse(directive: &Node, cx: &mut Cx) -> Result<Map, Problem> {
        let [source, name] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let source = Template::parse(source, cx)?;
        variable_name(name)?;
        let (keys, expressions, values) = (Keys::default(), Vec::new(), Vec::new());
        let mut map = Map { source, keys, expressions, values, default: None, hostnames: false, volatile: false };
        for entry in directive.children() {
            map.add(entry, cx)
                .map_err(|problem| if problem.place.is_some() { problem } else { problem.at_node(entry) })?;
        }
        Ok(map)
    }

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
                    let table = cx.extensions.get_or_default::<VariableTable>();
                    let pattern = Pattern::new(pattern, caseless, table).map_err(|why| fail(why, key))?;
                    self.expressions.push((pattern, number));
                } else {
                    let text = text.strip_prefix('\\').unwrap_or(text);
                    let lower = text.to_ascii_lowercase();
                    let added = match self.hostnames {
                        true => self.keys.add_hostname(lower.as_bytes(), number),
                        false => self.keys.add(lower.as_bytes(), number),
                    };
                    added.map_err(|refused| match refused {
                        Refused::Conflict => fail(format!("conflicting parameter \"{lower}\""), key),
                        Refused::Invalid => fail(format!("invalid hostname or wildcard \"{text}\""), key),
                    })?;
                }
            }
            _ => return Err(fail("invalid number of the map parameters".to_owned(), key)),
        }
        Ok(())
    }

    fn lookup(&self, value: &[u8], request: &Request) -> Option<u32> {
        let name = if self.hostnames { value.strip_suffix(b".").unwrap_or(value) } else { value };
        let found = if name.iter().any(u8::is_ascii_uppercase) {
            let mut lower: SmallVec<[u8; 128]> = SmallVec::from_slice(name);
            lower.make_ascii_lowercase();
            self.keys.find(&lower)
        } else {
            self.keys.find(name)
        };
        // What is empty has no expression tried on it, as in nginx: whatever they say, it stands for nothing.
        if found.is_some() || name.is_empty() {
            return found.or(self.default);
        }
        for (pattern, number) in &self.expressions {
            match pattern.matches(name, &request.captures) {
                Ok(true) => return Some(*number),
                Ok(false) => {}
                Err(error) => log_error!(request, Alert, "{error} on \"{}\"", String::from_utf8_lossy(name)),
            }
        }
        self.default
    }
}

impl Compute<Request> for Map {
    fn find(&self, request: &Request) -> Found {
        let value = self.source.render(request);
        match self.lookup(&value, request) {
            None => Found::Text(Vec::new()),
            Some(number) => match self.values.get(number as usize) {
                Some(Value::Template(template)) => Found::Text(template.render(request).into_owned()),
                _ => Found::Entry(number),
            },
        }
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
