//! Tests of the `blocking` check.

use super::super::{Tree, source};
use super::*;

/// What is found in one file at `crates/http/src/a.rs`, as `name@line`.
fn found(text: &str) -> Vec<String> {
    found_at("crates/http/src/a.rs", text)
}

fn found_at(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let sources = source::read_all(&Tree::of(&[(path, text)]), &mut problems);
    assert_eq!(problems, []);
    sources.iter().flat_map(find).map(|found| format!("{}@{}", found.name, found.line)).collect()
}

#[test]
fn full_paths_are_seen() {
    assert_eq!(
        found("fn a() {\n std::fs::read(\"x\");\n ::std::fs::File::open(p);\n}"),
        ["std::fs::read@2", "std::fs::File::open@3"]
    );
}

#[test]
fn imports_are_resolved() {
    let text = "use std::{fs::{self, File as Disk}, thread};\nuse fs::OpenOptions;\n\
                fn a() {\n fs::write(p, b);\n Disk::create(p);\n thread::sleep(d);\n}";
    let names = found(text);
    for expected in ["std::fs::write@4", "std::fs::File::create@5", "std::thread::sleep@6"] {
        assert!(names.contains(&expected.to_owned()), "{expected} in {names:?}");
    }
    // The import that itself goes through an import is reported where it is used, not twice.
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(found("use std::fs::OpenOptions;\nfn a() { }"), ["std::fs::OpenOptions@1"]);
    assert_eq!(found("use std::fs::read;\nfn a() { read(p); }"), ["std::fs::read@1", "std::fs::read@2"]);
}

#[test]
fn globs_cannot_hide_calls() {
    assert_eq!(found("use std::fs::*;"), ["std::fs::*@1"]);
    assert_eq!(found("use std::sync::*;"), ["std::sync::*@1"]);
}

#[test]
fn holding_an_open_file_is_not_opening_one() {
    assert!(found("use std::fs::{self, File, Metadata};\nfn a(f: File) -> fs::Metadata { File::from(f) }").is_empty());
}

#[test]
fn own_names_are_not_the_standard_library() {
    assert!(found("mod fs { pub fn read() {} } fn a() { fs::read(); File::open(); Command::new(); }").is_empty());
    assert!(found("use crate::files::File; fn a() { File::open(p); }").is_empty());
}

#[test]
fn methods_that_can_only_mean_one_thing() {
    let text = "fn a(p: &Path) {\n p.canonicalize();\n p.read_dir();\n name.to_socket_addrs();\n h.join();\n}";
    assert_eq!(found(text), [".canonicalize()@2", ".read_dir()@3", ".to_socket_addrs()@4", ".join()@5"]);
    assert!(
        found("fn a() { path.join(\"x\"); words.join::<str>(\", \"); canonicalize(x); p.canonicalize; }").is_empty()
    );
}

#[test]
fn asynchronous_methods_of_the_same_name_are_fine() {
    assert!(found("async fn a() { files.read_dir(f(x), [1]).await?; tasks.join().await; }").is_empty());
    assert_eq!(found("async fn a() { p.read_dir(x)?; b.await }"), [".read_dir()@1"]);
}

#[test]
fn path_methods_count_where_paths_are_in_use() {
    assert_eq!(
        found("use std::path::Path;\nfn a(p: &Path) { p.exists(); p.is_dir(); }"),
        [".exists()@2", ".is_dir()@2"]
    );
    assert!(found("fn a(kind: Kind) { kind.is_dir(); set.exists(); }").is_empty());
}

#[test]
fn a_range_is_not_a_method_call() {
    assert!(found("fn a() { for i in 0..canonicalize(x) {} }").is_empty());
}

