//! Calls that may wait, outside the places that are allowed to make them.
//!
//! The file's `use` declarations are resolved first, so `use std::fs as disk; disk::read(…)` is found under its real name.

use std::collections::BTreeMap;

use super::Problem;
use super::allow::Exceptions;
use super::rules::{CLOCKLESS, NamePattern, RULES, Sort};
use super::source::{Source, Token, TokenKind};

/// The number of times that a name may lead to another name of the same file (`use std::fs; use fs::File;`).
const ALIAS_DEPTH: usize = 4;

/// Reports every call that may wait and that no exception covers. Test code may wait.
pub(crate) fn check(sources: &[Source], exceptions: &mut Exceptions, problems: &mut Vec<Problem>) {
    for source in sources {
        let mut seen: BTreeMap<(Sort, String), (usize, usize)> = BTreeMap::new();
        for found in find(source) {
            if exceptions.blocking(&source.path, found.sort) {
                continue;
            }
            let (_, times) = seen.entry((found.sort, found.name)).or_insert((found.line, 0));
            *times += 1;
        }
        for ((sort, name), (line, times)) in seen {
            let again = if times > 1 { format!(" ({times} times in this file)") } else { String::new() };
            let message = format!("{name} {}{again}", sort.why());
            let remedy = sort.remedy();
            let word = sort.word();
            let fix = format!("{remedy}; if no loop ever runs it, allow \"{word}\" in xtask/tidy.toml");
            problems.push(Problem::new(&source.path, line, message, fix));
        }
    }
}

/// A call that may wait.
#[derive(Debug, PartialEq, Eq)]
struct BlockingCall {
    sort: Sort,
    name: String,
    line: usize,
}

/// Every call of the file's live code that may wait, in order.
fn find(source: &Source) -> Vec<BlockingCall> {
    let tokens: Vec<&Token> = source.tokens.iter().collect();
    let (imports, spans) = imports(&tokens);
    let mut names: Names = BTreeMap::new();
    for import in imports.iter().filter(|import| !import.test) {
        names.entry(import.alias.as_str()).or_default().push(import.path.as_slice());
    }
    let paths = imports.iter().any(|import| import.path.starts_with(&["std".to_owned(), "path".to_owned()]));
    let clockless = CLOCKLESS.iter().any(|folder| source.path.starts_with(folder));
    let rules = || RULES.iter().filter(move |(sort, _)| clockless || *sort != Sort::Clock);
    let mut found = Vec::new();
    let mut push = |sort, name: String, line| found.push(BlockingCall { sort, name, line });

    for import in imports.iter().filter(|import| !import.test) {
        if let Some((sort, _)) = rules().find(|(_, name)| names_path(*name, &import.path, true)) {
            push(*sort, import.path.join("::"), import.line);
        }
    }
    let mut index = 0;
    while index < tokens.len() {
        if let Some((_, end)) = spans.iter().find(|(start, end)| (*start..*end).contains(&index)) {
            index = *end;
            continue;
        }
        let token = tokens[index];
        let Some(word) = token.word() else {
            index += 1;
            continue;
        };
        let segments = path_at(&tokens, index);
        let after = index + segments.len() * 3 - 2;
        let method = index > 0 && tokens[index - 1].is_mark('.') && !(index > 1 && tokens[index - 2].is_mark('.'));
        let called = matches!(tokens.get(after).map(|next| &next.kind), Some(TokenKind::Open('(')))
            || (tokens.get(after).is_some_and(|next| next.is_mark(':')) && method);
        let bare = called && matches!(tokens.get(after + 1).map(|next| &next.kind), Some(TokenKind::Close(')')));
        let method = method && !is_awaited(&tokens, after);
        let bang = tokens.get(after).is_some_and(|next| next.is_mark('!'));
        if !token.test {
            let meanings = resolve(&segments, &names);
            let meaning = |name: NamePattern| meanings.iter().find(|path| names_path(name, path, false));
            let hit = rules().find(|(_, name)| match *name {
                NamePattern::Method(own) => method && called && own == word,
                NamePattern::BareMethod(own) => method && bare && own == word,
                NamePattern::PathMethod(own) => method && bare && paths && own == word,
                NamePattern::Macro(own) => bang && segments.last().is_some_and(|last| last == own),
                name => !method && meaning(name).is_some(),
            });
            match hit {
                Some((sort, NamePattern::Macro(own))) => push(*sort, format!("{own}!"), token.line),
                Some((
                    sort,
                    NamePattern::Method(own) | NamePattern::BareMethod(own) | NamePattern::PathMethod(own),
                )) => {
                    push(*sort, format!(".{own}()"), token.line);
                }
                Some((sort, name)) => push(*sort, meaning(*name).unwrap_or(&segments).join("::"), token.line),
                None => {}
            }
        }
        index = after.max(index + 1);
    }
    found
}

/// Whether the call whose arguments begin at `open` is followed by `.await`: an asynchronous method of the same name.
fn is_awaited(tokens: &[&Token], open: usize) -> bool {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.kind {
            TokenKind::Open(_) => depth += 1,
            TokenKind::Close(_) if depth == 1 => {
                return tokens.get(index + 1).is_some_and(|next| next.is_mark('.'))
                    && tokens.get(index + 2).is_some_and(|next| next.is_word("await"));
            }
            TokenKind::Close(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => return false,
            _ => {}
        }
    }
    false
}

