//! `subs_filter`: replaces strings and matches of regular expressions in bodies, line by line.

use std::io;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use bytes::Bytes;
use freerun_conf::{Buffers, Cx, Node, Problem, Setting, SettingsSet, Shape, Size, Value, Word, group, settings};
use freerun_http::content::pull::{PIECE, Transform, TransformedBody};
use freerun_http::module::Module;
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, Response};
use freerun_http::template::Template;
use freerun_http::values::conditions::Conditions;
use freerun_http::values::media_types::MediaTypes;
use freerun_http::variables::VariableTable;

settings! {
    /// Replacement of strings and regular expressions in responses, line by line.
    #[module = "subs"]
    pub struct SubsSettings {
        /// Replaces a string in every line of a response; the replacement may contain variables.
        ///
        /// Flags, in one word: `i` ignores case, `o` replaces the first match of the body alone, and `g` (the default)
        /// replaces all. `r` makes the string a regular expression, whose groups are `$1` to `$9` in the replacement.
        /// Several directives are applied to a line one after the other.
        subs_filter: SubsRules, in HTTP | SERVER | LOCATION,
            fidelity = Differs("a line of more than 64 KB is looked at in parts, and may grow to 8 MB; a regular expression that matches nothing in a line ends there");
        /// Media types, besides `text/html`, of the responses that are changed; `*` is all.
        subs_filter_types: MediaTypes, in HTTP | SERVER | LOCATION;
        /// Leaves a response as it is if one of these values is neither empty nor `0`.
        subs_filter_bypass: Conditions<Request>, in HTTP | SERVER | LOCATION;
        /// Number and size of the buffers.
        subs_buffers: Option<Buffers>, in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("a line is held, and what it becomes");
        /// The size of the buffer for a line.
        subs_line_buffer_size: Option<LineBuffer>, in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("a line may have 64 KB");
    }
}

/// The longest line that is looked at as a whole, in bytes.
const MAX_LINE: usize = PIECE;

/// The most bytes that a line may have after its replacements.
const MAX_GROWN: usize = 8 << 20;

/// The module `subs`.
pub static MODULE: Module = Module {
    name: "subs",
    groups: &[group::<SubsSettings>()],
    filters: &[Filter { slot: Slot::Subs, wanted, run }],
    ..Module::EMPTY
};

/// The value of `subs_line_buffer_size`, which has no effect.
#[derive(Debug, Clone, Copy)]
pub struct LineBuffer;

impl Value for LineBuffer {
    const SHAPE: Shape = Shape::between(1, 2, "[number] size");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<LineBuffer, Problem> {
        let last = directive.args.last().cloned().into_iter().collect();
        <Size as Value>::parse(&Node { args: last, ..directive.clone() }, cx)?;
        Ok(LineBuffer)
    }
}

/// The string or expression to search for.
#[derive(Debug)]
enum SearchPattern {
    Text(AhoCorasick),
    Pattern(Pattern),
}

/// A part of a replacement.
#[derive(Debug)]
enum ReplacementPart {
    Text(Template),
    Group(usize),
}

/// A directive.
#[derive(Debug)]
struct SubsRule {
    sought: SearchPattern,
    replacement: Vec<ReplacementPart>,
    once: bool,
}

/// The directives of a level.
#[derive(Debug, Clone, Default)]
pub struct SubsRules(Arc<Vec<Arc<SubsRule>>>);

impl Setting for SubsRules {
    const SHAPE: Shape = Shape::between(2, 3, "string replacement [flags]");

    fn set(previous: Option<SubsRules>, directive: &Node, cx: &mut Cx) -> Result<SubsRules, Problem> {
        let mut rules = previous.unwrap_or_default();
        Arc::make_mut(&mut rules.0).push(Arc::new(SubsRule::parse(directive, cx)?));
        Ok(rules)
    }
}

impl SubsRule {
    fn parse(directive: &Node, cx: &mut Cx) -> Result<SubsRule, Problem> {
        let [sought, replacement, flags @ ..] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let has = |flag: char| flags.iter().any(|flags| flags.text.contains(flag));
        let at = |why: String| Problem::new(why).at(sought.place);
        let sought = if has('r') {
            let table = cx.extensions.get_or_default::<VariableTable>();
            SearchPattern::Pattern(Pattern::new(&sought.text, has('i'), table).map_err(at)?)
        } else {
            // An empty string is replaced nowhere.
            let text = sought.bytes();
            let text = Some(&*text).filter(|text| !text.is_empty());
            let finder = AhoCorasick::builder().ascii_case_insensitive(has('i')).build(text);
            SearchPattern::Text(finder.map_err(|error| at(error.to_string()))?)
        };
        let parts = parts(replacement, cx)?;
        if let SearchPattern::Pattern(pattern) = &sought
            && parts.iter().any(|part| matches!(part, ReplacementPart::Group(number) if *number > pattern.groups()))
        {
            let (groups, text) = (pattern.groups(), &replacement.text);
            let message = format!("You want to capture too many regex substrings, more than {groups} in \"{text}\"");
            return Err(Problem::new(message).at(replacement.place));
        }
        Ok(SubsRule { sought, replacement: parts, once: has('o') })
    }
}

