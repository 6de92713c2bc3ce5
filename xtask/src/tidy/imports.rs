//! Imports between the files of a crate: the names in `use` and in paths of the code, followed to the file that defines
//! them.
//!
//! A re-export (`pub use`) is a signpost and no import: who takes a name from there imports the file that the signpost
//! leads to. Nor is a module that is only named (`use crate::a;`) imported: the paths that go through it (`a::b()`) are.
//! Test code is left out. Names that come out of a glob import count for the file that the glob names.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token, TokenKind};

/// The number of signposts that are followed; more would be a circle.
const MAX_SIGNPOSTS: usize = 16;

/// The files of a crate and their imports.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// Paths below `src/`, in order.
    pub(crate) files: Vec<String>,
    /// The imports, as indices into `files`, each with the line of the first one.
    pub(crate) imports: BTreeMap<(usize, usize), usize>,
}

/// A name that a `use` brings in.
#[derive(Debug)]
struct Leaf {
    path: Vec<String>,
    /// The name it has in the file; `*` for a glob.
    name: String,
    line: usize,
    /// Whether it is brought in for others (`pub use`).
    signpost: bool,
}

/// The modules, names and imports of a file.
#[derive(Debug, Default)]
struct ModuleContents {
    /// Its module's path from the crate's root.
    module: Vec<String>,
    /// Its `use` declarations, each with the module it stands in (another one inside `mod name { … }`).
    leaves: Vec<(Vec<String>, Leaf)>,
    /// The paths in its code, with their line and the module they stand in.
    paths: Vec<(Vec<String>, Vec<String>, usize)>,
    /// Every word outside of `use`.
    words: BTreeSet<String>,
    /// The macros it exports, which are found at the crate's root.
    macros: Vec<String>,
}

/// The target of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathTarget {
    /// Something that this file defines.
    Item(usize),
    /// The module itself.
    Module(usize),
}

impl Graph {
    /// The imports in the crate whose sources are in `folder` (`crates/http/src/`).
    pub(crate) fn of(folder: &str, sources: &[Source]) -> Self {
        let tests = |source: &Source| !source.tokens.is_empty() && source.tokens.iter().all(|token| token.test);
        let live = |source: &&Source| source.path.starts_with(folder) && !tests(source);
        let sources: Vec<&Source> = sources.iter().filter(live).collect();
        let files: Vec<String> = sources.iter().map(|source| source.path[folder.len()..].to_owned()).collect();
        let said: Vec<ModuleContents> =
            files.iter().zip(&sources).map(|(file, source)| read(file, &source.tokens)).collect();
        let crate_said = Crate {
            modules: said.iter().enumerate().map(|(index, file)| (file.module.clone(), index)).collect(),
            macros: said
                .iter()
                .enumerate()
                .flat_map(|(index, file)| file.macros.iter().map(move |name| (name.clone(), index)))
                .collect(),
            said: &said,
        };
        Self { imports: crate_said.imports(), files }
    }

    /// The circles: sets of more than one file, where each file leads to each other, the largest first.
    pub(crate) fn circles(&self) -> Vec<Vec<usize>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|file| self.reached(file)).collect();
        let mut circles: Vec<Vec<usize>> = Vec::new();
        for file in 0..self.files.len() {
            if !circles.iter().any(|circle| circle.contains(&file)) {
                let back = reached[file].iter().copied().filter(|other| reached[*other].contains(&file));
                let circle: Vec<usize> = back.collect();
                if circle.len() > 1 {
                    circles.push(circle);
                }
            }
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// The files that imports lead to from a file, one after the other.
    fn reached(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(file) = next.pop() {
            let imported = self.imports.range((file, 0)..=(file, usize::MAX)).map(|((_, to), _)| *to);
            next.extend(imported.filter(|to| reached.insert(*to)));
        }
        reached
    }
}

/// A crate's files, to find what a path means.
struct Crate<'a> {
    modules: BTreeMap<Vec<String>, usize>,
    macros: BTreeMap<String, usize>,
    said: &'a [ModuleContents],
}

