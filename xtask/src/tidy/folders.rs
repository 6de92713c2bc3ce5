//! A module with a folder stands in it, as `x/mod.rs`: the coordinator of a folder is found where the folder is.

use super::allow::Exceptions;
use super::{Problem, Tree};

/// Reports modules that stand beside their folder.
pub(crate) fn check(tree: &Tree, exceptions: &mut Exceptions, problems: &mut Vec<Problem>) {
    for (path, _) in tree.iter() {
        let Some(stem) = path.strip_suffix(".rs") else { continue };
        let folder = format!("{stem}/");
        let inside = tree.iter().any(|(other, _)| other.starts_with(&folder) && other.ends_with(".rs"));
        if inside && !exceptions.beside(path) {
            let message = format!("the module stands beside its folder {folder}");
            problems.push(Problem::new(path, 1, message, format!("git mv {path} {folder}mod.rs")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::allow;

    fn found(allow: &str, files: &[&str]) -> Vec<String> {
        let mut files: Vec<(&str, &str)> = files.iter().map(|path| (*path, "")).collect();
        files.push((allow::FILE, allow));
        let tree = Tree::of(&files);
        let mut problems = Vec::new();
        let mut exceptions = Exceptions::read(&tree, &mut problems);
        check(&tree, &mut exceptions, &mut problems);
        exceptions.unused(&mut problems);
        problems.into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn a_coordinator_stands_in_its_folder() {
        assert!(found("", &["a/x/mod.rs", "a/x/y.rs", "a/x.md", "a/xy.rs", "a/z.rs", "a/z/data.json"]).is_empty());
        assert_eq!(found("", &["a/x.rs", "a/x/y.rs"]), ["the module stands beside its folder a/x/"]);
        assert_eq!(found("", &["a/x.rs", "a/x/deep/y.rs"]).len(), 1);
    }

    #[test]
    fn an_exception_has_to_be_needed() {
        let allow = "[[folder_style]]\npath = \"a/\"\nreason = \"It is being moved.\"\n";
        assert!(found(allow, &["a/x.rs", "a/x/y.rs"]).is_empty());
        assert_eq!(found(allow, &["a/x/mod.rs"]), ["the exception \"folder_style\" for a/ excuses nothing"]);
    }
}
