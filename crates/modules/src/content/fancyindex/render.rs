//! Writes the page. Its elements have the names that style sheets for such pages know.

use std::io::Write;

use freerun_conf::bytes_of;
use freerun_proto::uri::{EscapeSet, escape_into};
use freerun_runtime::files::{DirectoryEntry, Entries};

use super::Sort;
use crate::dates;
use crate::html::escape;

/// The approximate size of a piece.
const PIECE: usize = 32 * 1024;

/// The difference between the limit and the length of a cut name, as in the module that people know.
const MARK: usize = 2;

const STYLE_SHEET: &str = "body{font-family:sans-serif;margin:1em}#list{border-collapse:collapse;width:100%}\
    th{text-align:left;border-bottom:1px solid #999}td,th{padding:.15em .6em}tr:nth-child(even){background:#f3f3f3}\
    a{color:#036}";

const TABLE: &str = "<table id=\"list\"><thead><tr>\
    <th style=\"width:55%\"><a href=\"?C=N&amp;O=A\">File Name</a>&nbsp;<a href=\"?C=N&amp;O=D\">&nbsp;&darr;&nbsp;</a></th>\
    <th style=\"width:20%\"><a href=\"?C=S&amp;O=A\">File Size</a>&nbsp;<a href=\"?C=S&amp;O=D\">&nbsp;&darr;&nbsp;</a></th>\
    <th style=\"width:25%\"><a href=\"?C=M&amp;O=A\">Date</a>&nbsp;<a href=\"?C=M&amp;O=D\">&nbsp;&darr;&nbsp;</a></th>\
    </tr></thead>\n<tbody>";

/// The style of a page.
pub(super) struct FancyStyle {
    /// The folder's path.
    pub(super) path: Vec<u8>,
    /// The order that links to other folders ask for.
    pub(super) sort: Option<Sort>,
    pub(super) shows_head: bool,
    pub(super) shows_path: bool,
    pub(super) shows_foot: bool,
    pub(super) shows_parent: bool,
    /// The address of a style sheet; empty: none.
    pub(super) style_sheet: String,
    pub(super) exact: bool,
    /// Whether times are local; otherwise they are GMT.
    pub(super) is_local: bool,
    pub(super) time_format: String,
    pub(super) name_length: usize,
    /// Whether the characters of names are counted as UTF-8.
    pub(super) utf8: bool,
}

/// A page that is being written.
pub(super) struct FancyPage {
    style: FancyStyle,
    entries: Entries,
    begun: bool,
    ended: bool,
}

impl FancyPage {
    pub(super) fn new(style: FancyStyle, entries: Entries) -> FancyPage {
        FancyPage { style, entries, begun: false, ended: false }
    }

    /// The next bytes; `None` after the last ones.
    pub(super) fn next_piece(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let mut out = Vec::with_capacity(PIECE + 1024);
        if !std::mem::replace(&mut self.begun, true) {
            self.head(&mut out);
        }
        while out.len() < PIECE {
            match self.entries.next() {
                Some(entry) => self.row(&entry, &mut out),
                None => {
                    self.ended = true;
                    out.extend_from_slice(b"</tbody></table>");
                    if self.style.shows_foot {
                        out.extend_from_slice(b"</body></html>");
                    }
                    break;
                }
            }
        }
        Some(out)
    }

