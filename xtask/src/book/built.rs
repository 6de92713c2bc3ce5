//! Whether a book that was built is whole: its links, and the places in pages that they name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use crate::tidy;

/// Pages whose links are not relative to themselves: a server shows this one at any address.
const ANYWHERE: &[&str] = &["404.html"];

/// The links of the pages in a folder that lead nowhere, one line each, and how many links there are.
pub(super) fn broken(folder: &Path) -> io::Result<(Vec<String>, usize)> {
    let mut pages = BTreeMap::new();
    walk(folder, "", &mut pages)?;
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        pages.iter().map(|(path, text)| (path.as_str(), values(text, &["id"]).collect())).collect();
    let (mut broken, mut count) = (Vec::new(), 0);
    for (path, text) in pages.iter().filter(|(path, _)| !ANYWHERE.contains(&path.as_str())) {
        let own_folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in values(text, &["href", "src"]) {
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            if file.contains(':') || file.starts_with("//") {
                continue;
            }
            count += 1;
            let there = if file.is_empty() { Some(path.clone()) } else { tidy::resolve(own_folder, file) };
            let whole = there.is_some_and(|there| match ids.get(there.as_str()) {
                Some(ids) => part.is_empty() || ids.contains(part),
                None => folder.join(&there).is_file(),
            });
            if !whole {
                broken.push(format!("{path}: the link to {target} leads nowhere"));
            }
        }
    }
    Ok((broken, count))
}

/// Reads the pages of a folder and of those below it.
fn walk(folder: &Path, prefix: &str, pages: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{path}/"), pages)?;
        } else if name.ends_with(".html") {
            pages.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}

/// The values of attributes in a page that mdBook has written, which has them in double quotes.
fn values<'a>(text: &'a str, names: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    names.iter().flat_map(move |name| {
        let begin = format!(" {name}=\"");
        let parts: Vec<&str> = text.split(begin.as_str()).skip(1).collect();
        parts.into_iter().filter_map(|part| part.split('"').next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let folder = std::env::temp_dir().join(format!("freerun-book-{}", std::process::id()));
        fs::create_dir_all(folder.join("docs")).unwrap();
        let page = "<a href=\"docs/a.html#x\"> <a href=\"docs/a.html#y\"> <a href=\"b.html\"> <a href=\"#z\">\
            <a href=\"https://x.example/\"> <img src=\"p.png\">";
        fs::write(folder.join("index.html"), page).unwrap();
        fs::write(folder.join("docs/a.html"), "<h1 id=\"x\"><a href=\"../index.html\">").unwrap();
        fs::write(folder.join("p.png"), "").unwrap();
        let found = broken(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let (broken, count) = found.unwrap();
        let nowhere = |target| format!("index.html: the link to {target} leads nowhere");
        assert_eq!((broken, count), (vec![nowhere("docs/a.html#y"), nowhere("b.html"), nowhere("#z")], 6));
    }
}