impl Crate<'_> {
    fn imports(&self) -> BTreeMap<(usize, usize), usize> {
        let mut imports = BTreeMap::new();
        let mut add = |from: usize, to: usize, line: usize| {
            if from != to {
                let first = imports.entry((from, to)).or_insert(line);
                *first = line.min(*first);
            }
        };
        for (from, file) in self.said.iter().enumerate() {
            for (place, leaf) in &file.leaves {
                if leaf.signpost && !file.words.contains(&leaf.name) {
                    continue;
                }
                match self.find(from, place, &leaf.path, 0) {
                    Some(PathTarget::Item(to)) => add(from, to, leaf.line),
                    Some(PathTarget::Module(to)) if leaf.name == "*" => add(from, to, leaf.line),
                    _ => {}
                }
            }
            for (place, path, line) in &file.paths {
                if let Some(PathTarget::Item(to)) = self.find(from, place, path, 0) {
                    add(from, to, *line);
                }
            }
        }
        imports
    }

    /// The meaning of a path that stands in a file (`from`), in one of its modules (`place`).
    fn find(&self, from: usize, place: &[String], path: &[String], signposts: usize) -> Option<PathTarget> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => return self.walk(rest, signposts),
            "self" => return self.walk(&joined(place, rest), signposts),
            "super" => {
                let (_, outer) = place.split_last()?;
                return match rest.first().map(String::as_str) {
                    Some("super") => self.find(from, outer, rest, signposts),
                    _ => self.walk(&joined(outer, rest), signposts),
                };
            }
            _ => {}
        }
        if self.modules.contains_key(&joined(place, std::slice::from_ref(first))) {
            return self.walk(&joined(place, path), signposts);
        }
        if let Some((place, leaf)) = self.brought(from, first) {
            // A path that only repeats what its own `use` says leads nowhere new.
            return if leaf.path == path { None } else { self.follow(from, place, leaf, rest, signposts) };
        }
        self.macros.get(first).filter(|_| rest.is_empty()).map(|file| PathTarget::Item(*file))
    }

    /// The meaning of a path from the crate's root.
    fn walk(&self, path: &[String], signposts: usize) -> Option<PathTarget> {
        let deepest = (0..=path.len()).rev().find_map(|length| {
            let file = self.modules.get(&path[..length])?;
            Some((length, *file))
        });
        let (length, file) = deepest?;
        let Some(name) = path.get(length) else { return Some(PathTarget::Module(file)) };
        if let Some((place, leaf)) = self.brought(file, name) {
            return self.follow(file, place, leaf, &path[length + 1..], signposts);
        }
        if length == 0
            && let Some(file) = self.macros.get(name)
        {
            return Some(PathTarget::Item(*file));
        }
        Some(PathTarget::Item(file))
    }

    /// The `use` of a file that brings in a name.
    fn brought(&self, file: usize, name: &str) -> Option<(&[String], &Leaf)> {
        let leaves = &self.said[file].leaves;
        leaves.iter().find(|(_, leaf)| leaf.name == name).map(|(place, leaf)| (place.as_slice(), leaf))
    }

    fn follow(
        &self,
        file: usize,
        place: &[String],
        leaf: &Leaf,
        rest: &[String],
        signposts: usize,
    ) -> Option<PathTarget> {
        if signposts == MAX_SIGNPOSTS {
            return None;
        }
        self.find(file, place, &joined(&leaf.path, rest), signposts + 1)
    }
}

fn joined(a: &[String], b: &[String]) -> Vec<String> {
    a.iter().chain(b).cloned().collect()
}

/// The module that a file below `src/` is.
fn module_of(file: &str) -> Vec<String> {
    let stem = file.strip_suffix(".rs").unwrap_or(file);
    let mut parts: Vec<String> = stem.split('/').map(str::to_owned).collect();
    let last = parts.last().map(String::as_str);
    if last == Some("mod") || (parts.len() == 1 && matches!(last, Some("lib" | "main"))) {
        parts.pop();
    }
    parts
}

