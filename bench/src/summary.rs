//! The few figures at the top of `bench/RESULTS.md` that most readers look for, taken from the sections below.

use std::fmt::Write as _;

use crate::stats::{NOTHING, short};

/// The marks in front of the summary, and behind it.
const BEGIN: &str = "<!-- begin summary -->\n";
const END: &str = "<!-- end summary -->\n";

/// A row of the summary: one cell of a table, for nginx and for freerun.
struct Row {
    /// The figures that are compared, and whether larger is better.
    what: &'static str,
    /// The section.
    section: &'static str,
    /// The line above the table.
    table: &'static str,
    /// The head of the column.
    column: &'static str,
}

const ROWS: &[Row] = &[
    Row {
        what: "requests a second for a file of 1 KB (more is better)",
        section: "warm",
        table: "1 KB, 32 connections",
        column: "requests/s",
    },
    Row {
        what: "p99 of these requests, ms (less is better)",
        section: "warm",
        table: "1 KB, 32 connections",
        column: "p99 ms",
    },
    Row {
        what: "requests a second that are proxied, 1 KB (more is better)",
        section: "proxy",
        table: "1 KB, 32 connections",
        column: "requests/s",
    },
    Row {
        what: "requests a second that a cache answers, 1 KB (more is better)",
        section: "cache-hits",
        table: "1 KB, 32 connections",
        column: "requests/s",
    },
    Row {
        what: "bytes of memory for an idle connection (less is better)",
        section: "connections",
        table: "10000 idle keep-alive connections",
        column: "RSS bytes/connection",
    },
    Row {
        what: "new TLS connections a second, ECDSA P-256 (more is better)",
        section: "tls",
        table: "full handshake, ECDSA P-256",
        column: "connections/s",
    },
    Row {
        what: "requests a second over HTTP/2 with TLS, 1 KB (more is better)",
        section: "http2",
        table: "1 KB, TLS: 8 connections, 32 streams each",
        column: "requests/s",
    },
    Row {
        what: "requests a second over HTTP/3, 1 KB (more is better)",
        section: "http3",
        table: "1 KB: 8 connections, 10 streams each",
        column: "requests/s",
    },
    Row {
        what: "KiB of memory for an idle connection of HTTP/3 (less is better)",
        section: "http3",
        table: "10000 idle connections",
        column: "private KiB/connection",
    },
    Row {
        what: "p99 of other requests while every open of a file takes 300 ms, ms (less is better)",
        section: "metadata",
        table: "every open takes 300 ms",
        column: "p99 ms",
    },
];

/// `results` with a summary of its present sections instead of the old summary.
pub fn renewed(results: &str) -> String {
    match (results.find(BEGIN), results.find(END)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{BEGIN}{}{}", &results[..from], summary(results), &results[to..])
        }
        _ => results.to_owned(),
    }
}

fn summary(results: &str) -> String {
    let mut text =
        "| one worker on one core | freerun | nginx | × nginx | section | measured |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for row in ROWS {
        let [freerun, nginx] = ["freerun", "nginx"].map(|server| cell(results, row, server).unwrap_or(NOTHING));
        let ratio =
            freerun.parse().ok().zip(nginx.parse::<f64>().ok()).map(|(own, other): (f64, f64)| short(own / other));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {freerun} | {nginx} | {} | [{section}](#{section}) | {} |",
            row.what,
            ratio.as_deref().unwrap_or(NOTHING),
            measured(results, row.section).unwrap_or_else(|| NOTHING.to_owned()),
            section = row.section,
        );
    }
    text
}

/// The text of the section of a benchmark.
fn section<'t>(results: &'t str, name: &str) -> Option<&'t str> {
    let (_, section) = results.split_once(&format!("<!-- begin {name} -->\n"))?;
    Some(section.split_once("<!-- end ")?.0)
}

/// The day and the processor of a section: its paragraph of facts begins with them.
fn measured(results: &str, name: &str) -> Option<String> {
    let facts = section(results, name)?.lines().find(|line| line.contains(" UTC; "))?;
    let (time, machine) = facts.split_once(" UTC; ")?;
    Some(format!("{}, {}", time.split(' ').next()?, machine.split(',').next()?))
}

/// The median that a server has in the table of a row.
fn cell<'t>(results: &'t str, row: &Row, server: &str) -> Option<&'t str> {
    let (_, table) = section(results, row.section)?.split_once(&format!("\n{}\n\n", row.table))?;
    let mut lines = table.lines().take_while(|line| line.starts_with('|')).map(cells);
    let column = lines.next()?.iter().position(|head| *head == row.column)?;
    let line = lines.find(|line| line.first() == Some(&server))?;
    line.get(column)?.split(' ').next()
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_their_tables() {
        let text = "<!-- begin proxy -->\n2026-11-23 05:00 UTC; AMD EPYC, 2 cores\n\n4 MB\n\n| server | p99 ms |\n|--|--|\n| nginx | 9 |\n\n1 KB, 32 connections\n\n\
                    | server | requests/s |\n|--|--|\n| nginx threads | 5 |\n| nginx | 200 (1–2) |\n| freerun | 100 (1–2) |\n\
                    <!-- end proxy -->\n";
        let lines = summary(text);
        assert!(
            lines.contains("1 KB (more is better) | 100 | 200 | 0.500 | [proxy](#proxy) | 2026-11-23, AMD EPYC |"),
            "{lines}"
        );
        assert!(lines.contains("| – | – | – | [tls](#tls) | – |"), "{lines}");
    }

    #[test]
    fn the_summary_is_that_of_the_figures() {
        let results = include_str!("../RESULTS.md");
        assert!(results.contains(BEGIN));
        assert_eq!(renewed(results), results, "the benchmarks write it with --record");
        assert!(!summary(results).contains(NOTHING), "every figure is there");
    }
}
