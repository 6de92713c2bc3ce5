//! `set_md5`, `set_escape_uri` and many more: directives that compute the value of a variable, in the order in which they are
//! written among `set`, `if` and `rewrite`.

mod codes;
mod functions;
mod quotes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, Value, Word, group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::script::{Action, Assignment, Script, target};
use freerun_http::template::Template;

const ONE: Shape = Shape::between(1, 2, "$variable [value]");

settings! {
    /// Directives that compute the values of variables.
    #[module = "set_misc"]
    pub struct SetMiscSettings {
        /// Sets a variable to the MD5 digest of a value, in hexadecimal digits; without a value, of the variable's own.
        set_md5: Assignments, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Whether `set_encode_base32` fills its result up with `=`.
        set_base32_padding: bool = "on", in HTTP | SERVER | LOCATION | SERVER_IF | LOCATION_IF;
        /// The 32 characters of base32. By default these are the characters of base32hex in lower case.
        set_base32_alphabet: Alphabet = "0123456789abcdefghijklmnopqrstuv",
            in HTTP | SERVER | LOCATION | SERVER_IF | LOCATION_IF;
        /// Names a list of upstream groups, for `set_hashed_upstream`.
        upstream_list: Lists, in HTTP;
    }
    also {
        /// The SHA-1 digest of a value, in hexadecimal digits.
        "set_sha1" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The HMAC of a value with SHA-1 and a key, as bytes.
        "set_hmac_sha1" => set_md5: Shape::exactly(3, "$variable key value"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The HMAC of a value with SHA-256 and a key, as bytes.
        "set_hmac_sha256" => set_md5: Shape::exactly(3, "$variable key value"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Sets a variable that is empty.
        "set_if_empty" => set_md5: Shape::exactly(2, "$variable value"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value with `%XX` for everything that has a meaning in a URI.
        "set_escape_uri" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value without `%XX` and `+`.
        "set_unescape_uri" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value as a text of SQL, in MySQL's form.
        "set_quote_sql_str" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value as a text of SQL, in PostgreSQL's form.
        "set_quote_pgsql_str" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value as a string of JSON; `null` if it is empty.
        "set_quote_json_str" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value in base32.
        "set_encode_base32" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The bytes that a text of base32 stands for. Other characters count as the first one of the alphabet.
        "set_decode_base32" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value in base64.
        "set_encode_base64" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The bytes that a text of base64 stands for; a text that is none is answered with 500.
        "set_decode_base64" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value in base64 for URIs (RFC 4648 section 5), without `=`.
        "set_encode_base64url" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The bytes that a text of base64 for URIs stands for; a text that is none is answered with 500.
        "set_decode_base64url" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A value in hexadecimal digits.
        "set_encode_hex" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The bytes that hexadecimal digits stand for; other texts are answered with 500.
        "set_decode_hex" => set_md5: ONE, in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// A random number between two numbers, which may be the result, too.
        "set_random" => set_md5: Shape::exactly(3, "$variable from to"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Random letters and digits, `length` of them and 64 at most, which cannot be guessed.
        "set_secure_random_alphanum" => set_md5: Shape::exactly(2, "$variable length"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Random letters in lower case, `length` of them and 64 at most, which cannot be guessed.
        "set_secure_random_lcalpha" => set_md5: Shape::exactly(2, "$variable length"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// Adds one to a variable and begins with the first number again after the last one. A variable that is no number goes
        /// on from the last result of this level.
        "set_rotate" => set_md5: Shape::exactly(3, "$variable from to"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The date of today in the local time zone, such as 2026-11-26.
        "set_local_today" => set_md5: Shape::exactly(1, "$variable"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The time in GMT, in a format of strftime(3).
        "set_formatted_gmt_time" => set_md5: Shape::exactly(2, "$variable format"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The local time, in a format of strftime(3).
        "set_formatted_local_time" => set_md5: Shape::exactly(2, "$variable format"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// An upstream group of a list, chosen by the hash of a value.
        "set_hashed_upstream" => set_md5: Shape::exactly(3, "$variable list value"),
            in SERVER | LOCATION | SERVER_IF | LOCATION_IF, own;
        /// The earlier name of `set_base32_padding`.
        "set_misc_base32_padding" => set_base32_padding: <bool as Value>::SHAPE,
            in HTTP | SERVER | LOCATION | SERVER_IF | LOCATION_IF;
    }
}

/// The module `set_misc`.
pub static MODULE: Module = Module {
    name: "set_misc",
    groups: &[group::<SetMiscSettings>()],
    script: Some(|settings| settings.get::<SetMiscSettings>().set_md5.script.clone()),
    settle: Some(check_lists),
    ..Module::EMPTY
};

/// The number that `set_rotate` has set last at a level; [`NEVER`] at first.
type LastNumber = Arc<AtomicU64>;

/// No number has been set.
const NEVER: u64 = u64::MAX;

/// The directives of one level.
#[derive(Clone)]
pub struct Assignments {
    script: Script<Request>,
    last: LastNumber,
    /// The lists that the level names, to be checked.
    lists: Arc<Vec<String>>,
}

impl Default for Assignments {
    fn default() -> Assignments {
        Assignments { script: Script::default(), last: Arc::new(AtomicU64::new(NEVER)), lists: Arc::default() }
    }
}

impl Setting for Assignments {
    const SHAPE: Shape = ONE;

    fn set(previous: Option<Assignments>, directive: &Node, cx: &mut Cx) -> Result<Assignments, Problem> {
        let mut level = previous.unwrap_or_default();
        let named = directive.name.as_str();
        let Some((variable, values)) = directive.args.split_first() else {
            return Err(Problem::wrong_count(directive));
        };
        let target = target(variable, cx)?;
        let own = Word { text: variable.text.clone(), ..variable.clone() };
        let is_own = named == "set_if_empty" || named == "set_rotate" || values.is_empty();
        let sources = is_own.then_some(&own).into_iter().chain(values);
        let arguments = sources.map(|word| Template::parse(word, cx)).collect::<Result<Box<[_]>, _>>()?;
        if named == "set_hashed_upstream"
            && let Some(list) = values.first().filter(|list| !list.text.contains('$'))
        {
            Arc::make_mut(&mut level.lists).push(list.text.clone());
        }
        let calculate = functions::of(named, &level.last).ok_or_else(|| Problem::wrong_count(directive))?;
        let assignment = Assignment { target, arguments, calculate };
        level.script.push(directive.order, Action::Assign(Arc::new(assignment)));
        Ok(level)
    }
}

/// The alphabet of base32.
#[derive(Debug, Clone, Copy)]
pub struct Alphabet([u8; 32]);

impl Value for Alphabet {
    const SHAPE: Shape = Shape::exactly(1, "alphabet");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<Alphabet, Problem> {
        let text = directive.args[0].text.as_bytes();
        let len = text.len();
        let message = || format!("\"set_base32_alphabet\" directive takes an alphabet of {len} bytes but 32 expected");
        text.try_into().map(Alphabet).map_err(|_| Problem::new(message()))
    }
}

/// The lists of `upstream_list`, by name.
#[derive(Debug, Clone, Default)]
pub struct Lists(Arc<BTreeMap<String, Box<[String]>>>);

impl Setting for Lists {
    const SHAPE: Shape = Shape::at_least(2, "name upstream …");

    fn set(previous: Option<Lists>, directive: &Node, _cx: &mut Cx) -> Result<Lists, Problem> {
        let mut lists = previous.unwrap_or_default();
        let [name, members @ ..] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let members = members.iter().map(|word| word.text.clone()).collect();
        Arc::make_mut(&mut lists.0).insert(name.text.clone(), members);
        Ok(lists)
    }
}

impl Lists {
    fn get(&self, name: &str) -> Result<&[String], String> {
        let list = self.0.get(name).map(|list| &**list);
        list.ok_or_else(|| format!("set_hashed_upstream: upstream list \"{name}\" not defined yet"))
    }
}

/// Refuses names of lists that there are not.
fn check_lists(settings: &SettingsSet, _cx: &mut Cx) -> Result<(), Problem> {
    let settings = settings.get::<SetMiscSettings>();
    settings.set_md5.lists.iter().try_for_each(|name| settings.upstream_list.get(name).map(drop)).map_err(Problem::new)
}
