//! Tables, goals, and the sections of `bench/RESULTS.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::error::{ErrorContext, Result};
use crate::summary;

/// A markdown table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// A line above the table; empty for none.
    pub title: String,
    /// Column heads.
    pub head: Vec<String>,
    /// Rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        Table { title: title.into(), head: head.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells become dashes.
    pub fn row(&mut self, mut cells: Vec<String>) {
        cells.resize(self.head.len(), crate::stats::NOTHING.into());
        self.rows.push(cells);
    }

    fn markdown(&self) -> String {
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.chain(self.head.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &[String]| {
            let mut text = String::from("|");
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(text, " {cell:width$} |");
            }
            text + "\n"
        };
        let mut text = if self.title.is_empty() { String::new() } else { format!("{}\n\n", self.title) };
        text += &line(&self.head);
        text += "|";
        for width in &widths {
            text += &"-".repeat(width + 2);
            text += "|";
        }
        text += "\n";
        for row in &self.rows {
            text += &line(row);
        }
        text
    }
}

/// Something the benchmark must show.
#[derive(Debug, Clone)]
pub struct Goal {
    /// The condition that must hold.
    pub text: String,
    /// The figure; `None` when it was not measured.
    pub value: Option<f64>,
    /// Whether it holds.
    pub met: bool,
}

impl Goal {
    /// A figure that must be at most `limit`.
    pub fn at_most(text: impl Into<String>, value: Option<f64>, limit: f64) -> Self {
        Goal { text: text.into(), value, met: value.is_some_and(|value| value <= limit) }
    }

    /// A figure that must be at least `limit`.
    pub fn at_least(text: impl Into<String>, value: Option<f64>, limit: f64) -> Self {
        Goal { text: text.into(), value, met: value.is_some_and(|value| value >= limit) }
    }

    fn markdown(&self) -> String {
        let value = crate::stats::short_or_nothing(self.value);
        match (self.value, self.met) {
            (None, _) => format!("- not measured: {}\n", self.text),
            (_, true) => format!("- met: {} ({value})\n", self.text),
            (_, false) => format!("- **missed**: {} ({value})\n", self.text),
        }
    }
}

/// The results of one benchmark.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Name of the benchmark, as on the command line.
    pub name: &'static str,
    /// The description of the work, with sizes and durations.
    pub method: String,
    /// The figures.
    pub tables: Vec<Table>,
    /// The goals for the figures.
    pub goals: Vec<Goal>,
    /// Servers that gave no figure and why, and other remarks.
    pub notes: Vec<String>,
}

impl Report {
    /// The section of `RESULTS.md`, without its markers. `facts` are the machine and the versions.
    pub fn markdown(&self, command: &str, facts: &str) -> String {
        let mut text = format!("## {}\n\n`{command}`\n\n{facts}\n\n{}\n", self.name, self.method.trim());
        for table in &self.tables {
            let _ = write!(text, "\n{}", table.markdown());
        }
        for (title, lines) in [
            ("Goals", self.goals.iter().map(Goal::markdown).collect::<Vec<_>>()),
            ("Notes", self.notes.iter().map(|note| format!("- {note}\n")).collect()),
        ] {
            if !lines.is_empty() {
                let _ = write!(text, "\n{title}:\n\n{}", lines.concat());
            }
        }
        text
    }
}

/// The marks in front of the section of a benchmark, and behind it.
fn markers(name: &str) -> (String, String) {
    (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->\n"))
}

/// The heading of the last part, which no benchmark writes.
const DIGEST: &str = "\n## Questions that are answered\n";

/// Replaces the section of the same benchmark in `text` by `section`, or adds it behind the others if there is none.
fn replace_section(text: &str, name: &str, section: &str) -> String {
    let (begin, end) = markers(name);
    let block = format!("{begin}{section}{end}");
    match (text.find(&begin), text.find(&end)) {
        (Some(from), Some(to)) if from < to => format!("{}{block}{}", &text[..from], &text[to + end.len()..]),
        _ => match text.find(DIGEST) {
            Some(at) => format!("{}\n{block}{}", &text[..at], &text[at..]),
            None => format!("{}\n\n{block}", text.trim_end()),
        },
    }
}

/// Writes `section` into `path`, in place of the former section of the same benchmark, and the summary anew.
pub fn record(path: &Path, name: &str, section: &str) -> Result<()> {
    let old = fs::read_to_string(path).doing(path.display())?;
    let new = summary::renewed(&replace_section(&old, name, section));
    fs::write(path, new).doing(path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_in_place_and_nothing_else_changes() {
        let text = "# Results\n\n<!-- begin tls -->\nold\n<!-- end tls -->\n\ntail\n";
        let new = replace_section(text, "tls", "new\n");
        assert_eq!(new, "# Results\n\n<!-- begin tls -->\nnew\n<!-- end tls -->\n\ntail\n");
        let more = replace_section(&new, "udp", "m\n");
        assert_eq!(more, new + "\n<!-- begin udp -->\nm\n<!-- end udp -->\n");
        let digest = format!("a\n{DIGEST}\n");
        let section = "a\n\n<!-- begin udp -->\nm\n<!-- end udp -->\n";
        assert_eq!(replace_section(&digest, "udp", "m\n"), format!("{section}{DIGEST}\n"));
    }

    #[test]
    fn each_benchmark_has_one_section() {
        let results = include_str!("../RESULTS.md");
        for name in crate::options::BENCHMARKS {
            let section = format!("<!-- begin {name} -->\n## {name}\n");
            assert_eq!(results.matches(&section).count(), 1, "{name}: --record would not find its section");
        }
        let sections = results.lines().filter(|line| line.starts_with("<!-- begin ")).count();
        // The summary at the top has marks, too.
        assert_eq!(sections, crate::options::BENCHMARKS.len() + 1);
    }

    #[test]
    fn a_short_row_is_filled_and_columns_line_up() {
        let mut table = Table::new("", &["a", "long head"]);
        table.row(vec!["xyz".into()]);
        assert_eq!(table.markdown(), "| a   | long head |\n|-----|-----------|\n| xyz | –         |\n");
    }

    #[test]
    fn a_goal_without_a_figure_is_not_missed() {
        assert_eq!(Goal::at_most("t", None, 1.0).markdown(), "- not measured: t\n");
        assert_eq!(Goal::at_most("t", Some(2.0), 1.0).markdown(), "- **missed**: t (2.00)\n");
        assert_eq!(Goal::at_least("t", Some(2.0), 1.0).markdown(), "- met: t (2.00)\n");
    }
}
