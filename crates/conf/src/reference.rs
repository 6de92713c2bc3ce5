//! The reference manual, printed from the directive tables.

use std::fmt::Write as _;

use crate::directive::{Directive, Fidelity};
use crate::known;
use crate::registry::Registry;

/// What the names of groups begin with that only builds with debug assertions have, for tests of the server. They are no part
/// of the reference.
const DEBUG: &str = "debug/";

/// The reference as Markdown files, name and text, in a fixed order: `README.md` with the lists of supported and
/// unsupported directives, one file for each settings group, and `blocks.md` for the structural directives.
pub fn reference(registry: &Registry) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut pages = Vec::new();
    if !registry.structure().is_empty() {
        let docs = "The directives that give a configuration its structure.";
        pages.push(Page { file: "blocks.md".to_owned(), title: "blocks".to_owned(), docs, rows: registry.structure() });
    }
    for group in registry.groups().iter().filter(|group| !group.name().starts_with(DEBUG)) {
        let title = title(group.name());
        let file = format!("{}.md", title.replace('/', "-"));
        pages.push(Page { file, title, docs: group.docs(), rows: group.directives() });
    }
    pages.sort_by(|left, right| left.file.cmp(&right.file));
    files.push(("README.md".to_owned(), index(registry, &pages)));
    files.extend(pages.iter().map(|page| (page.file.clone(), page.text())));
    files
}

struct Page<'a> {
    file: String,
    title: String,
    docs: &'static str,
    rows: &'a [Directive],
}

/// The title of a group: `http/files` stays as it is; `FileSettings` becomes `file`, `OpenFileCacheSettings`
/// `open-file-cache`.
fn title(name: &str) -> String {
    if name.contains('/') {
        return name.to_owned();
    }
    let mut title = String::new();
    for letter in name.strip_suffix("Settings").unwrap_or(name).chars() {
        if letter.is_uppercase() && !title.is_empty() {
            title.push('-');
        }
        title.extend(letter.to_lowercase());
    }
    title
}

/// The Markdown of documentation lines, without the space that `///` leaves.
fn prose(docs: &str) -> String {
    let lines = docs.lines().map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

const GENERATED: &str = "<!-- Generated from the directive tables. Do not edit. -->\n";

// Writing to a String cannot fail: the results of `write!` are dropped.
impl Page<'_> {
    fn text(&self) -> String {
        let mut text = format!("{GENERATED}# {}\n\n{}\n", self.title, prose(self.docs));
        for directive in self.rows {
            let Directive { name, shape, .. } = directive;
            let space = if shape.syntax.is_empty() { "" } else { " " };
            // The syntax of a raw block may include its entries.
            let end = match shape.is_block() {
                true if shape.syntax.contains('{') => "",
                true => " { ... }",
                false => ";",
            };
            let _ = write!(text, "\n## {name}\n\n{}\n\n", directive.summary());
            let _ = writeln!(text, "| | |\n|---|---|");
            let _ = writeln!(text, "| Syntax | `{name}{space}{}{end}` |", shape.syntax.replace('|', "\\|"));
            let default = directive.default.map_or("—".to_owned(), |default| match default {
                "" if shape.is_block() => "built in".to_owned(),
                "" => format!("`{name};`"),
                default => format!("`{name} {};`", default.replace('|', "\\|")),
            });
            let _ = writeln!(text, "| Default | {default} |");
            let _ = writeln!(text, "| Context | {} |", directive.contexts.names().collect::<Vec<_>>().join(", "));
            let _ = writeln!(text, "| nginx | {} |", compared(directive));
            if !directive.inherit && !shape.is_block() {
                let _ = writeln!(text, "| Inherited | no |");
            }
            let docs = directive.docs();
            if !docs.is_empty() {
                let _ = write!(text, "\n{docs}\n");
            }
        }
        text
    }
}

fn compared(directive: &Directive) -> String {
    let mut text = match directive.fidelity {
        Fidelity::Same => "as in nginx".to_owned(),
        Fidelity::Differs(how) => format!("differs: {how}"),
        Fidelity::NoEffect(why) => format!("accepted without effect: {why}"),
        Fidelity::Own => "not in nginx".to_owned(),
    };
    if let Some(version) = directive.since {
        let _ = write!(text, " (since {version})");
    }
    text.replace('|', "\\|")
}

fn index(registry: &Registry, pages: &[Page<'_>]) -> String {
    let mut lists: [Vec<(&str, String)>; 3] = Default::default();
    for page in pages {
        for directive in page.rows {
            let link = format!("[`{}`]({}#{})", directive.name, page.file, directive.name);
            let row = match directive.fidelity {
                Fidelity::Same => (0, link),
                Fidelity::Differs(how) => (0, format!("{link} — differs: {how}")),
                Fidelity::Own => (2, link),
                Fidelity::NoEffect(why) => (1, format!("{link} — {why}")),
            };
            lists[row.0].push((directive.name, row.1));
        }
    }
    let mut text = format!("{GENERATED}# Directives\n\n");
    for page in pages {
        let _ = writeln!(text, "- [{}]({})", page.title, page.file);
    }
    let titles = ["Supported", "Accepted without effect", "freerun's own"];
    for (title, mut rows) in titles.into_iter().zip(lists) {
        rows.sort();
        let _ = write!(text, "\n## {title}\n\n");
        if rows.is_empty() {
            text.push_str("None.\n");
        }
        for (_, row) in rows {
            let _ = writeln!(text, "- {row}");
        }
    }
    text.push_str(
        "\n## Not yet\n\nnginx has these, freerun does not have them yet: a configuration with one is refused.\n\n",
    );
    for (module, names) in known::modules() {
        // `include` belongs to the language itself and is in no table.
        let missing = names.filter(|name| !registry.knows(name) && *name != "include");
        let names: Vec<String> = missing.map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "- {module}: {}", names.join(", "));
        }
    }
    text
}
