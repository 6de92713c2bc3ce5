//! The map of the source: each Rust file and folder with the first sentence of what it says about itself.

use std::fmt::Write as _;
use std::path::Path;

use crate::tidy::{self, Tree, heads};

/// Files that speak for their folder.
const ROOTS: &[&str] = &["mod.rs", "lib.rs", "main.rs"];

/// The map of the files and folders of a repository whose paths begin with `below`, one line each.
pub(crate) fn map(root: &Path, below: &str) -> Result<String, tidy::TidyError> {
    Ok(lines(&Tree::read(root)?, below))
}

fn lines(tree: &Tree, below: &str) -> String {
    let below = below.trim_start_matches("./");
    let mut entries: Vec<(String, String)> = tree
        .iter()
        .filter(|(path, _)| path.ends_with(".rs") && path.starts_with(below))
        .map(|(path, text)| (place(tree, path), sentence(path, text)))
        .collect();
    entries.sort();
    let mut map = String::new();
    for (place, sentence) in entries {
        // Writing to a String cannot fail.
        let _ = writeln!(map, "{place}  {sentence}");
    }
    map
}

/// The place of a file: its folder if it is the root of a module there, else itself.
fn place(tree: &Tree, path: &str) -> String {
    let Some((folder, name)) = path.rsplit_once('/') else { return path.to_owned() };
    // A package may have a library and a binary; the library speaks for the folder.
    let second = name == "main.rs" && tree.is_file(&format!("{folder}/lib.rs"));
    if ROOTS.contains(&name) && !second { format!("{folder}/") } else { path.to_owned() }
}

fn sentence(path: &str, text: &str) -> String {
    let tests = || heads::tests_of(path).map(|subject| format!("Unit tests of `{subject}`."));
    heads::first_sentence(text).or_else(tests).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_what_is_in_them() {
        let tree = Tree::of(&[
            ("crates/a/src/b/c.rs", "//! Part c.\n"),
            ("crates/a/src/b/c_tests.rs", "use super::*;\n"),
            ("crates/a/src/b/mod.rs", "//! Folder b. It has c.\n"),
            ("crates/a/src/lib.rs", "//! Crate a.\n"),
            ("crates/a/src/main.rs", "//! Its binary.\n"),
            ("crates/b/src/lib.rs", "//! Crate b.\n"),
        ]);
        assert_eq!(
            lines(&tree, "./crates/a"),
            "crates/a/src/  Crate a.\ncrates/a/src/b/  Folder b.\ncrates/a/src/b/c.rs  Part c.\n\
             crates/a/src/b/c_tests.rs  Unit tests of `c`.\ncrates/a/src/main.rs  Its binary.\n"
        );
        assert_eq!(lines(&tree, "crates/b/src/lib.rs"), "crates/b/src/  Crate b.\n");
    }

    #[test]
    fn every_line_of_the_map_has_a_sentence() {
        let map = map(&crate::repository(), "").unwrap();
        let empty: Vec<&str> = map.lines().filter(|line| line.ends_with("  ")).collect();
        assert!(empty.is_empty() && map.contains("\nxtask/src/map.rs  The map of the source"), "{empty:?}");
    }
}
