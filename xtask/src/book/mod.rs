//! `cargo xtask book`: the guide, the reference and the design notes as a static site that can be searched.
//!
//! The pages are the repository's pages, at the same paths, and their list is made from the folders. mdBook renders
//! them, called by `xtask/book/`, a workspace of its own.

mod built;
mod links;
mod pages;

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::command::{self, StepError, at};
use crate::tidy::{self, Tree};

/// The reason why the book was not made.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// The repository cannot be read.
    #[error(transparent)]
    Tree(#[from] tidy::TidyError),
    /// mdBook did not build or did not run, or a file cannot be read or written.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The book has links that lead nowhere.
    #[error("{} links of the book lead nowhere", .0)]
    Broken(usize),
}

/// Builds the book in `target/book` (the folder `book` in `CARGO_TARGET_DIR`) and answers where its first page is.
pub fn book(repository: &Path) -> Result<PathBuf, BookError> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    let target = std::path::absolute(&target).unwrap_or(target);
    let (source, site) = (target.join("book-source"), target.join("book"));
    fill(repository, &source)?;
    remove(&site)?;
    let mut cargo = command::cargo(repository);
    cargo.args(["run", "--quiet", "--locked", "--manifest-path", "xtask/book/Cargo.toml", "--target-dir"]);
    cargo.arg(target.join("book-program")).arg("--").arg(&source);
    command::run(&mut cargo)?;
    let (broken, count) = at(&site, built::broken(&site))?;
    for line in &broken {
        eprintln!("book: {line}");
    }
    if !broken.is_empty() {
        return Err(BookError::Broken(broken.len()));
    }
    eprintln!("book: {count} links lead somewhere");
    Ok(site.join("index.html"))
}

/// Writes what mdBook reads.
fn fill(repository: &Path, source: &Path) -> Result<(), BookError> {
    let tree = Tree::read(repository)?;
    let pages = pages::Pages::of(&tree);
    remove(source)?;
    let inside = source.join("src");
    for path in pages.paths() {
        let (text, files) = links::for_book(path, tree.get(path).unwrap_or_default(), &pages, &tree);
        write(&inside.join(path), text.as_bytes())?;
        for file in files {
            let original = repository.join(&file);
            write(&inside.join(&file), &at(&original, fs::read(&original))?)?;
        }
    }
    write(&inside.join("SUMMARY.md"), pages.summary().as_bytes())?;
    let settings = repository.join("xtask/book/book.toml");
    Ok(write(&source.join("book.toml"), &at(&settings, fs::read(&settings))?)?)
}

/// Removes what an earlier run has left.
fn remove(folder: &Path) -> Result<(), StepError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => at(folder, Err(error)),
        _ => Ok(()),
    }
}

fn write(path: &Path, contents: &[u8]) -> Result<(), StepError> {
    if let Some(folder) = path.parent() {
        at(folder, fs::create_dir_all(folder))?;
    }
    at(path, fs::write(path, contents))
}