/// Whether a rule speaks of this full path. An import of a module or type alone is not yet a call.
fn names_path(name: NamePattern, path: &[String], import: bool) -> bool {
    let below = |prefix: &str| -> Option<usize> {
        let parts: Vec<&str> = prefix.split("::").collect();
        (path.len() >= parts.len() && path.iter().zip(&parts).all(|(a, b)| a == b)).then_some(parts.len())
    };
    match name {
        NamePattern::Below(prefix) => below(prefix).is_some(),
        NamePattern::Functions(module, except) => below(module).is_some_and(|at| {
            path.get(at).is_some_and(|next| {
                path.len() == at + 1
                    && next.starts_with(|first: char| first.is_ascii_lowercase())
                    && !except.contains(&next.as_str())
                    && !(import && next == "self")
            })
        }),
        NamePattern::Some(owner, functions) => below(owner)
            .is_some_and(|at| path.len() == at + 1 && functions.contains(&path.get(at).map_or("", String::as_str))),
        NamePattern::Method(_) | NamePattern::BareMethod(_) | NamePattern::PathMethod(_) | NamePattern::Macro(_) => {
            false
        }
    }
}

/// The path that begins at a word: `a::b::c`, each as a segment. A turbofish ends it.
fn path_at(tokens: &[&Token], start: usize) -> Vec<String> {
    let mut segments: Vec<String> = tokens[start].word().map(str::to_owned).into_iter().collect();
    let mut at = start + 1;
    while let [first, second, next, ..] = &tokens[at.min(tokens.len())..] {
        match next.word() {
            Some(word) if first.is_mark(':') && second.is_mark(':') => segments.push(word.to_owned()),
            _ => break,
        }
        at += 3;
    }
    segments
}

/// The imports of a file by the name they bring in. A name can have several meanings, in different modules or functions.
type Names<'a> = BTreeMap<&'a str, Vec<&'a [String]>>;

/// The full paths that a path of the file may mean.
fn resolve(segments: &[String], names: &Names<'_>) -> Vec<Vec<String>> {
    let mut meanings = vec![segments.to_vec()];
    let mut done = 0;
    for _ in 0..ALIAS_DEPTH {
        let new = meanings[done..].iter().flat_map(|path| {
            let full = path.first().and_then(|first| names.get(first.as_str())).into_iter().flatten();
            full.map(|full| full.iter().chain(&path[1..]).cloned().collect::<Vec<_>>())
        });
        let new: Vec<_> = new.filter(|path| !meanings.contains(path)).collect();
        done = meanings.len();
        meanings.extend(new);
    }
    meanings
}

/// A name that a `use` declaration brings in.
#[derive(Debug)]
struct Import {
    path: Vec<String>,
    alias: String,
    line: usize,
    test: bool,
}

/// The imports of a file, wherever they stand in it, and the ranges of tokens that their declarations take.
fn imports(tokens: &[&Token]) -> (Vec<Import>, Vec<(usize, usize)>) {
    let mut imports = Vec::new();
    let mut spans = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let begins = tokens[index].is_word("use") && !tokens.get(index + 1).is_some_and(|next| next.is_mark('<'));
        if begins {
            let end = use_tree(tokens, index + 1, &[], &mut imports);
            spans.push((index, end));
            index = end;
        } else {
            index += 1;
        }
    }
    (imports, spans)
}

/// Reads one use tree from `at`; returns the index after it.
fn use_tree(tokens: &[&Token], mut at: usize, prefix: &[String], imports: &mut Vec<Import>) -> usize {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        match &token.kind {
            TokenKind::Mark(':') => at += 1,
            TokenKind::Mark('*') => {
                path.push("*".to_owned());
                imports.push(Import { path, alias: "*".to_owned(), line: token.line, test: token.test });
                return at + 1;
            }
            TokenKind::Open('{') => {
                at += 1;
                while let Some(next) = tokens.get(at) {
                    match next.kind {
                        TokenKind::Close('}') => return at + 1,
                        TokenKind::Mark(',') => at += 1,
                        _ => at = use_tree(tokens, at, &path, imports).max(at + 1),
                    }
                }
                return at;
            }
            TokenKind::Word(word) if word == "as" => {
                let alias = tokens.get(at + 1).and_then(|next| next.word()).unwrap_or("_").to_owned();
                imports.push(Import { path, alias, line: token.line, test: token.test });
                return at + 2;
            }
            TokenKind::Word(word) => {
                if word != "self" || path.is_empty() {
                    path.push(word.clone());
                }
                at += 1;
                let more = tokens.get(at).is_some_and(|next| next.is_mark(':') || next.is_word("as"));
                if !more {
                    let alias = path.last().cloned().unwrap_or_default();
                    imports.push(Import { path, alias, line: token.line, test: token.test });
                    return at;
                }
            }
            _ => return at,
        }
    }
    at
}

#[cfg(test)]
#[path = "blocking_tests.rs"]
mod tests;