#[test]
fn other_sorts() {
    for (text, expected) in [
        ("use std::process::Command;", "std::process::Command@1"),
        ("fn a() { println!(\"x\"); }", "println!@1"),
        ("fn a() { std::io::stdout(); }", "std::io::stdout@1"),
        ("use std::net::ToSocketAddrs;", "std::net::ToSocketAddrs@1"),
        ("fn a() { tokio::net::lookup_host(n).await; }", "tokio::net::lookup_host@1"),
        ("fn a() { tokio::fs::read(p).await; }", "tokio::fs::read@1"),
        ("use std::net::TcpStream; fn a() { TcpStream::connect(x); }", "std::net::TcpStream::connect@1"),
        ("use rustix::net::SocketAddrUnix; fn a() { SocketAddrUnix::new(p); }", "rustix::net::SocketAddrUnix::new@1"),
        ("fn a() { tokio::net::UnixStream::connect(p).await; }", "tokio::net::UnixStream::connect@1"),
        ("fn a() { rustix::fs::inotify::add_watch(f, p, w); }", "rustix::fs::inotify::add_watch@1"),
        ("fn a() { rustix::fs::openat(d, p); }", "rustix::fs::openat@1"),
        ("fn a() { tokio::task::spawn_blocking(f); }", "tokio::task::spawn_blocking@1"),
        ("fn a() { std::thread::spawn(f); }", "std::thread::spawn@1"),
        ("fn a(m: &std::sync::Mutex<u8>) { }", "std::sync::Mutex@1"),
    ] {
        assert_eq!(found(text), [expected], "{text}");
    }
    assert!(found("use rustix::net::SocketAddrUnix; fn a() { SocketAddrUnix::new_abstract_name(n); }").is_empty());
    assert!(found("use std::net::{TcpStream, SocketAddr}; use std::sync::{Arc, OnceLock, atomic::*};").is_empty());
    assert!(
        found("use tokio::net::TcpStream; async fn a() { TcpStream::connect(x).await; tokio::sync::Mutex::new(1); }")
            .is_empty()
    );
}

#[test]
fn the_clock_is_forbidden_where_there_is_none() {
    let text = "use std::time::Instant;\nfn a() { Instant::now(); }";
    assert_eq!(found_at("crates/proto/src/a.rs", text), ["std::time::Instant::now@2"]);
    assert!(found_at("crates/runtime/src/a.rs", text).is_empty());
}

#[test]
fn test_code_may_wait() {
    assert!(found("#[cfg(test)] mod tests { use std::fs; fn a() { fs::read(p); std::thread::sleep(d); } }").is_empty());
    assert!(found_at("tests/suite/main.rs", "fn a() { std::thread::sleep(d); }").is_empty());
}

#[test]
fn what_tests_import_means_nothing_outside_them() {
    assert!(found("mod fs; fn a() { fs::read(); } #[cfg(test)] mod tests { use std::fs; }").is_empty());
}

#[test]
fn a_name_with_two_meanings_may_have_either() {
    let text = "mod a { use std::fs::File; fn a() { File::open(p); } }\nmod b { use crate::File; }";
    assert_eq!(found(text), ["std::fs::File::open@1"]);
    assert_eq!(found(&text.replace("mod b {", "mod b { use other::File;")), ["std::fs::File::open@1"]);
}

#[test]
fn strings_and_comments_are_ignored() {
    assert!(
        found("/// std::fs::read(p)\nfn a() { log(\"std::fs::read(p)\"); /* std::thread::sleep(d) */ }").is_empty()
    );
}

/// Runs the check itself, with a list of exceptions.
fn problems(allow: &str, text: &str) -> Vec<String> {
    let tree = Tree::of(&[("xtask/tidy.toml", allow), ("crates/http/src/a.rs", text)]);
    let mut problems = Vec::new();
    let mut exceptions = Exceptions::read(&tree, &mut problems);
    let sources = source::read_all(&tree, &mut problems);
    check(&sources, &mut exceptions, &mut problems);
    exceptions.unused(&mut problems);
    problems.iter().map(|problem| format!("{}:{}: {}", problem.path, problem.line, problem.message)).collect()
}

#[test]
fn an_exception_covers_its_sort_and_folder() {
    let allow = "[[blocking]]\npath = \"crates/http/\"\nsorts = [\"files\"]\nreason = \"Runs before the loops do.\"\n";
    let text = "fn a() { std::fs::read(p); std::fs::read(p); std::thread::sleep(d); }";
    assert_eq!(problems(allow, text), ["crates/http/src/a.rs:1: std::thread::sleep stops the thread"]);
    let found = problems("", text);
    assert_eq!(found[0], "crates/http/src/a.rs:1: std::fs::read may wait for a disk (2 times in this file)");
}

#[test]
fn an_exception_that_excuses_nothing_is_a_problem() {
    let allow = "[[blocking]]\npath = \"crates/http/\"\nsorts = [\"files\", \"sleep\"]\nreason = \"Runs before the loops do.\"\n";
    let found = problems(allow, "fn a() { std::fs::read(p); }");
    assert_eq!(found, ["xtask/tidy.toml:2: the exception \"sleep\" for crates/http/ excuses nothing"]);
}
