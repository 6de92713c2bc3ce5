//! The files of the repository, the texts of them in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::TidyError;

/// Folders that hold no source, wherever they are.
const SKIPPED_FOLDERS: &[&str] = &[".git", "target", "node_modules"];

/// Folders that hold no source, as paths from the root.
const SKIPPED_PATHS: &[&str] = &["fuzz/corpus", "fuzz/artifacts"];

/// A file larger than this is data, not text that somebody maintains; the checks do not read it. Bytes.
const MAX_FILE: u64 = 4 << 20;

/// Text files by their path from the root, with `/` as separator.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
    /// Files that are no text, such as pictures.
    others: BTreeSet<String>,
}

impl Tree {
    /// Reads a repository. Symbolic links and build results are left out; of files that are not UTF-8 only the
    /// names are known.
    pub(crate) fn read(root: &Path) -> Result<Self, TidyError> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        Ok(tree)
    }

    /// A tree from texts, for the tests of the checks.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        Self { files, ..Self::default() }
    }

    /// Every file, in the order of paths.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of one file.
    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file of that path exists, text or not.
    pub(crate) fn is_file(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.others.contains(path)
    }

    /// Whether a file or a folder of that path exists (a folder: if a text file is in it).
    pub(crate) fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        if path.is_empty() || self.files.contains_key(path) || self.others.contains(path) {
            return true;
        }
        let folder = format!("{path}/");
        self.files.range(folder.clone()..).next().is_some_and(|(next, _)| next.starts_with(&folder))
    }

    /// The number of files.
    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> Result<(), TidyError> {
        let failed = |source| TidyError::Read { path: folder.display().to_string(), source };
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
            let kind = entry.file_type().map_err(failed)?;
            // In a second working tree of a repository `.git` is a file that says where the repository is.
            if path == ".git" {
                continue;
            }
            if kind.is_dir() {
                if !SKIPPED_FOLDERS.contains(&name.as_str()) && !SKIPPED_PATHS.contains(&path.as_str()) {
                    self.walk(&entry.path(), &path)?;
                }
            } else if kind.is_file() {
                self.take(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    fn take(&mut self, file: &Path, path: String) -> Result<(), TidyError> {
        let read = || if std::fs::metadata(file)?.len() > MAX_FILE { Ok(Vec::new()) } else { std::fs::read(file) };
        match read() {
            Ok(bytes) => {
                match String::from_utf8(bytes) {
                    Ok(text) => drop(self.files.insert(path, text)),
                    Err(_) => drop(self.others.insert(path)),
                }
                Ok(())
            }
            // Editors and builds may remove a file between the listing and the reading.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(TidyError::Read { path: file.display().to_string(), source }),
        }
    }
}

/// The line of a byte of a text, from 1.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_exists_though_it_is_no_text() {
        let folder = std::env::temp_dir().join(format!("freerun-tidy-tree-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("docs")).unwrap();
        std::fs::write(folder.join("docs/a.png"), b"\x89PNG\xff").unwrap();
        let tree = Tree::read(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(tree.exists("docs/a.png") && tree.get("docs/a.png").is_none() && tree.len() == 0);
    }

    #[test]
    fn folders_exist_when_a_file_is_in_them() {
        let tree = Tree::of(&[("docs/design/README.md", ""), ("docs.md", "")]);
        for path in ["docs", "docs/", "docs/design", "docs/design/README.md", "docs.md"] {
            assert!(tree.exists(path), "{path}");
        }
        for path in ["doc", "docs/des", "docs/README.md"] {
            assert!(!tree.exists(path), "{path}");
        }
    }

    #[test]
    fn the_walk_leaves_out_build_results() {
        let tree = Tree::read(&crate::repository()).unwrap();
        assert!(tree.get("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.iter().all(|(path, _)| !path.starts_with("target/") && !path.starts_with(".git/")));
    }
}
