//! Tests with real configurations. The folder is `FREERUN_CORPUS`, or `../shared/corpus` beside the workspace.

use std::path::{Path, PathBuf};

use crate::support::parse_text;
use freerun_testkit::require;

/// The folder of the corpus, if it exists.
pub fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("FREERUN_CORPUS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
    };
    folder.is_dir().then_some(folder)
}

/// Every configuration of the corpus and whether nginx 1.31.5 accepts it, from its `index.tsv`.
pub fn files(folder: &Path) -> Vec<(PathBuf, bool)> {
    let index = std::fs::read_to_string(folder.join("index.tsv")).expect("the corpus has an index");
    let mut files = Vec::new();
    for line in index.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [path, _context, _old, new, ..] = columns[..] else { panic!("a row of {} columns", columns.len()) };
        files.push((folder.join(path), new == "ok"));
    }
    files
}

#[test]
fn what_nginx_takes_parses() {
    let folder = folder();
    require::need("corpus", folder.is_some(), "no corpus (FREERUN_CORPUS)");
    let Some(folder) = folder else { return };
    let files = files(&folder);
    let mut parsed = 0;
    for (path, accepted) in &files {
        let tree = parse_text(&std::fs::read(path).expect("a readable file"));
        match tree.error {
            None => parsed += 1,
            // That `include` does not find a file here is no error of the language.
            Some(problem) if problem.message.starts_with("open()") => parsed += 1,
            Some(problem) => {
                assert!(!accepted, "{}: {}", path.display(), problem.render(&tree.sources));
                println!("{}: {}", path.display(), problem.render(&tree.sources));
            }
        }
    }
    println!("{parsed} of {} files of the corpus parse", files.len());
}
