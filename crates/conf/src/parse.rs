//! Text to tree: directives, blocks, `include`.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use crate::lexer::{Lexer, Token};
use crate::node::{Node, Word};
use crate::octets::bytes_of;
use crate::place::{Place, Source, Sources};
use crate::problem::{Problem, Severity};
use crate::similar_name::near;
use crate::tree::{Loader, MAX_BLOCKS, MAX_FILE, MAX_INCLUDED, MAX_INCLUDES, MAX_NODES, MAX_TOTAL, Tree};

/// Reads a configuration: first the `-g` text, if any, then the main file, with `include` followed through `loader`.
///
/// Relative paths of `include` start from `conf_prefix` (nginx: the folder of the main file), in whichever file they
/// are written. This never fails: the first syntax error is in [`Tree::error`], with the directives before it in
/// [`Tree::nodes`].
pub fn parse(main_path: &str, globals: Option<&str>, conf_prefix: &str, loader: &mut dyn Loader) -> Tree {
    let mut parser = Parser {
        loader,
        prefix: conf_prefix,
        sources: Vec::new(),
        indexes: HashMap::new(),
        order: 0,
        bytes: 0,
        includes: 0,
        included: 0,
        open: Vec::new(),
        odd: None,
    };
    let mut nodes = Vec::new();
    let mut error = None;
    if let Some(text) = globals {
        error = parser.parameter(text, &mut nodes).err();
    }
    if error.is_none() {
        error = parser.file(main_path, None, &mut nodes).err();
    }
    Tree { sources: Sources::new(parser.sources), nodes, error }
}

/// The directive whose arguments are a default's text.
pub(crate) fn default_node(name: &str, text: &str) -> Result<Node, Problem> {
    let ended = format!("{text};");
    let mut lexer = Lexer::new(ended.as_bytes(), Place::NONE.file);
    let mut args = Vec::new();
    loop {
        match lexer.next()? {
            Token::Word(word) => args.push(Word { place: Place::NONE, ..word }),
            Token::End(_) if lexer.is_at_end() => break,
            _ => return Err(Problem::new(format!("the default of \"{name}\" is not made of words"))),
        }
    }
    let name = Word::synthetic(name);
    Ok(Node { name, args, block: None, end: Place::NONE, close: Place::NONE, order: 0 })
}

struct Parser<'a> {
    loader: &'a mut dyn Loader,
    prefix: &'a str,
    sources: Vec<Source>,
    /// The index in `sources` of each path: a file that is included several times is read once.
    indexes: HashMap<String, u32>,
    order: u32,
    bytes: usize,
    /// The number of files that include each other here.
    includes: u32,
    /// The number of files that were included so far.
    included: u32,
    /// The blocks that are being read, the outermost first.
    open: Vec<Open>,
    /// The first block whose `}` stands further left than its name, and that place: with its own `}` missing it has taken
    /// another block's.
    odd: Option<(Open, Place)>,
}

/// A block.
struct Open {
    /// The directive's name.
    name: String,
    /// The place of the name.
    place: Place,
    /// Whether the name is the first word on its line.
    begins_line: bool,
}

/// The surroundings of a run of directives.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    File,
    Parameter,
    Block,
}

