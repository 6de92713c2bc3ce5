//! Writes a listing as HTML, XML or JSON, byte for byte as nginx does.

use std::io::Write;

use freerun_conf::text_of;
use freerun_proto::date;
use freerun_proto::uri::{EscapeSet, escape_into};
use freerun_runtime::files::{DirectoryEntry, Entries};

use super::Format;
use crate::html::escape as escape_html;

/// The approximate size of a piece.
const PIECE: usize = 32 * 1024;
/// The width of the column of names, in characters.
const NAME_WIDTH: usize = 50;
/// The length to which a longer name is cut.
const NAME_CUT: usize = 47;

/// The style of a listing.
#[derive(Debug, Clone)]
pub struct Style {
    /// The format.
    pub format: Format,
    /// Whether the characters of names are counted as UTF-8.
    pub utf8: bool,
    /// The offset of local time in seconds east of UTC, for pages.
    pub offset: i32,
    /// Whether sizes in pages are exact.
    pub exact: bool,
    /// The folder's path, for pages.
    pub path: Vec<u8>,
    /// The function to call with the data.
    pub callback: Option<Vec<u8>>,
}

/// The state of a listing that is being written.
pub struct Listing {
    style: Style,
    entries: Entries,
    begun: bool,
    ended: bool,
    any: bool,
}

impl Listing {
    /// A listing of these entries, in the order in which they are shown.
    pub fn new(style: Style, entries: Entries) -> Listing {
        Listing { style, entries, begun: false, ended: false, any: false }
    }

    /// The next bytes; `None` after the last ones.
    pub fn next_piece(&mut self) -> Option<Vec<u8>> {
        if self.ended {
            return None;
        }
        let mut out = Vec::with_capacity(PIECE + 1024);
        if !self.begun {
            self.begun = true;
            self.head(&mut out);
        }
        while out.len() < PIECE {
            match self.entries.next() {
                Some(entry) => {
                    match self.style.format {
                        Format::Html => html(&self.style, &entry, &mut out),
                        Format::Xml => xml(&entry, &mut out),
                        Format::Json | Format::Jsonp => json(&entry, self.any, &mut out),
                    }
                    self.any = true;
                }
                None => {
                    self.ended = true;
                    self.foot(&mut out);
                    break;
                }
            }
        }
        Some(out)
    }

    fn head(&self, out: &mut Vec<u8>) {
        match self.style.format {
            Format::Html => {
                out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
                escape_html(&self.style.path, out);
                out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
                escape_html(&self.style.path, out);
                out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
            }
            Format::Xml => out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n"),
            Format::Json | Format::Jsonp => {
                if let Some(callback) = &self.style.callback {
                    out.extend_from_slice(b"/* callback */\r\n");
                    out.extend_from_slice(callback);
                    out.push(b'(');
                }
                out.push(b'[');
            }
        }
    }

    fn foot(&self, out: &mut Vec<u8>) {
        match self.style.format {
            Format::Html => out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n"),
            Format::Xml => out.extend_from_slice(b"</list>\r\n"),
            Format::Json | Format::Jsonp => {
                out.extend_from_slice(b"\r\n]");
                if self.style.callback.is_some() {
                    out.extend_from_slice(b");");
                }
            }
        }
    }
}

