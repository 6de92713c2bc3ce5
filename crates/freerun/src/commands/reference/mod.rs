//! `freerun reference`: the pages of docs/reference, from the tables of directives and variables.

mod examples;
mod nginx_variables;
pub mod variables;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use freerun_conf::Additions;
use freerun_modules::content::api::openapi;
use freerun_runtime::log::Errno;

use super::lint;
use crate::cli::{Reference, help};
use crate::configuration;
use crate::console;

/// Pages and tables of the reference besides the tables of directives.
pub fn additions() -> Additions {
    let page = |file: &str, title: &str, text: String| (file.to_owned(), title.to_owned(), text);
    let status = freerun_modules::content::status::FIELDS.to_owned();
    Additions {
        examples: examples::all(),
        pages: vec![
            page("subjects.md", "The directives by subject", include_str!("subjects.txt").to_owned()),
            page("variables.md", "Variables", variables::page()),
            page("status_fields.md", "The fields of `status`", status),
            page("lint.md", "Rules of the lint", lint::rules::page()),
            page("freerun-api.md", "freerun's own API", openapi::page()),
        ],
    }
}

/// All files: the pages, and the description of the API for programs.
fn pages() -> Vec<(String, String)> {
    let mut pages = freerun_conf::reference(configuration::registry(), &additions());
    pages.push(("freerun-api.json".to_owned(), openapi::file()));
    pages
}

/// Writes the pages, and removes pages that no longer exist; or reports which pages are not current.
pub fn run(options: &Reference) -> ExitCode {
    if options.help {
        console::output(&help::command("reference"));
        return ExitCode::SUCCESS;
    }
    let dir = Path::new(&options.dir);
    let pages = pages();
    let done = if options.check { check(dir, &pages) } else { write(dir, &pages) };
    match done {
        Ok(stale) if stale.is_empty() => ExitCode::SUCCESS,
        Ok(stale) => {
            for name in stale {
                eprintln!("freerun: {} is not current", dir.join(name).display());
            }
            eprintln!("freerun: \"freerun reference {}\" writes it anew", dir.display());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("freerun: {} ({})", dir.display(), Errno(&error));
            ExitCode::FAILURE
        }
    }
}

/// The pages in the folder that freerun does not write.
fn others(dir: &Path, pages: &[(String, String)]) -> std::io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir)? {
        if let Ok(name) = entry?.file_name().into_string()
            && name.ends_with(".md")
            && !pages.iter().any(|(page, _)| *page == name)
        {
            names.insert(name);
        }
    }
    Ok(names)
}

fn check(dir: &Path, pages: &[(String, String)]) -> std::io::Result<BTreeSet<String>> {
    let mut stale = others(dir, pages)?;
    for (name, text) in pages {
        if fs::read_to_string(dir.join(name)).ok().as_ref() != Some(text) {
            stale.insert(name.clone());
        }
    }
    Ok(stale)
}

fn write(dir: &Path, pages: &[(String, String)]) -> std::io::Result<BTreeSet<String>> {
    fs::create_dir_all(dir)?;
    for name in others(dir, pages)? {
        fs::remove_file(dir.join(name))?;
    }
    for (name, text) in pages {
        fs::write(dir.join(name), text)?;
    }
    Ok(BTreeSet::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_conf::{Cx, Sources};

    #[test]
    fn pages_are_current_once_written_and_not_after_a_change() {
        let dir = std::env::temp_dir().join(format!("freerun-reference-{}", std::process::id()));
        let pages = vec![("a.md".to_owned(), "A".to_owned()), ("b.md".to_owned(), "B".to_owned())];
        write(&dir, &pages).unwrap();
        assert!(check(&dir, &pages).unwrap().is_empty());
        fs::write(dir.join("a.md"), "C").unwrap();
        fs::write(dir.join("old.md"), "").unwrap();
        fs::write(dir.join("note.txt"), "").unwrap();
        let stale: Vec<_> = check(&dir, &pages).unwrap().into_iter().collect();
        assert_eq!(stale, ["a.md", "old.md"]);
        write(&dir, &pages).unwrap();
        assert!(check(&dir, &pages).unwrap().is_empty());
        assert!(dir.join("note.txt").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn every_table_of_the_program_is_sound() {
        let faults = configuration::registry().check(&mut Cx::new(Sources::default()));
        assert_eq!(faults, Vec::<String>::new());
    }

    #[test]
    fn every_page_has_a_subject() {
        let subjects = include_str!("subjects.txt");
        let links: BTreeSet<&str> =
            subjects.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()).collect();
        let pages = pages();
        let names: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        let unknown: Vec<_> = links.difference(&names).collect();
        assert!(unknown.is_empty(), "no such page: {unknown:?}");
        let list = |name: &str| matches!(name, "README.md" | "subjects.md" | "freerun-api.json");
        let missing: Vec<_> =
            names.difference(&links).filter(|name| !list(name) && !name.starts_with("stream-")).collect();
        assert!(missing.is_empty(), "without a subject: {missing:?}");
    }

    #[test]
    fn every_page_has_a_name_of_its_own() {
        let pages = pages();
        let names: BTreeSet<_> = pages.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), pages.len(), "{names:?}");
    }
}