    fn head(&self, out: &mut Vec<u8>) {
        let style = &self.style;
        if style.shows_head {
            out.extend_from_slice(b"<!DOCTYPE html><html><head>");
            out.extend_from_slice(b"<meta http-equiv=\"content-type\" content=\"text/html; charset=utf-8\">");
            out.extend_from_slice(b"<meta name=\"viewport\" content=\"width=device-width\"><style type=\"text/css\">");
            out.extend_from_slice(STYLE_SHEET.as_bytes());
            out.extend_from_slice(b"</style>\n");
            if !style.style_sheet.is_empty() {
                out.extend_from_slice(b"<link rel=\"stylesheet\" href=\"");
                out.extend_from_slice(&bytes_of(&style.style_sheet));
                out.extend_from_slice(b"\" type=\"text/css\"/>\n");
            }
            out.extend_from_slice(b"\n<title>Index of ");
            escape(&style.path, out);
            out.extend_from_slice(b"</title>\n</head><body><h1>Index of ");
        }
        if style.shows_path {
            escape(&style.path, out);
            out.extend_from_slice(b"</h1>\n");
        }
        out.extend_from_slice(TABLE.as_bytes());
        if style.shows_parent {
            out.extend_from_slice(b"<tr><td class=\"link\"><a href=\"../");
            self.order(out);
            out.extend_from_slice(
                b"\">Parent directory/</a></td><td class=\"size\">-</td><td class=\"date\">-</td></tr>\n",
            );
        }
    }

    /// The arguments of a link to another folder.
    fn order(&self, out: &mut Vec<u8>) {
        let Some(sort) = self.style.sort else { return };
        out.extend_from_slice(match sort {
            Sort::Name => b"?C=N&amp;O=A",
            Sort::Size => b"?C=S&amp;O=A",
            Sort::Date => b"?C=M&amp;O=A",
            Sort::NameDesc => b"?C=N&amp;O=D",
            Sort::SizeDesc => b"?C=S&amp;O=D",
            Sort::DateDesc => b"?C=M&amp;O=D",
        });
    }

    fn row(&self, entry: &DirectoryEntry, out: &mut Vec<u8>) {
        let style = &self.style;
        let is_folder = entry.meta.is_dir();
        let slash: &[u8] = if is_folder { b"/" } else { b"" };
        out.extend_from_slice(b"<tr><td class=\"link\"><a href=\"");
        escape_into(EscapeSet::Component, &entry.name, out);
        out.extend_from_slice(slash);
        if is_folder {
            self.order(out);
        }
        out.extend_from_slice(b"\" title=\"");
        escape(&entry.name, out);
        out.extend_from_slice(b"\">");
        let text = std::str::from_utf8(&entry.name).ok().filter(|_| style.utf8);
        let width = text.map_or(entry.name.len(), |text| text.chars().count());
        if width > style.name_length {
            let kept = style.name_length.saturating_sub(MARK);
            let cut = match text {
                Some(text) => text.char_indices().nth(kept).map_or(entry.name.len(), |(at, _)| at),
                None => kept,
            };
            escape(entry.name.get(..cut).unwrap_or(&entry.name), out);
            out.extend_from_slice(b"..&gt;");
        } else {
            escape(&entry.name, out);
            out.extend_from_slice(slash);
        }
        out.extend_from_slice(b"</a></td><td class=\"size\">");
        // Writing to memory cannot fail.
        let _ = match (is_folder, style.exact) {
            (true, _) => write!(out, "-"),
            (false, true) => write!(out, "{:>19}", size(entry)),
            (false, false) => rounded(size(entry), out),
        };
        out.extend_from_slice(b"</td><td class=\"date\">");
        let time = if style.is_local {
            dates::local(&style.time_format, entry.meta.mtime)
        } else {
            dates::gmt(&style.time_format, entry.meta.mtime)
        };
        escape(&bytes_of(&time), out);
        out.extend_from_slice(b"</td></tr>\n");
    }
}

/// The size of an entry; a link that leads nowhere has none.
pub(super) fn size(entry: &DirectoryEntry) -> u64 {
    if entry.is_broken_link() { 0 } else { entry.meta.size }
}

fn rounded(size: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
    if size < 1024 {
        return write!(out, "{size} B");
    }
    let mut value = size as f64 / 1024.0;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    while value >= 1024.0
        && let Some(next) = units.next()
    {
        value /= 1024.0;
        unit = next;
    }
    write!(out, "{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_to_a_tenth() {
        for (size, wanted) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1500, "1.5 KiB"),
            (2_000_000, "1.9 MiB"),
            (5_000_000_000_000, "4.5 TiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            let mut out = Vec::new();
            rounded(size, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