fn html(style: &Style, entry: &DirectoryEntry, out: &mut Vec<u8>) {
    let is_dir = entry.meta.is_dir();
    let slash: &[u8] = if is_dir { b"/" } else { b"" };
    out.extend_from_slice(b"<a href=\"");
    escape_into(EscapeSet::Component, &entry.name, out);
    out.extend_from_slice(slash);
    out.extend_from_slice(b"\">");
    let text = std::str::from_utf8(&entry.name).ok().filter(|_| style.utf8);
    let name_width = text.map_or(entry.name.len(), |text| text.chars().count());
    if name_width > NAME_WIDTH {
        let cut = match text {
            Some(text) => text.char_indices().nth(NAME_CUT).map_or(entry.name.len(), |(at, _)| at),
            None => NAME_CUT,
        };
        escape_html(entry.name.get(..cut).unwrap_or(&entry.name), out);
        out.extend_from_slice(b"..&gt;</a>");
    } else {
        escape_html(&entry.name, out);
        // A name that fills the column leaves no room for the slash.
        let slash = if name_width < NAME_WIDTH { slash } else { b"" };
        out.extend_from_slice(slash);
        out.extend_from_slice(b"</a>");
        out.resize(out.len() + NAME_WIDTH - name_width - slash.len(), b' ');
    }
    let log_time = date::time_local(entry.meta.mtime, style.offset);
    // `06/Nov/1994:08:49:37` as `06-Nov-1994 08:49`.
    let mut time = [0; 17];
    time.copy_from_slice(&log_time[..17]);
    (time[2], time[6], time[11]) = (b'-', b'-', b' ');
    out.push(b' ');
    out.extend_from_slice(&time);
    // Writing to memory cannot fail.
    let _ = match (is_dir, style.exact) {
        (true, true) => write!(out, "{:>20}\r\n", "-"),
        (true, false) => write!(out, "{:>8}\r\n", "-"),
        (false, true) => write!(out, "{:>20}\r\n", entry.meta.size),
        (false, false) => {
            let (size, unit) = rounded(entry.meta.size);
            let unit = if unit == 0 { ' ' } else { char::from(unit) };
            match unit {
                ' ' => write!(out, "{size:>8}\r\n"),
                unit => write!(out, "{size:>7}{unit}\r\n"),
            }
        }
    };
}

/// A size in `K`, `M` or `G`, halves rounded up; 0 for plain bytes.
fn rounded(size: u64) -> (u64, u8) {
    match size {
        0..=9999 => (size, 0),
        10_000..=0xf_ffff => ((size + (1 << 9)) >> 10, b'K'),
        0x10_0000..=0x3fff_ffff => ((size + (1 << 19)) >> 20, b'M'),
        _ => (size.saturating_add(1 << 29) >> 30, b'G'),
    }
}

fn kind(entry: &DirectoryEntry) -> &'static str {
    match (entry.meta.is_dir(), entry.meta.is_file()) {
        (true, _) => "directory",
        (_, true) => "file",
        _ => "other",
    }
}

fn xml(entry: &DirectoryEntry, out: &mut Vec<u8>) {
    let kind = kind(entry);
    let time = date::time_iso8601(entry.meta.mtime, 0);
    let _ = write!(out, "<{kind} mtime=\"{}Z\"", text_of(&time[..19]));
    if kind == "file" {
        let _ = write!(out, " size=\"{}\"", entry.meta.size);
    }
    out.push(b'>');
    escape_html(&entry.name, out);
    let _ = write!(out, "</{kind}>\r\n");
}

fn json(entry: &DirectoryEntry, after_another: bool, out: &mut Vec<u8>) {
    let kind = kind(entry);
    if after_another {
        out.push(b',');
    }
    out.extend_from_slice(b"\r\n{ \"name\":\"");
    escape_json(&entry.name, out);
    let time = date::imf_fixdate(entry.meta.mtime);
    let _ = write!(out, "\", \"type\":\"{kind}\", \"mtime\":\"{}\"", text_of(&time));
    if kind == "file" {
        let _ = write!(out, ", \"size\":{}", entry.meta.size);
    }
    out.extend_from_slice(b" }");
}

fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=0x1f => drop(write!(out, "\\u{byte:04X}")),
            byte => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_at_the_half() {
        for (size, want) in [
            (9999, (9999, 0)),
            (10_000, (10, b'K')),
            (10_751, (10, b'K')),
            (10_752, (11, b'K')),
            (1_048_575, (1024, b'K')),
            (1_048_576, (1, b'M')),
            (1_572_863, (1, b'M')),
            (1_572_864, (2, b'M')),
            (1_073_741_823, (1024, b'M')),
            (1_610_612_735, (1, b'G')),
            (1_610_612_736, (2, b'G')),
            (5_000_000_000_000, (4657, b'G')),
            (u64::MAX, (17_179_869_183, b'G')),
        ] {
            assert_eq!(rounded(size), want, "{size}");
        }
    }
}
