//! The manual page freerun.conf(5), from the pages of the reference.

use std::fs;
use std::path::Path;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, italic, roman};

use crate::command::{StepError, at};

/// The length of a line in the page's source, in bytes, behind which no further word is put. mandoc(1) wants less than 80 in
/// all; a name in another font, which stands in brackets without a space, may be longer by 34.
const WIDTH: usize = 44;

/// The number of bytes of a word in the page's source, where some letters are written with several.
fn source_length(word: &str) -> usize {
    let more = |letter| match letter {
        '-' | '\\' => 1,
        '\'' => 4,
        _ => 0,
    };
    word.len() + word.chars().map(more).sum::<usize>()
}

/// A page of the reference: its Markdown. The first heading is its title.
type Markdown = String;

/// The pages of the reference that freerun.conf(5) is made of: the directives, and at the end the variables.
pub(super) fn reference_pages(repository: &Path) -> Result<Vec<Markdown>, StepError> {
    const VARIABLES: &str = "variables.md";
    let folder = repository.join("docs/reference");
    let mut names = Vec::new();
    for entry in at(&folder, fs::read_dir(&folder))? {
        let name = at(&folder, entry)?.file_name().to_string_lossy().into_owned();
        let is_other =
            matches!(&*name, "README.md" | "subjects.md" | "freerun-api.md" | "status_fields.md" | VARIABLES);
        if name.ends_with(".md") && !is_other {
            names.push(name);
        }
    }
    names.sort();
    names.push(VARIABLES.to_owned());
    names.iter().map(|name| at(&folder, fs::read_to_string(folder.join(name)))).collect()
}

/// The page in the language of man(7); `header` are the date and the version in its header.
pub(super) fn conf_page(header: (&str, &str), pages: &[Markdown]) -> String {
    let mut page = Roff::new();
    page.control("TH", ["FREERUN.CONF", "5", header.0, header.1, "freerun"]);
    page.control("SH", ["NAME"]).text([roman("freerun.conf - configuration of freerun, in nginx's language")]);
    page.control("SH", ["DESCRIPTION"]);
    let mut text = Paragraph::default();
    text.push(
        Font::Roman,
        "The sections below have all directives, and at their end all variables. The line \"nginx\" of a directive says whether \
         it is as in nginx. \"freerun explain NAME\" prints what is said here of one, \"freerun -t\" tests a configuration, and \
         \"freerun migrate\" says what a configuration of nginx would be here.",
    );
    page.text(text.take());
    for markdown in pages {
        append(&mut page, markdown);
    }
    page.control("SH", ["SEE ALSO"]).text([bold("freerun"), roman("(8)")]);
    page.render()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Font {
    Roman,
    Bold,
    Italic,
}

/// A paragraph of words in fonts, broken into lines.
#[derive(Default)]
struct Paragraph {
    pieces: Vec<Inline>,
    column: usize,
    /// Whether the next word stands apart from the last one.
    has_space: bool,
}

impl Paragraph {
    fn push(&mut self, font: Font, text: &str) {
        let mut piece = String::new();
        for (index, word) in text.split([' ', '\n']).enumerate() {
            self.has_space |= index > 0;
            if word.is_empty() {
                continue;
            }
            // Signs begin and end another font.
            let signs = if font == Font::Roman || !piece.is_empty() { 0 } else { 6 };
            let length = source_length(word) + signs;
            if std::mem::take(&mut self.has_space) && self.column > 0 {
                let is_full = self.column + 1 + length > WIDTH;
                let space = if is_full { '\n' } else { ' ' };
                self.column = if is_full { 0 } else { self.column + 1 };
                if signs > 0 {
                    self.pieces.push(roman(space));
                } else {
                    piece.push(space);
                }
            }
            piece.push_str(word);
            self.column += length;
        }
        if !piece.is_empty() {
            self.pieces.push(match font {
                Font::Roman => roman(piece),
                Font::Bold => bold(piece),
                Font::Italic => italic(piece),
            });
        }
    }

    fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    fn take(&mut self) -> Vec<Inline> {
        (self.column, self.has_space) = (0, false);
        std::mem::take(&mut self.pieces)
    }

    /// The words without fonts.
    fn take_plain(&mut self) -> String {
        let words = self.take().into_iter().map(|piece| match piece {
            Inline::Roman(text) | Inline::Bold(text) | Inline::Italic(text) => text,
            Inline::LineBreak => " ".to_owned(),
        });
        words.collect::<String>().replace('\n', " ")
    }
}

/// Appends a page of the reference: a section, with a subsection for each directive.
fn append(page: &mut Roff, markdown: &str) {
    let mut text = Paragraph::default();
    let mut font = Font::Roman;
    // The address of a link that leads out of the reference.
    let mut address: Option<String> = None;
    // An item of a list has just begun: its text is no paragraph of its own.
    let mut in_item = false;
    // A heading has just come: the text below it begins a paragraph by itself.
    let mut in_heading = false;
    let mut in_code = false;
    let mut cells: Vec<String> = Vec::new();
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Item) => {
                flush(page, &mut text, in_item || std::mem::take(&mut in_heading));
                page.control("IP", ["\\(bu", "2"]);
                in_item = true;
            }
            Event::End(TagEnd::Item) => {
                flush(page, &mut text, true);
                in_item = false;
            }
            Event::End(TagEnd::Paragraph) => {
                flush(page, &mut text, in_item || std::mem::take(&mut in_heading));
                in_item = false;
            }
            Event::End(TagEnd::Heading(level)) => {
                let name = text.take_plain().replace('"', "'");
                match level {
                    HeadingLevel::H1 => page.control("SH", [name.as_str()]),
                    _ => page.control("SS", [name.as_str()]),
                };
                in_heading = true;
            }
            Event::Start(Tag::CodeBlock(_)) => {
                if !std::mem::take(&mut in_heading) {
                    page.control("PP", []);
                }
                page.control("in", ["+4n"]).control("nf", []);
                in_code = true;
            }
            Event::End(TagEnd::CodeBlock) => {
                page.control("fi", []).control("in", []);
                in_code = false;
            }
            Event::Text(code) if in_code => {
                for line in code.trim_end_matches('\n').split('\n') {
                    page.text([roman(line)]);
                }
            }
            Event::Start(Tag::Strong) => font = Font::Bold,
            Event::Start(Tag::Emphasis) => font = Font::Italic,
            Event::End(TagEnd::Strong | TagEnd::Emphasis) => font = Font::Roman,
            Event::Start(Tag::Link { dest_url, .. }) => {
                address = dest_url.starts_with("http").then(|| dest_url.into_string());
            }
            Event::End(TagEnd::Link) => {
                if let Some(address) = address.take() {
                    text.push(Font::Roman, &format!(" ({address})"));
                }
            }
            Event::Text(words) => text.push(font, &words),
            Event::Code(words) => text.push(Font::Bold, &words),
            Event::SoftBreak | Event::HardBreak => text.push(Font::Roman, " "),
            Event::End(TagEnd::TableCell) => cells.push(text.take_plain()),
            Event::End(TagEnd::TableHead | TagEnd::TableRow) => {
                row(page, &std::mem::take(&mut cells));
                in_heading = false;
            }
            _ => {}
        }
    }
    flush(page, &mut text, in_item || std::mem::take(&mut in_heading));
}