/// Splits a replacement at `$1` to `$9`.
fn parts(word: &Word, cx: &mut Cx) -> Result<Vec<ReplacementPart>, Problem> {
    let mut parts = Vec::new();
    let mut rest = word.text.as_str();
    let is_group = |text: &str, at: usize| text.as_bytes().get(at + 1).is_some_and(|byte| matches!(byte, b'1'..=b'9'));
    let mut text = |text: &str, parts: &mut Vec<ReplacementPart>| {
        if !text.is_empty() {
            parts.push(ReplacementPart::Text(Template::parse(&Word { text: text.to_owned(), ..word.clone() }, cx)?));
        }
        Ok::<_, Problem>(())
    };
    while let Some((at, _)) = rest.match_indices('$').find(|(at, _)| is_group(rest, *at)) {
        text(&rest[..at], &mut parts)?;
        parts.push(ReplacementPart::Group(usize::from(rest.as_bytes()[at + 1] - b'0')));
        rest = &rest[at + 2..];
    }
    text(rest, &mut parts)?;
    Ok(parts)
}

fn wanted(settings: &SettingsSet) -> bool {
    !settings.get::<SubsSettings>().subs_filter.0.is_empty()
}

fn run(request: &mut Request, response: &mut Response) {
    let location = request.place.location.clone();
    let settings = location.settings.get::<SubsSettings>();
    let is_packed = response.field(b"Content-Encoding").is_some();
    // `*` is all types that there are, unlike in `sub_filter_types`: without one a response stays as it is, as with the
    // module for nginx.
    if response.content_type.is_empty() {
        return;
    }
    if response.body.is_empty() || is_packed || !settings.subs_filter_types.contains(&response.content_type) {
        return;
    }
    if settings.subs_filter_bypass.hold(request) {
        return;
    }
    response.content_changes(Change::LINES);
    let rules = settings.subs_filter.0.iter().map(|rule| SubsState::new(rule.clone(), request)).collect();
    let source = std::mem::replace(&mut response.body, Body::Empty).into_source(request);
    let replace = Replace { rules, held: Vec::new(), full: false };
    response.body = Body::Source(Box::new(TransformedBody::new(source, replace)));
}

/// A directive that is applied to a body.
struct SubsState {
    rule: Arc<SubsRule>,
    /// The texts of the replacement; a group has none.
    texts: Vec<Option<Bytes>>,
    is_over: bool,
}

impl SubsState {
    fn new(rule: Arc<SubsRule>, request: &Request) -> SubsState {
        let text = |part: &ReplacementPart| match part {
            ReplacementPart::Text(text) => Some(Bytes::copy_from_slice(&text.render(request))),
            ReplacementPart::Group(_) => None,
        };
        let texts = rule.replacement.iter().map(text).collect();
        SubsState { rule, texts, is_over: false }
    }

    /// The line after the replacement; `None` if it stays as it is.
    fn apply(&mut self, line: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let mut at = 0;
        while !self.is_over {
            let groups = match &self.rule.sought {
                SearchPattern::Text(finder) => {
                    finder.find(&line[at..]).map(|found| vec![Some(at + found.start()..at + found.end())])
                }
                // A match that is given up leaves the rest of the line as it is.
                SearchPattern::Pattern(pattern) => pattern.groups_at(line, at).unwrap_or_default(),
            };
            let Some(whole) = groups.as_ref().and_then(|groups| groups.first().cloned().flatten()) else { break };
            if whole.is_empty() {
                break;
            }
            let groups = groups.unwrap_or_default();
            out.extend_from_slice(&line[at..whole.start]);
            for (part, text) in self.rule.replacement.iter().zip(&self.texts) {
                match (part, text) {
                    (_, Some(text)) => out.extend_from_slice(text),
                    (ReplacementPart::Group(number), None) => {
                        let group = groups.get(*number).cloned().flatten();
                        out.extend_from_slice(group.map_or(&b""[..], |group| &line[group]));
                    }
                    (ReplacementPart::Text(_), None) => {}
                }
            }
            if out.len() > MAX_GROWN {
                return Err(io::Error::other("a line of subs_filter has become too long"));
            }
            at = whole.end;
            self.is_over = self.rule.once;
        }
        if at == 0 {
            return Ok(None);
        }
        out.extend_from_slice(&line[at..]);
        Ok(Some(out))
    }
}

/// The replacement in a body.
struct Replace {
    rules: Vec<SubsState>,
    /// Lines that have come, the last one perhaps in part.
    held: Vec<u8>,
    /// Whether enough output was made for now, although the held lines give more.
    full: bool,
}

impl Replace {
    /// Makes what is certain; at the `end` that is everything.
    fn scan(&mut self, end: bool, out: &mut Vec<u8>) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        self.full = false;
        while !rest.is_empty() {
            if out.len() >= PIECE {
                self.full = true;
                break;
            }
            let line_end = memchr::memchr(b'\n', &rest[..rest.len().min(MAX_LINE)]).map(|at| at + 1);
            let len = match line_end {
                Some(len) => len,
                None if rest.len() >= MAX_LINE => MAX_LINE,
                None if end => rest.len(),
                None => break,
            };
            let (line, behind) = rest.split_at(len);
            rest = behind;
            let mut changed: Option<Vec<u8>> = None;
            for rule in &mut self.rules {
                let next = rule.apply(changed.as_deref().unwrap_or(line))?;
                changed = next.or(changed);
            }
            out.extend_from_slice(changed.as_deref().unwrap_or(line));
        }
        self.held = rest.to_vec();
        Ok(())
    }
}

impl Transform for Replace {
    fn feed(&mut self, piece: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.held.extend_from_slice(piece);
        self.scan(false, out)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        self.scan(true, out)
    }

    fn is_full(&self) -> bool {
        self.full
    }
}
