//! Rust files as flat lists of tokens: comments and strings are gone, test code is marked.
//!
//! The files are cut with the compiler's own lexer rules (`proc-macro2`). So a word in a comment, a string, a raw
//! string or a doc comment is never mistaken for code, and code inside macro calls is seen as well.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{Problem, Tree};

/// The kind of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name or keyword.
    Word(String),
    /// A character of punctuation.
    Mark(char),
    /// An opening bracket, as its character; groups without brackets do not show.
    Open(char),
    /// The bracket that closes it.
    Close(char),
    /// A string, number or character; a string keeps its text for `#[path = "…"]`.
    Literal(String),
}

/// A token and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    /// The token's kind.
    pub(crate) kind: TokenKind,
    /// Its line, from 1.
    pub(crate) line: usize,
    /// Whether it is compiled for tests only.
    pub(crate) test: bool,
}

impl Token {
    /// Whether the token is this name or keyword.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.kind, TokenKind::Word(own) if own == word)
    }

    /// Whether the token is this punctuation character.
    pub(crate) fn is_mark(&self, mark: char) -> bool {
        self.kind == TokenKind::Mark(mark)
    }

    /// The name, if it is one.
    pub(crate) fn word(&self) -> Option<&str> {
        match &self.kind {
            TokenKind::Word(word) => Some(word),
            _ => None,
        }
    }
}

/// A Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the root.
    pub(crate) path: String,
    /// Its tokens, in order.
    pub(crate) tokens: Vec<Token>,
}

/// Cuts every Rust file of the tree. A file that is not Rust becomes a problem and is left out.
pub(crate) fn read_all(tree: &Tree, problems: &mut Vec<Problem>) -> Vec<Source> {
    let mut sources = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".rs")) {
        match text.parse::<TokenStream>() {
            Ok(stream) => {
                let mut tokens = Vec::new();
                flatten(stream, is_test_path(path), &mut tokens);
                sources.push(Source { path: path.to_owned(), tokens });
            }
            Err(error) => {
                let line = error.span().start().line.max(1);
                problems.push(Problem::new(
                    path,
                    line,
                    format!("cannot be cut into tokens: {error}"),
                    "make it compile",
                ));
            }
        }
    }
    mark_test_files(&mut sources);
    sources
}

/// Whether everything under this path is test code: cargo's folders for tests, benchmarks and examples, and fuzz targets.
fn is_test_path(path: &str) -> bool {
    let inside = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/')).map_or(path, |(_, inside)| inside);
    ["tests/", "benches/", "examples/", "fuzz/"].iter().any(|folder| inside.starts_with(folder))
}

/// Appends the tokens of a stream. `test`: the stream is inside test code already.
fn flatten(stream: TokenStream, test: bool, out: &mut Vec<Token>) {
    let trees: Vec<TokenTree> = stream.into_iter().collect();
    let whole = test || trees.windows(3).any(is_inner_test_attribute);
    // Everything before this index belongs to an item that is compiled for tests only.
    let mut test_until = 0;
    for (index, tree) in trees.iter().enumerate() {
        if index >= test_until && is_test_attribute(&trees[index..]) {
            test_until = item_end(&trees, index);
        }
        let test = whole || index < test_until;
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(ident) => {
                let word = ident.to_string();
                let word = word.strip_prefix("r#").map_or(word.clone(), str::to_owned);
                out.push(Token { kind: TokenKind::Word(word), line, test });
            }
            TokenTree::Punct(punct) => out.push(Token { kind: TokenKind::Mark(punct.as_char()), line, test }),
            TokenTree::Literal(literal) => {
                out.push(Token { kind: TokenKind::Literal(literal.to_string()), line, test });
            }
            TokenTree::Group(group) => {
                let brackets = match group.delimiter() {
                    Delimiter::Parenthesis => Some(('(', ')')),
                    Delimiter::Brace => Some(('{', '}')),
                    Delimiter::Bracket => Some(('[', ']')),
                    Delimiter::None => None,
                };
                if let Some((open, _)) = brackets {
                    out.push(Token { kind: TokenKind::Open(open), line: group.span_open().start().line, test });
                }
                flatten(group.stream(), test, out);
                if let Some((_, close)) = brackets {
                    out.push(Token { kind: TokenKind::Close(close), line: group.span_close().start().line, test });
                }
            }
        }
    }
}