impl Parser<'_> {
    fn parameter(&mut self, text: &str, out: &mut Vec<Node>) -> Result<(), Problem> {
        let text = Arc::new(bytes_of(text).into_owned());
        let index = self.sources.len() as u32;
        self.sources.push(Source { path: "command line".to_owned(), text: Arc::clone(&text), command_line: true });
        self.items(&mut Lexer::new(&text, index), Within::Parameter, out).map(drop)
    }

    /// Reads a file; `include` is the directive that names it.
    fn file(&mut self, path: &str, include: Option<&Node>, out: &mut Vec<Node>) -> Result<(), Problem> {
        let located = |problem: Problem| match include {
            Some(node) => problem.at_node(node).at(node.args.first().map_or(node.name.place, |word| word.place)),
            None => problem,
        };
        let index = match self.indexes.get(path) {
            Some(index) => *index,
            None => {
                let text = match self.loader.load(path).map_err(|error| located(unreadable(path, &error))) {
                    Err(problem) if include.is_some() && self.loader.goes_on_without(&problem) => return Ok(()),
                    text => text?,
                };
                if text.len() > MAX_FILE {
                    return Err(located(Problem::new(format!("\"{path}\" is larger than {MAX_FILE} bytes"))));
                }
                let index = self.sources.len() as u32;
                self.sources.push(Source { path: path.to_owned(), text: Arc::new(text), command_line: false });
                self.indexes.insert(path.to_owned(), index);
                index
            }
        };
        let text = Arc::clone(&self.sources[index as usize].text);
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > MAX_TOTAL {
            return Err(located(Problem::new(format!("the configuration is larger than {MAX_TOTAL} bytes"))));
        }
        let mut lexer = Lexer::new(&text, index);
        self.items(&mut lexer, Within::File, out).map(drop)
    }

    /// Reads directives up to the end of their surroundings, and returns the place of that end.
    fn items(&mut self, lexer: &mut Lexer<'_>, within: Within, out: &mut Vec<Node>) -> Result<Place, Problem> {
        let mut words: Vec<Word> = Vec::new();
        loop {
            let (end, open) = match lexer.next()? {
                Token::Word(word) => {
                    words.push(word);
                    continue;
                }
                Token::End(place) => (place, false),
                Token::Open(place) => (place, true),
                Token::Close(place) if words.is_empty() && within == Within::Block => return Ok(place),
                Token::Close(place) => return Err(unexpected("}", place, &words)),
                Token::Eof(place) if words.is_empty() && !lexer.cut_off() && within != Within::Block => {
                    return Ok(place);
                }
                Token::Eof(place) => return Err(self.ended(lexer, &words, place)),
            };
            if words.is_empty() {
                return Err(unexpected(if open { "{" } else { ";" }, end, &words));
            }
            if open && within == Within::Parameter {
                return Err(Problem::new("block directives are not supported in -g option").at(end));
            }
            let name = words.remove(0);
            self.order += 1;
            let mut node =
                Node { name, args: std::mem::take(&mut words), block: None, end, close: end, order: self.order };
            if self.order > MAX_NODES {
                return Err(Problem::new(format!("more than {MAX_NODES} directives")).at_node(&node));
            }
            if node.name.text == "include" {
                self.include(&node, open, out)?;
                continue;
            }
            if open
                && node.name.text.ends_with("_by_lua_block")
                && let Some(place) = lexer.lua_block()
            {
                node.block = Some(Vec::new());
                node.close = place;
                out.push(node);
            } else if open {
                if self.open.len() >= MAX_BLOCKS as usize {
                    return Err(Problem::new(format!("more than {MAX_BLOCKS} blocks inside each other")).at_node(&node));
                }
                let (name, place) = (node.name.text.clone(), node.name.place);
                self.open.push(Open { name, place, begins_line: lexer.begins_line(place) });
                let mut children = Vec::new();
                let result = self.items(lexer, Within::Block, &mut children);
                let block = self.open.pop();
                node.block = Some(children);
                // The node is kept even if its block is broken: it comes before the error.
                if let Ok(place) = result {
                    node.close = place;
                    self.odd = self.odd.take().or(block.filter(|_| lexer.begins_line(place)).and_then(|block| {
                        let is_odd =
                            block.begins_line && place.line != block.place.line && place.column < block.place.column;
                        is_odd.then_some((block, place))
                    }));
                }
                out.push(node);
                result?;
            } else {
                out.push(node);
            }
        }
    }

    fn include(&mut self, node: &Node, open: bool, out: &mut Vec<Node>) -> Result<(), Problem> {
        if open {
            return Err(Problem::new("directive \"include\" is not terminated by \";\"").at_node(node).at(node.end));
        }
        let [word] = node.args.as_slice() else { return Err(Problem::wrong_count(node)) };
        if self.includes >= MAX_INCLUDES {
            let message = format!("more than {MAX_INCLUDES} files including each other");
            return Err(Problem::new(message).at_node(node).at(word.place));
        }
        let path = absolute(self.prefix, &word.text);
        let relative = (path != word.text).then(|| format!("a relative path is looked up in \"{}\"", self.prefix));
        let paths = if path.contains(['*', '?', '[']) {
            let mut paths = self.loader.glob(&path).map_err(|error| {
                Problem::new(format!("glob() \"{path}\" failed ({})", reason(&error))).at_node(node).at(word.place)
            })?;
            paths.sort_unstable_by(|one, other| bytes_of(one).cmp(&bytes_of(other)));
            paths
        } else {
            vec![path]
        };
        self.includes += 1;
        let result = paths.iter().try_for_each(|path| {
            self.included += 1;
            if self.included > MAX_INCLUDED {
                let message = format!("more than {MAX_INCLUDED} files are included");
                return Err(Problem::new(message).at_node(node).at(word.place));
            }
            match self.file(path, Some(node), out) {
                Err(problem) if problem.place == Some(word.place) => {
                    let hint = self.similar_file(path).or(relative.clone());
                    Err(problem.hint_if(hint))
                }
                result => result,
            }
        });
        self.includes -= 1;
        result
    }

    /// The question whether another file of the folder was meant.
    fn similar_file(&mut self, path: &str) -> Option<String> {
        let (folder, name) = path.rsplit_once('/')?;
        // What is there need not be readable, and then nothing is similar.
        let others = self.loader.glob(&format!("{folder}/*")).unwrap_or_default();
        let names = others.iter().filter_map(|other| Some(other.rsplit_once('/')?.1)).filter(|other| *other != name);
        near(name, names).map(|near| format!("did you mean \"{folder}/{near}\"?"))
    }

    /// The problem of a text that ends too early.
    fn ended(&self, lexer: &Lexer<'_>, words: &[Word], place: Place) -> Problem {
        let parameter = self.sources.get(place.file as usize).is_some_and(|source| source.command_line);
        let of = if parameter { "parameter" } else { "file" };
        let open = words.is_empty() && !lexer.cut_off();
        let expecting = match (open, parameter) {
            (true, _) => "\"}\"",
            (false, true) => "\";\"",
            (false, false) => "\";\" or \"}\"",
        };
        let problem = Problem::new(format!("unexpected end of {of}, expecting {expecting}")).reported_at(place);
        match (words.last(), lexer.cut_off_at()) {
            (_, Some(start)) if lexer.cut_off_in_quotes() => {
                problem.at(start).hint("the quote that begins here is not closed")
            }
            (_, Some(start)) => problem.at(start),
            (Some(word), None) => problem.at(word.place).hint(missing_end(word.last_line())),
            (None, None) => match (self.odd.as_ref().filter(|(odd, _)| odd.place.file == place.file), self.open.last()) {
                (Some((Open { name, place, .. }, close)), _) => problem.at(*place).hint(format!(
                    "a \"}}\" may be missing at the end of the block \"{name}\": it ends in line {}, at a \"}}\" that stands \
                     further left than it begins",
                    close.line
                )),
                (None, Some(Open { name, place, .. })) => {
                    problem.at(*place).hint(format!("the block \"{name}\", which begins here, is not closed"))
                }
                (None, None) => problem.at(place),
            },
        }
    }
}