/// Writes the text that has come, if there is any; as a paragraph, unless one has begun.
fn flush(page: &mut Roff, text: &mut Paragraph, has_begun: bool) {
    if !text.is_empty() {
        if !has_begun {
            page.control("PP", []);
        }
        page.text(text.take());
    }
}

/// A row of a table: the first cell, and the others behind or below it.
fn row(page: &mut Roff, cells: &[String]) {
    let [first, rest @ ..] = cells else { return };
    let rest: Vec<&str> = rest.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
    if first.is_empty() && rest.is_empty() {
        return;
    }
    let mut text = Paragraph::default();
    text.push(Font::Roman, &rest.join("; "));
    page.control("TP", ["12"]).text([bold(first.as_str())]).text(text.take());
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use freerun_testkit::{TempDir, require};

    use super::*;

    #[test]
    fn a_directive_is_a_subsection_with_its_facts_and_its_example() {
        let markdown = "# index (module)\n\nFiles.\n\n## index\n\nTried for `/`.\n\n| | |\n|---|---|\n| Syntax | `index file …;` |\n\n\
                        - one [more](http://a)\n\n```nginx\n.x;\n```\n";
        let page = conf_page(("2026-01-01", "freerun 1"), &[markdown.to_owned()]);
        let body = page.split_once(".SH \"index (module)\"\n").expect("the section").1;
        let wanted = "Files.\n.SS index\nTried for \\fB/\\fR.\n.TP 12\n\\fBSyntax\\fR\nindex file …;\n.IP \\(bu 2\none more (http://a)\n.PP\n.in +4n\n\
                      .nf\n\\&.x;\n.fi\n.in\n.SH \"SEE ALSO\"\n";
        assert!(body.starts_with(wanted), "{body}");
    }

    #[test]
    fn the_page_of_the_whole_reference_is_well_formed() {
        let pages = reference_pages(&crate::repository()).expect("docs/reference");
        assert!(pages.len() > 50);
        let page = conf_page(("2026-01-01", "freerun 1"), &pages);
        for name in ["proxy_pass", "listen", "worker_connections"] {
            assert!(page.contains(&format!("\n.SS {name}\n")), "{name}");
        }
        let Some(mandoc) = require::program("mandoc") else { return };
        let dir = TempDir::new("conf-page");
        let file = dir.path().join("freerun.conf.5");
        std::fs::write(&file, page).expect("the page");
        let done =
            Command::new(mandoc).args(["-T", "lint"]).arg(&file).stderr(Stdio::inherit()).output().expect("mandoc");
        let told = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && told.is_empty(), "{}", told.lines().take(40).collect::<Vec<_>>().join("\n"));
    }
}
