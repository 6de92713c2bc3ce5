//! Printing problems: nginx's line, the source line, a caret, help.

use std::fmt::Write as _;
use std::ops::Deref;

use crate::octets::text_of;
use crate::odd_text;
use crate::place::{Place, Sources};
use crate::problem::Problem;

/// The widest part of a source line that is shown, in characters.
const WIDTH: usize = 100;
/// The number of characters before the caret when a long line is cut.
const BEFORE: usize = 30;
/// The text that is shown for a tab.
const TAB: &str = "    ";

/// Problems; nginx would report the first. Never empty when made by [`crate::Cx::conclude`].
#[derive(Clone, Debug, Default)]
pub struct Diagnostics(pub Vec<Problem>);

impl Diagnostics {
    /// The first problem with source line, caret and help, as lines of text; empty if there is no problem. `prefix`
    /// stands in front of the first line: `nginx: ` or `freerun: `.
    pub fn render(&self, sources: &Sources, prefix: &str) -> String {
        self.0.first().map(|problem| format!("{prefix}{}", problem.render(sources))).unwrap_or_default()
    }
}

/// The most problems that are shown.
pub const MAX_SHOWN: usize = 50;

impl Diagnostics {
    /// The problems that are independent of each other, each once, as [`Diagnostics::render`]s the first: at most
    /// [`MAX_SHOWN`], and then whether there are more.
    ///
    /// A problem that is found only when everything was read may follow from the problem of a directive. An example is
    /// a variable that nothing defines. It is left out if there are problems of directives.
    pub fn render_all(&self, sources: &Sources, prefix: &str) -> String {
        let mut shown: Vec<&Problem> = Vec::new();
        // A file that is included several times has the same problem each time.
        let is_same = |one: &Problem, other: &Problem| {
            one.place == other.place && one.message == other.message
                || odd_text::is_one(sources, one.place, other.place)
        };
        let of_directives = self.first().is_some_and(|first| first.order.is_some());
        let mut are_more = false;
        for problem in self.iter().filter(|problem| !of_directives || problem.order.is_some()) {
            if shown.iter().any(|other| is_same(other, problem)) {
                continue;
            }
            if shown.len() < MAX_SHOWN { shown.push(problem) } else { are_more = true }
        }
        let mut text: String = shown.iter().map(|problem| format!("{prefix}{}", problem.render(sources))).collect();
        if are_more {
            let _ = writeln!(text, "{prefix}there are more problems");
        }
        text
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
        self.first_line(sources) + "\n" + &self.explained(sources)
    }

    /// The lines below nginx's line: the source line with a caret under the place, then `help:`; each with a line end.
    pub fn explained(&self, sources: &Sources) -> String {
        let mut text = String::new();
        if let Some(place) = self.place
            && let Some(line) = sources.line(place)
        {
            excerpt(&mut text, line, odd_text::narrowed(sources, place, &self.message));
        }
        if let Some(hint) = self.help(sources) {
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

/// Appends text in a form that can be shown: tabs as spaces, and control characters as U+FFFD. A byte that is not UTF-8
/// becomes one character, which is that byte where it is printed.
fn append(shown: &mut Vec<char>, bytes: &[u8]) {
    for letter in text_of(bytes).chars() {
        match letter {
            '\t' => shown.extend(TAB.chars()),
            letter if letter.is_control() => shown.push('\u{fffd}'),
            letter => shown.push(letter),
        }
    }
}