/// Reads what a file says.
fn read(file: &str, tokens: &[Token]) -> ModuleContents {
    let tokens: Vec<&Token> = tokens.iter().filter(|token| !token.test).collect();
    let mut said = ModuleContents { module: module_of(file), ..ModuleContents::default() };
    let mut place = said.module.clone();
    // The depths of braces at which `mod name { … }` began.
    let mut inner = Vec::new();
    let mut depth = 0_usize;
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        let before = index.checked_sub(1).map(|before| tokens[before]);
        match &token.kind {
            TokenKind::Open('{') => depth += 1,
            TokenKind::Close('}') => {
                depth = depth.saturating_sub(1);
                if inner.last() == Some(&depth) {
                    inner.pop();
                    place.pop();
                }
            }
            TokenKind::Word(word) if word == "use" && !tokens.get(index + 1).is_some_and(|next| next.is_mark('<')) => {
                let signpost =
                    before.is_some_and(|before| before.is_word("pub") || before.kind == TokenKind::Close(')'));
                let mut leaves = Vec::new();
                index = read_use(&tokens, index + 1, &[], signpost, &mut leaves);
                said.leaves.extend(leaves.into_iter().map(|leaf| (place.clone(), leaf)));
                continue;
            }
            TokenKind::Word(word) if word == "mod" => {
                if let (Some(name), Some(open)) = (tokens.get(index + 1), tokens.get(index + 2))
                    && let (Some(name), TokenKind::Open('{')) = (name.word(), &open.kind)
                {
                    place.push(name.to_owned());
                    inner.push(depth);
                }
            }
            TokenKind::Word(word) if word == "macro_rules" => {
                let exported = tokens[..index].iter().rev().take(3).any(|token| token.is_word("macro_export"));
                if let Some(name) = tokens.get(index + 2).and_then(|token| token.word()).filter(|_| exported) {
                    said.macros.push(name.to_owned());
                }
            }
            TokenKind::Word(word) => {
                let begins = !after(&tokens, index, '.') || after_two(&tokens, index, '.');
                let begins = begins && !after_two(&tokens, index, ':');
                let (path, end) = read_path(&tokens, index);
                said.words.extend(path.iter().cloned());
                let calls_macro = tokens.get(end).is_some_and(|next| next.is_mark('!'));
                if begins && (path.len() > 1 || calls_macro) {
                    said.paths.push((place.clone(), path, token.line));
                }
                debug_assert!(end > index, "{word}");
                index = end;
                continue;
            }
            _ => {}
        }
        index += 1;
    }
    said
}

/// Whether a mark stands before an index.
fn after(tokens: &[&Token], index: usize, mark: char) -> bool {
    index.checked_sub(1).is_some_and(|before| tokens[before].is_mark(mark))
}

/// Whether a mark stands twice before an index.
fn after_two(tokens: &[&Token], index: usize, mark: char) -> bool {
    after(tokens, index, mark) && after(tokens, index - 1, mark)
}

/// Whether `::` stands at an index.
fn is_path_mark(tokens: &[&Token], index: usize) -> bool {
    tokens.get(index).is_some_and(|token| token.is_mark(':'))
        && tokens.get(index + 1).is_some_and(|token| token.is_mark(':'))
}

/// The words of a path that begins at an index, and where it ends.
fn read_path(tokens: &[&Token], start: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut index = start;
    while let Some(word) = tokens.get(index).and_then(|token| token.word()) {
        path.push(word.to_owned());
        index += 1;
        let goes_on = is_path_mark(tokens, index) && tokens.get(index + 2).is_some_and(|next| next.word().is_some());
        if !goes_on {
            break;
        }
        index += 2;
    }
    (path, index)
}

