//! The reference manual, printed from the directive tables.

use std::fmt::Write as _;

use crate::contexts::Contexts;
use crate::directive::{Directive, Fidelity};
use crate::directive_owners;
use crate::manual::{Manual, manual};
use crate::plain::{fold, plain, unmarked};
use crate::registry::Registry;

/// Parts of the reference besides the tables of directives.
#[derive(Default)]
pub struct Additions {
    /// Examples of directives.
    pub examples: Examples,
    /// Further pages: the name of the file, the title, the Markdown.
    pub pages: Vec<(String, String, String)>,
}

/// Examples of directives: parts of a configuration, as they would be written.
#[derive(Default)]
pub struct Examples(pub Vec<Example>);

/// An example of some directives.
pub struct Example {
    /// The directives that it is shown for.
    pub names: Vec<String>,
    /// The context that the text belongs in.
    pub context: Contexts,
    /// The text.
    pub text: String,
}

impl Examples {
    /// The examples of a directive: those in the contexts of its protocol.
    pub fn of(&self, directive: &Directive) -> impl Iterator<Item = &Example> {
        let of_stream = STREAM.intersects(directive.contexts);
        let of_others = !STREAM.contains(directive.contexts);
        self.0.iter().filter(move |example| {
            let fits = if STREAM.contains(example.context) { of_stream } else { of_others };
            fits && example.names.iter().any(|name| name == directive.name)
        })
    }
}

/// The contexts of `stream`.
const STREAM: Contexts = Contexts::STREAM.union(Contexts::STREAM_SERVER).union(Contexts::STREAM_UPSTREAM);
/// The beginning of the names of groups that only builds with debug assertions have, for tests of the server. They are
/// no part of the reference.
const DEBUG: &str = "debug/";

/// The reference as Markdown files, name and text, in a fixed order. They are `README.md` with the lists of supported
/// and unsupported directives, one file for each settings group, `blocks.md` for the structural directives, and the
/// additions.
pub fn reference(registry: &Registry, additions: &Additions) -> Vec<(String, String)> {
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
    files.push(("README.md".to_owned(), index(registry, &pages, additions)));
    files.extend(pages.iter().map(|page| (page.file.clone(), page.text(additions))));
    let further = additions.pages.iter();
    files.extend(further.map(|(file, title, text)| (file.clone(), format!("{GENERATED}# {title}\n\n{text}"))));
    files
}

/// The reference's text about the directives of a name, as plain text for a terminal: one part for each set of contexts
/// in which it means something else. `None` if there is no such directive.
pub fn explain(registry: &Registry, name: &str, additions: &Additions) -> Option<String> {
    let parts: Vec<String> = registry.named(name).map(|directive| explained(directive, additions)).collect();
    (!parts.is_empty()).then(|| parts.join("\n"))
}

fn explained(directive: &Directive, additions: &Additions) -> String {
    let mut text = format!("{}\n{}\n", directive.name, plain(&directive.summary(), 2));
    for (label, fact) in facts(directive) {
        let lines = fold(&unmarked(&fact), LABEL + 2);
        let _ = write!(text, "  {label:LABEL$}{}", lines.trim_start());
    }
    let docs = directive.docs();
    if !docs.is_empty() {
        let _ = write!(text, "\n{}", plain(&docs, 2));
    }
    for example in additions.examples.of(directive) {
        let _ = write!(text, "\n  Example, in {}:\n\n", unmarked(&context_name(example.context)));
        for line in example.text.lines() {
            let _ = writeln!(text, "{}", format!("      {line}").trim_end());
        }
    }
    text
}

/// The width of the labels on a terminal, with the space behind them.
const LABEL: usize = 11;

/// The block of the context, as text says it.
fn context_name(context: Contexts) -> String {
    context.names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ").replace("`main`", "the main level")
}

/// The table's facts about a directive: labels and Markdown.
fn facts(directive: &Directive) -> Vec<(&'static str, String)> {
    let Directive { name, shape, .. } = directive;
    let space = if shape.syntax.is_empty() { "" } else { " " };
    // The syntax of a raw block may include its entries.
    let end = if !shape.is_block() {
        ";"
    } else if shape.syntax.contains('{') {
        ""
    } else {
        " { ... }"
    };
    let default = directive.default.map_or("—".to_owned(), |default| match default {
        "" if shape.is_block() => "built in".to_owned(),
        "" => format!("`{name};`"),
        default => format!("`{name} {default};`"),
    });
    let mut facts = vec![
        ("Syntax", format!("`{name}{space}{}{end}`", shape.syntax)),
        ("Default", default),
        ("Context", directive.contexts.names().collect::<Vec<_>>().join(", ")),
        ("nginx", compared(directive)),
    ];
    if let Some(Manual { module, url }) = manual(directive) {
        facts.push(("Module", format!("[{module}]({url})")));
    }
    if !directive.inherit && !shape.is_block() {
        facts.push(("Inherited", "no".to_owned()));
    }
    facts
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
    /// The modules that have the directives, in the order of these.
    fn modules(&self) -> Vec<&'static str> {
        let mut modules = Vec::new();
        for module in self.rows.iter().filter_map(|directive| Some(manual(directive)?.module)) {
            if !modules.contains(&module) {
                modules.push(module);
            }
        }
        modules
    }

    /// The title with the modules.
    fn heading(&self) -> String {
        match self.modules().as_slice() {
            [] => self.title.clone(),
            modules => format!("{} ({})", self.title, modules.join(", ")),
        }
    }

    fn text(&self, additions: &Additions) -> String {
        let mut text = format!("{GENERATED}# {}\n\n{}\n", self.heading(), prose(self.docs));
        for directive in self.rows {
            let _ = write!(text, "\n## {}\n\n{}\n\n", directive.name, directive.summary());
            let _ = writeln!(text, "| | |\n|---|---|");
            for (label, fact) in facts(directive) {
                let _ = writeln!(text, "| {label} | {} |", fact.replace('|', "\\|"));
            }
            let docs = directive.docs();
            if !docs.is_empty() {
                let _ = write!(text, "\n{docs}\n");
            }
            for Example { context, text: example, .. } in additions.examples.of(directive) {
                let _ = write!(text, "\nExample, in {}:\n\n```nginx\n{example}\n```\n", context_name(*context));
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
    text
}

fn index(registry: &Registry, pages: &[Page<'_>], additions: &Additions) -> String {
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
    for (file, title, _) in &additions.pages {
        let _ = writeln!(text, "- [{title}]({file})");
    }
    text.push_str("\nThe pages of the directives, with the modules that others document them in:\n\n");
    for page in pages {
        let modules = page.modules();
        let colon = if modules.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "- [{}]({}){colon}{}", page.title, page.file, modules.join(", "));
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
    let missing = |text: &mut String, module: &str, names: &mut dyn Iterator<Item = &'static str>| {
        // `include` belongs to the language itself and is in no table.
        let missing = names.filter(|name| !registry.knows(name) && *name != "include");
        let names: Vec<String> = missing.map(|name| format!("`{name}`")).collect();
        if !names.is_empty() {
            let _ = writeln!(text, "- {module}: {}", names.join(", "));
        }
    };
    for (module, mut names) in directive_owners::modules() {
        missing(&mut text, module, &mut names);
    }
    text.push_str("\nNGINX Plus has these:\n\n");
    for (module, mut names) in directive_owners::commercial() {
        missing(&mut text, module, &mut names);
    }
    text
}