/// The index after the item that begins (with its attributes) at `start`: past its first `;` or its first `{…}`.
fn item_end(trees: &[TokenTree], start: usize) -> usize {
    let ends = |tree: &TokenTree| match tree {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    trees[start..].iter().position(ends).map_or(trees.len(), |offset| start + offset + 1)
}

/// Whether the trees begin with `#[test]`, `#[tokio::test]` or a `#[cfg(…)]` that needs `test`.
fn is_test_attribute(trees: &[TokenTree]) -> bool {
    match trees {
        [TokenTree::Punct(hash), TokenTree::Group(group), ..] => {
            hash.as_char() == '#' && group.delimiter() == Delimiter::Bracket && says_test(group.stream())
        }
        _ => false,
    }
}

/// Whether the three trees are `#![cfg(test)]`.
fn is_inner_test_attribute(trees: &[TokenTree]) -> bool {
    match trees {
        [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(group)] => {
            hash.as_char() == '#' && bang.as_char() == '!' && says_test(group.stream())
        }
        _ => false,
    }
}

/// Whether an attribute's content means "only for tests".
fn says_test(content: TokenStream) -> bool {
    let trees: Vec<TokenTree> = content.into_iter().collect();
    match trees.as_slice() {
        [TokenTree::Ident(name), TokenTree::Group(condition)] if name == "cfg" => needs_test(condition.stream()),
        // `#[test]`, `#[tokio::test]`, `#[tokio::test(…)]`.
        [.., TokenTree::Ident(last)] | [.., TokenTree::Ident(last), TokenTree::Group(_)] => last == "test",
        _ => false,
    }
}

/// Whether a `cfg` condition can only hold in tests: `test`, or `all(…)` with it.
fn needs_test(condition: TokenStream) -> bool {
    let trees: Vec<TokenTree> = condition.into_iter().collect();
    trees.iter().enumerate().any(|(index, tree)| match tree {
        TokenTree::Ident(name) if name == "test" => true,
        TokenTree::Ident(name) if name == "all" => match trees.get(index + 1) {
            Some(TokenTree::Group(group)) => needs_test(group.stream()),
            _ => false,
        },
        _ => false,
    })
}

/// Marks the files that `#[cfg(test)] mod name;` brings in, with everything below them.
fn mark_test_files(sources: &mut [Source]) {
    let mut files = BTreeSet::new();
    let mut folders = BTreeSet::new();
    for source in sources.iter() {
        let (folder, base) = module_folders(&source.path);
        for (name, explicit) in test_modules(&source.tokens) {
            let file = match explicit {
                Some(file) => format!("{folder}{file}"),
                None => {
                    folders.insert(format!("{base}{name}/"));
                    format!("{base}{name}.rs")
                }
            };
            folders.insert(module_folders(&file).1);
            files.insert(file);
        }
    }
    for source in sources {
        if files.contains(&source.path) || folders.iter().any(|folder| source.path.starts_with(folder)) {
            source.tokens.iter_mut().for_each(|token| token.test = true);
        }
    }
}

/// The folder a file is in and the folder of its submodules, both with a `/` at the end.
fn module_folders(path: &str) -> (String, String) {
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let folder = if folder.is_empty() { String::new() } else { format!("{folder}/") };
    let base = match name.strip_suffix(".rs") {
        None | Some("mod" | "lib" | "main") => folder.clone(),
        Some(stem) => format!("{folder}{stem}/"),
    };
    (folder, base)
}

/// The `mod name;` in test code, each with the file that `#[path]` names for it.
fn test_modules(tokens: &[Token]) -> Vec<(String, Option<String>)> {
    let mut modules = Vec::new();
    let mut explicit = None;
    for (index, token) in tokens.iter().enumerate() {
        if token.is_word("path") && index > 0 && tokens[index - 1].kind == TokenKind::Open('[') {
            if let Some(TokenKind::Literal(text)) = tokens.get(index + 2).map(|token| &token.kind) {
                explicit = Some(text.trim_matches('"').to_owned());
            }
        } else if token.test && token.is_word("mod") && tokens.get(index + 2).is_some_and(|end| end.is_mark(';')) {
            if let Some(name) = tokens.get(index + 1).and_then(Token::word) {
                modules.push((name.to_owned(), explicit.take()));
            }
        } else if token.is_mark(';') || matches!(token.kind, TokenKind::Open('{')) {
            explicit = None;
        }
    }
    modules
}

/// The lines in which a rule finds something in this text, as the file with this path.
#[cfg(test)]
pub(crate) fn lines_found(check: fn(&[Source], &mut Vec<Problem>), path: &str, text: &str) -> Vec<usize> {
    let mut problems = Vec::new();
    let sources = read_all(&Tree::of(&[(path, text)]), &mut problems);
    check(&sources, &mut problems);
    problems.iter().map(|problem| problem.line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(files: &[(&str, &str)], test: bool) -> Vec<String> {
        let mut problems = Vec::new();
        let sources = read_all(&Tree::of(files), &mut problems);
        assert_eq!(problems, []);
        let tokens = sources.iter().flat_map(|source| &source.tokens);
        tokens.filter(|token| token.test == test).filter_map(|token| token.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        let text = "// unsafe\n/* unsafe */ fn a() { \"unsafe\"; r#\"unsafe\"#; b\"unsafe\"; 'u'; } // unsafe";
        assert_eq!(words(&[("a.rs", text)], false), ["fn", "a"].map(str::to_owned));
    }

    #[test]
    fn doc_comments_are_attributes_with_a_string() {
        assert_eq!(
            words(&[("a.rs", "//! unsafe\n/// unsafe\nfn a() {}")], false),
            ["doc", "doc", "fn", "a"].map(str::to_owned)
        );
    }

    #[test]
    fn test_items_end_where_they_end() {
        let text = "#[cfg(test)] mod tests { fn inner() {} } fn outer() {} #[cfg(test)] use a; fn last() {}";
        let live = words(&[("a.rs", text)], false);
        assert_eq!(live, ["fn", "outer", "fn", "last"].map(str::to_owned));
    }

    #[test]
    fn test_attributes_of_several_shapes() {
        for attribute in ["#[test]", "#[tokio::test]", "#[cfg(all(test, unix))]", "#[cfg(test)] #[allow(dead_code)]"] {
            let live = words(&[("a.rs", &format!("{attribute} fn inside() {{}} fn outside() {{}}"))], false);
            assert_eq!(live, ["fn", "outside"].map(str::to_owned), "{attribute}");
        }
        for attribute in ["#[cfg(not(test))]", "#[cfg(any(test, unix))]", "#[cfg(feature = \"test\")]"] {
            assert!(words(&[("a.rs", &format!("{attribute} fn live() {{}}"))], false).contains(&"live".into()));
        }
    }

    #[test]
    fn whole_files_can_be_tests() {
        let files = [
            ("crates/a/src/lib.rs", "mod live; #[cfg(test)] mod tests;"),
            ("crates/a/src/live.rs", "fn live() {} #[cfg(test)] #[path = \"other.rs\"] mod own;"),
            ("crates/a/src/other.rs", "fn hidden1() {}"),
            ("crates/a/src/tests.rs", "mod deep;"),
            ("crates/a/src/tests/deep.rs", "fn hidden2() {}"),
            ("crates/a/tests/it.rs", "fn hidden3() {}"),
            ("tests/suite/main.rs", "fn hidden4() {}"),
            ("crates/a/src/inner.rs", "#![cfg(test)] fn hidden5() {}"),
        ];
        let live = words(&files, false);
        assert!(live.contains(&"live".into()));
        assert!(!live.iter().any(|word| word.starts_with("hidden")), "{live:?}");
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_problem() {
        let mut problems = Vec::new();
        let sources = read_all(&Tree::of(&[("a.rs", "fn a() {\n  )\n}")]), &mut problems);
        assert!(sources.is_empty());
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].path, "a.rs");
    }
}
