//! Builds the book in a folder with mdBook; `cargo xtask book` fills the folder and runs this.
//!
//! mdBook needs a hundred packages that nothing else here uses. So this is a workspace of its own, and only those who build
//! the book compile it.

use std::process::ExitCode;

use mdbook_driver::MDBook;

fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        eprintln!("usage: freerun-book FOLDER");
        return ExitCode::from(2);
    };
    match MDBook::load(folder).and_then(|book| book.build()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("freerun-book: {error:#}");
            ExitCode::FAILURE
        }
    }
}