/// The question whether a `;` was forgotten at the end of this line.
pub(crate) fn missing_end(line: u32) -> String {
    format!("is a \";\" missing at the end of line {line}?")
}

/// `path`, below `prefix` if it is relative.
pub(crate) fn absolute(prefix: &str, path: &str) -> String {
    if path.starts_with('/') || prefix.is_empty() {
        path.to_owned()
    } else if prefix.ends_with('/') {
        format!("{prefix}{path}")
    } else {
        format!("{prefix}/{path}")
    }
}

fn unexpected(sign: &str, place: Place, words: &[Word]) -> Problem {
    let problem = Problem::new(format!("unexpected \"{sign}\"")).at(place);
    match words.last() {
        Some(word) if sign == "}" && word.last_line() < place.line => problem.hint(missing_end(word.last_line())),
        Some(word) if sign == "}" => problem.hint(format!("a \";\" may be missing after \"{}\"", word.text)),
        None if sign == "}" => problem.hint("no block is open here; a \"}\" before may be one too many"),
        _ => problem,
    }
}

/// The problem of a file that cannot be read. nginx opens a folder like a file and fails when it reads it.
fn unreadable(path: &str, error: &io::Error) -> Problem {
    if error.kind() == io::ErrorKind::IsADirectory {
        let problem = Problem::new(format!("pread() \"{path}\" failed ({})", reason(error)));
        return Problem { level: Severity::Crit, ..problem };
    }
    Problem::new(format!("open() \"{path}\" failed ({})", reason(error)))
}

/// A system error as nginx writes it: `2: No such file or directory`.
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => {
            let suffix = format!(" (os error {code})");
            format!("{code}: {}", text.strip_suffix(&suffix).unwrap_or(&text))
        }
        None => text,
    }
}
