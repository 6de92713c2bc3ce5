//! `open_file_cache`: what is seen of files that change, and what is not.

use crate::runner::both;
use crate::site::MTIME;
use freerun_testkit::{Kind, Setup, Site};
use std::fs;
use std::path::Path;

/// A step: something done to the document root, or a request.
enum Step {
    Get(&'static str),
    Write(&'static str, &'static str),
    Replace(&'static str, &'static str),
    Remove(&'static str),
    Folder(&'static str),
    NoFolder(&'static str),
}

use Step::{Folder, Get, NoFolder, Remove, Replace, Write};

fn responses(kind: Kind, lines: &str, steps: &[Step]) -> Vec<String> {
    let site = Site::new();
    site.dated("a.txt", "aaaa", MTIME);
    let server = Setup::server(&site, lines).start(kind);
    let root: &Path = site.path();
    let mut out = Vec::new();
    let mut client = server.connect();
    for step in steps {
        match step {
            Get(path) => {
                let response = client.get(path);
                let body = if response.status == 200 { response.text() } else { String::new() };
                out.push(format!("{path}: {} {body}", response.status));
            }
            Write(name, text) => fs::write(root.join(name), text).expect("writing"),
            Replace(name, text) => {
                fs::write(root.join("new"), text).expect("writing");
                fs::rename(root.join("new"), root.join(name)).expect("renaming");
            }
            Remove(name) => fs::remove_file(root.join(name)).expect("removing"),
            Folder(name) => fs::create_dir(root.join(name)).expect("making a folder"),
            NoFolder(name) => fs::remove_dir(root.join(name)).expect("removing a folder"),
        }
    }
    out
}

#[track_caller]
fn alike(lines: &str, steps: &[Step]) {
    if let Some(responses) = both(|kind| responses(kind, lines, steps)) {
        responses.assert_same_lines(lines);
    }
}

const LONG: &str = "open_file_cache max=10 inactive=1000s; open_file_cache_valid 1000s;";

#[test]
fn a_file_that_is_kept_is_served_after_it_was_removed_or_replaced() {
    alike(
        LONG,
        &[
            Get("/a.txt"),
            Replace("a.txt", "other text"),
            Get("/a.txt"),
            Remove("a.txt"),
            Get("/a.txt"),
            Get("/a.txt"),
            Write("b.txt", "b"),
            Get("/b.txt"),
            Remove("b.txt"),
            Get("/b.txt"),
        ],
    );
}

#[test]
fn a_file_that_is_used_too_seldom_is_not_kept_open() {
    alike(
        &format!("{LONG} open_file_cache_min_uses 3;"),
        &[
            Get("/a.txt"),
            Replace("a.txt", "second"),
            Get("/a.txt"),
            Replace("a.txt", "third"),
            Get("/a.txt"),
            Replace("a.txt", "fourth"),
            Get("/a.txt"),
            Remove("a.txt"),
            Get("/a.txt"),
        ],
    );
}

#[test]
fn errors_are_kept_where_that_is_asked() {
    let steps = [
        Get("/none"),
        Write("none", "now it is there"),
        Get("/none"),
        Get("/folder/"),
        Get("/folder/file"),
        Folder("folder"),
        Write("folder/file", "file"),
        Get("/folder/file"),
        Get("/a.txt/x"),
        Remove("a.txt"),
        Folder("a.txt"),
        Write("a.txt/x", "x"),
        Get("/a.txt/x"),
    ];
    alike(&format!("{LONG} open_file_cache_errors on;"), &steps);
    alike(LONG, &steps);
}

#[test]
fn folders_are_kept_in_mind() {
    let steps = [Folder("d"), Get("/d"), NoFolder("d"), Get("/d"), Write("d", "file"), Get("/d")];
    alike(LONG, &steps);
}

#[test]
fn locations_have_their_own_terms() {
    alike(
        &format!(
            "{LONG} location /now/ {{ alias @ROOT@/; open_file_cache off; }}
            location /errors/ {{ alias @ROOT@/; open_file_cache_errors on; }}"
        ),
        &[
            Get("/a.txt"),
            Replace("a.txt", "second"),
            Get("/now/a.txt"),
            Get("/a.txt"),
            Get("/errors/x"),
            Write("x", "x"),
            Get("/errors/x"),
            Get("/now/x"),
            Get("/x"),
        ],
    );
}

#[test]
fn the_one_used_longest_ago_goes() {
    alike(
        "open_file_cache max=2 inactive=1000s; open_file_cache_valid 1000s;",
        &[
            Write("b", "b"),
            Write("c", "c"),
            Get("/a.txt"),
            Get("/b"),
            Get("/c"),
            Replace("a.txt", "new a"),
            Replace("b", "new b"),
            Replace("c", "new c"),
            Get("/c"),
            Get("/b"),
            Get("/a.txt"),
        ],
    );
}

#[test]
fn nothing_is_kept_for_no_time_at_all() {
    alike(
        "open_file_cache max=10; open_file_cache_valid 0;",
        &[Get("/a.txt"), Replace("a.txt", "second"), Get("/a.txt"), Remove("a.txt"), Get("/a.txt")],
    );
    alike(
        "open_file_cache off;",
        &[Get("/a.txt"), Replace("a.txt", "second"), Get("/a.txt"), Remove("a.txt"), Get("/a.txt")],
    );
}