/// Reads one tree of a `use`; returns the index after it.
fn read_use(tokens: &[&Token], start: usize, prefix: &[String], signpost: bool, out: &mut Vec<Leaf>) -> usize {
    let mut index = if is_path_mark(tokens, start) { start + 2 } else { start };
    let line = tokens.get(index).map_or(0, |token| token.line);
    let (path, end) = read_path(tokens, index);
    let mut path = joined(prefix, &path);
    index = end;
    let at = if is_path_mark(tokens, index) { index + 2 } else { index };
    match tokens.get(at).map(|token| &token.kind) {
        Some(TokenKind::Mark('*')) => {
            out.push(Leaf { path, name: "*".to_owned(), line, signpost });
            return at + 1;
        }
        Some(TokenKind::Open('{')) => {
            let mut index = at + 1;
            while let Some(token) = tokens.get(index) {
                match token.kind {
                    TokenKind::Close('}') => return index + 1,
                    TokenKind::Mark(',') => index += 1,
                    _ => index = read_use(tokens, index, &path, signpost, out).max(index + 1),
                }
            }
            return index;
        }
        _ => {}
    }
    // `a::{self}` is `a`; `self` at the front is a place.
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if let (Some(word), Some(alias)) = (tokens.get(index), tokens.get(index + 1))
        && word.is_word("as")
    {
        name = alias.word().unwrap_or("_").to_owned();
        index += 2;
    }
    out.push(Leaf { path, name, line, signpost });
    index
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{Tree, source};

    /// The imports of a crate `a`, as `from -> to`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let mut problems = Vec::new();
        let sources = source::read_all(&Tree::of(&files), &mut problems);
        assert_eq!(problems, []);
        let graph = Graph::of("crates/a/src/", &sources);
        graph.imports.keys().map(|(from, to)| format!("{} -> {}", graph.files[*from], graph.files[*to])).collect()
    }

    #[test]
    fn every_form_of_a_path_is_followed() {
        for text in [
            "use crate::b::c::Thing;",
            "use crate::{b::{c::{Thing, other}}};",
            "use super::b::c::Thing as _;",
            "fn f() { crate::b::c::go(); }",
            "use crate::b; fn f() -> b::c::Thing {}",
            "use crate::b::c::{self}; fn f(a: Option<c::Thing>) {}",
            "use crate::b::c::*;",
            "macro_rules! m { () => { $crate::b::c::Thing } }",
            "mod inner { fn f() { super::super::b::c::go() } }",
        ] {
            let found = imports(&[("lib.rs", ""), ("a.rs", text), ("b/mod.rs", ""), ("b/c.rs", "")]);
            assert_eq!(found, ["a.rs -> b/c.rs"], "{text}");
        }
    }

    #[test]
    fn what_is_no_import() {
        for text in [
            "use std::b::c::Thing;",
            "use crate::b::c;",
            "// crate::b::c::go()",
            "#[cfg(test)] mod tests { use crate::b::c::Thing; }",
            "pub use crate::b::c::Thing;",
            "fn f(x: X) { x.b::<u8>() } fn g() -> impl Iterator + use<> {}",
        ] {
            let found = imports(&[("lib.rs", "pub mod b;"), ("a.rs", text), ("b.rs", "pub mod c;"), ("b/c.rs", "")]);
            assert!(found.is_empty(), "{text}: {found:?}");
        }
    }

    #[test]
    fn signposts_lead_to_where_a_thing_is() {
        let lib = ("lib.rs", "pub use b::Thing; pub type Own = u8;");
        let found =
            imports(&[lib, ("a.rs", "use crate::{Own, Thing};"), ("b.rs", ""), ("c.rs", "use super::a::Thing;")]);
        assert_eq!(found, ["a.rs -> b.rs", "a.rs -> lib.rs", "c.rs -> b.rs"]);
        let used = imports(&[("lib.rs", "pub use b::Thing; fn f() -> Thing {}"), ("b.rs", "")]);
        assert_eq!(used, ["lib.rs -> b.rs"]);
        assert!(
            imports(&[("lib.rs", "pub use a::X;"), ("a.rs", "pub use crate::X;"), ("b.rs", "use crate::X;")])
                .is_empty()
        );
    }

    #[test]
    fn exported_macros_are_at_the_root() {
        let own = ("log.rs", "#[macro_export] macro_rules! say { () => {} }");
        assert_eq!(imports(&[own, ("lib.rs", ""), ("b.rs", "use crate::say;")]), ["b.rs -> log.rs"]);
        assert_eq!(imports(&[own, ("lib.rs", ""), ("b.rs", "fn f() { say!() }")]), ["b.rs -> log.rs"]);
        assert_eq!(imports(&[own, ("lib.rs", ""), ("b.rs", "fn f() { crate::say!() }")]), ["b.rs -> log.rs"]);
    }

    #[test]
    fn circles_are_found_whole() {
        let graph = Graph {
            files: ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec(),
            imports: [(0, 1), (1, 2), (2, 0), (2, 3), (4, 5), (5, 4)].into_iter().map(|pair| (pair, 1)).collect(),
        };
        assert_eq!(graph.circles(), [vec![0, 1, 2], vec![4, 5]]);
    }
}
