//! Printing problems: nginx's line, the source line, a caret, help.

use std::fmt::Write as _;
use std::ops::Deref;

use crate::place::{Place, Sources};
use crate::problem::Problem;

/// The widest part of a source line that is shown, in characters.
const WIDTH: usize = 100;
/// The number of characters before the caret when a long line is cut.
const BEFORE: usize = 30;
/// The text that is shown for a tab.
const TAB: &str = "    ";

/// Problems; the first one is the one that nginx would report. Never empty when made by [`crate::Cx::conclude`].
#[derive(Clone, Debug, Default)]
pub struct Diagnostics(pub Vec<Problem>);

impl Diagnostics {
    /// The first problem with source line, caret and help, as lines of text; empty if there is no problem. `prefix`
    /// stands in front of the first line: `nginx: ` or `freerun: `.
    pub fn render(&self, sources: &Sources, prefix: &str) -> String {
        self.0.first().map(|problem| format!("{prefix}{}", problem.render(sources))).unwrap_or_default()
    }
}

impl Deref for Diagnostics {
    type Target = [Problem];
    fn deref(&self) -> &[Problem] {
        &self.0
    }
}

impl From<Problem> for Diagnostics {
    fn from(problem: Problem) -> Self {
        Diagnostics(vec![problem])
    }
}

impl Problem {
    /// nginx's line without line end: `[emerg] message in FILE:LINE`.
    pub fn first_line(&self, sources: &Sources) -> String {
        let place = self.reported.or(self.place);
        match place.and_then(|place| sources.location(place)) {
            Some(location) => format!("{self} in {location}"),
            None => self.to_string(),
        }
    }

    /// nginx's line, then the source line with a caret under the place, then `help:`; each with a line end.
    pub fn render(&self, sources: &Sources) -> String {
        let mut text = self.first_line(sources);
        text.push('\n');
        if let Some(place) = self.place
            && let Some(line) = sources.line(place)
        {
            excerpt(&mut text, line, place);
        }
        if let Some(hint) = &self.hint {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "help: {hint}");
        }
        text
    }
}

/// Appends the line and, under it, carets below `place`.
fn excerpt(out: &mut String, line: &[u8], place: Place) {
    let start = (place.column.saturating_sub(1) as usize).min(line.len());
    let end = start.saturating_add(place.width as usize).min(line.len());
    let mut shown: Vec<char> = Vec::new();
    append(&mut shown, &line[..start]);
    let caret = shown.len();
    append(&mut shown, &line[start..end]);
    let carets = (shown.len() - caret).max(1);
    append(&mut shown, &line[end..]);

    let skip = if shown.len() > WIDTH && caret > WIDTH / 2 { caret - BEFORE } else { 0 };
    let mut cut: String = shown.iter().skip(skip).take(WIDTH).collect();
    let mut indent = caret - skip;
    if skip > 0 {
        cut.insert(0, '…');
        indent += 1;
    }
    if shown.len() > skip + WIDTH {
        cut.push('…');
    }
    let carets = carets.min(WIDTH.saturating_sub(caret - skip)).max(1);
    let number = place.line.to_string();
    let margin = " ".repeat(number.len());
    let _ = writeln!(out, " {number} | {}", cut.trim_end());
    let _ = writeln!(out, " {margin} | {}{}", " ".repeat(indent), "^".repeat(carets));
}

/// Appends text in a form that can be shown: tabs as spaces, control characters as U+FFFD.
fn append(shown: &mut Vec<char>, bytes: &[u8]) {
    for letter in String::from_utf8_lossy(bytes).chars() {
        match letter {
            '\t' => shown.extend(TAB.chars()),
            letter if letter.is_control() => shown.push('\u{fffd}'),
            letter => shown.push(letter),
        }
    }
}
