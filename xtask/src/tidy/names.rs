//! Names of types, functions and files: each says what the thing is, and is not said of three others.

use std::collections::BTreeMap;

use super::source::{Source, Token, TokenKind};
use super::vocabulary::Vocabulary;
use super::{Problem, Tree};

/// The most crates that may have a type of one name.
const MAX_CRATES: usize = 3;

/// A type's definition.
#[derive(Debug)]
struct Definition<'s> {
    name: &'s str,
    path: &'s str,
    line: usize,
}

/// All names that say nothing or too much.
pub(crate) fn find(tree: &Tree, sources: &[Source], words: &Vocabulary) -> Vec<Problem> {
    let mut problems = Vec::new();
    let definitions: Vec<Definition<'_>> = sources.iter().flat_map(definitions).collect();
    for Definition { name, path, line } in definitions.iter().filter(|definition| words.lacks_noun(definition.name)) {
        let fix = "name it with a noun of the field (RFC 9110, nginx's manual)";
        problems.push(Problem::new(path, *line, format!("the type `{name}` has no noun in its name"), fix));
    }
    repeated(&definitions, &mut problems);
    for source in sources {
        functions(source, words, &mut problems);
    }
    files(tree, words, &mut problems);
    problems
}

/// The types that a file defines outside of functions, implementations and tests.
fn definitions(source: &Source) -> Vec<Definition<'_>> {
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for pair in source.tokens.windows(2) {
        match &pair[0].kind {
            TokenKind::Open('{') => depth += 1,
            TokenKind::Close('}') => depth = depth.saturating_sub(1),
            TokenKind::Word(word) if defines(word, depth) && !pair[0].test => {
                if let Some(name) = pair[1].word().filter(|name| name.starts_with(|first: char| first.is_uppercase())) {
                    found.push(Definition { name, path: &source.path, line: pair[1].line });
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether this keyword defines a type here; deeper, `type` belongs to a trait.
fn defines(word: &str, depth: usize) -> bool {
    match word {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => depth == 0,
        _ => false,
    }
}

/// The crate of a file: `crates/http/`.
pub(crate) fn package(path: &str) -> &str {
    let folders = if path.starts_with("crates/") { 2 } else { 1 };
    path.match_indices('/').nth(folders - 1).map_or("", |(end, _)| &path[..=end])
}

/// Reports names that a crate has twice, and names of too many crates.
fn repeated(definitions: &[Definition<'_>], problems: &mut Vec<Problem>) {
    let mut by_name: BTreeMap<&str, Vec<&Definition<'_>>> = BTreeMap::new();
    for definition in definitions {
        by_name.entry(definition.name).or_default().push(definition);
    }
    for (name, all) in by_name {
        let mut crates = Vec::new();
        for Definition { path, line, .. } in all {
            let own = package(path);
            let message = if crates.contains(&own) {
                format!("{own} has the type `{name}` twice")
            } else if crates.len() >= MAX_CRATES {
                format!("more than {MAX_CRATES} crates have a type `{name}`")
            } else {
                crates.push(own);
                continue;
            };
            problems.push(Problem::new(path, *line, message, "say in the name which one it is"));
        }
    }
}

fn functions(source: &Source, words: &Vocabulary, problems: &mut Vec<Problem>) {
    let named = |pair: &[Token]| pair[0].is_word("fn").then(|| pair[1].word().map(str::to_owned)).flatten();
    for pair in source.tokens.windows(2).filter(|pair| !pair[0].test) {
        if let Some(name) = named(pair)
            && let Some(instead) = words.functions.get(&name)
        {
            let message = format!("the function `{name}` does not say what it does");
            problems.push(Problem::new(&source.path, pair[1].line, message, instead.clone()));
        }
    }
}

fn files(tree: &Tree, words: &Vocabulary, problems: &mut Vec<Problem>) {
    for (path, _) in tree.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut parts = path.trim_end_matches(".rs").split('/').skip_while(|part| *part != "src").skip(1);
        if let Some((name, instead)) = parts.find_map(|part| words.files.get_key_value(part)) {
            let message = format!("the name `{name}` does not say what the file is about");
            problems.push(Problem::new(path, 1, message, format!("such a file was called: {instead}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::{source, vocabulary};

    const WORDS: &str = "no_names = [\"Kept\"]\n[files]\ntold = \"report\"\n[functions]\nwhom = \"upstream\"\n";

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = files.to_vec();
        all.push((vocabulary::FILE, WORDS));
        let tree = Tree::of(&all);
        let mut problems = Vec::new();
        let words = Vocabulary::read(&tree, &mut problems);
        let sources = source::read_all(&tree, &mut problems);
        problems.extend(find(&tree, &sources, &words));
        problems.into_iter().map(|problem| format!("{}:{}: {}", problem.path, problem.line, problem.message)).collect()
    }

    #[test]
    fn types_have_nouns_but_in_tests() {
        let text = "pub struct Kept;\nenum Waiting {}\nstruct KeptBody;\n#[cfg(test)]\nmod tests { struct Kept; }";
        assert_eq!(
            found(&[("crates/a/src/x.rs", text)]),
            [
                "crates/a/src/x.rs:1: the type `Kept` has no noun in its name",
                "crates/a/src/x.rs:2: the type `Waiting` has no noun in its name"
            ]
        );
    }

    #[test]
    fn a_name_is_there_once_a_crate_and_in_three_crates() {
        let text = "pub struct State;";
        let paths =
            ["a/src/x.rs", "a/src/y.rs", "b/src/x.rs", "c/src/x.rs", "d/src/x.rs"].map(|path| format!("crates/{path}"));
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), text)).collect();
        assert_eq!(
            found(&files),
            [
                "crates/a/src/y.rs:1: crates/a/ has the type `State` twice",
                "crates/d/src/x.rs:1: more than 3 crates have a type `State`"
            ]
        );
    }

    #[test]
    fn a_type_of_a_trait_has_the_name_that_the_trait_gives_it() {
        assert!(found(&[("crates/a/src/x.rs", "impl A for B { type Kept = u8; } trait C { type Kept; }")]).is_empty());
        assert_eq!(found(&[("crates/a/src/x.rs", "type Kept = u8;")]).len(), 1);
    }

    #[test]
    fn functions_and_files_say_what_they_are() {
        assert_eq!(
            found(&[("crates/a/src/told.rs", "fn whom() {}"), ("crates/a/src/told/x.rs", "")]),
            [
                "crates/a/src/told.rs:1: the function `whom` does not say what it does",
                "crates/a/src/told.rs:1: the name `told` does not say what the file is about",
                "crates/a/src/told/x.rs:1: the name `told` does not say what the file is about"
            ]
        );
    }
}
