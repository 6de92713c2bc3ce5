//! Real configurations of other people: whatever is in them, `-t` ends, and says something sensible.

use freerun_conf::{Loader, Node, directive_owners};
use freerun_testkit::{Kind, TempDir, check, require, run};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

/// The corpus: `FREERUN_CORPUS`, or `shared/corpus` beside the workspace.
fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("FREERUN_CORPUS").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    given.or(Some(beside)).filter(|path| path.join("index.tsv").is_file())
}

fn wrap(context: &str, file: &str) -> String {
    match context {
        "main" => format!("include {file};\n"),
        "http" => format!("events {{ }}\nhttp {{\ninclude {file};\n}}\n"),
        "server" => format!("events {{ }}\nhttp {{\nserver {{\ninclude {file};\n}}\n}}\n"),
        other => panic!("context {other:?}"),
    }
}

/// Only the file itself: what it includes is somewhere on its author's machine.
struct Alone<'a>(&'a Path);

impl Loader for Alone<'_> {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        if Path::new(path) == self.0 { fs::read(path) } else { Ok(Vec::new()) }
    }

    fn glob(&mut self, _pattern: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// nginx's directives in a file, each once.
fn names(file: &Path) -> BTreeSet<String> {
    fn collect(nodes: &[Node], into: &mut BTreeSet<String>) {
        for node in nodes {
            if directive_owners::modules().any(|(_, mut names)| names.any(|name| name == node.name.as_str())) {
                into.insert(node.name.text.clone());
            }
            collect(node.children(), into);
        }
    }
    let tree = freerun_conf::parse(&file.display().to_string(), None, "/", &mut Alone(file));
    let mut into = BTreeSet::new();
    collect(&tree.nodes, &mut into);
    into
}

/// Whether freerun has no directive of this name at all; one that stands in a wrong place gets another message.
fn is_unknown(name: &str) -> bool {
    let checked = check(Kind::Freerun, &format!("{name};\n")).expect("freerun starts");
    checked.stderr.contains(&format!("unknown directive \"{name}\""))
}

#[test]
fn no_file_crashes_or_hangs_the_test() {
    if !require::freerun() {
        return;
    }
    let corpus = folder();
    require::need("corpus", corpus.is_some(), "no corpus (FREERUN_CORPUS)");
    let Some(corpus) = corpus else { return };
    let index = fs::read_to_string(corpus.join("index.tsv")).expect("the index");
    let (mut total, mut parsed, mut passed) = (0, 0, 0);
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = String::new();
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [file, context, _, accepted, ..] = columns[..] else {
            panic!("row {row:?}");
        };
        let dir = TempDir::new("corpus");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let text = wrap(context, &format!("\"{}\"", corpus.join(file).display()));
        fs::write(dir.path().join("nginx.conf"), text).expect("writing");
        let prefix = dir.path().display().to_string();
        let arguments = ["-t", "-c", &path("nginx.conf"), "-p", &prefix, "-e", &path("error.log")];
        let done = run(Kind::Freerun, &arguments, Duration::from_secs(20)).expect("freerun starts");
        total += 1;
        let first = done.stderr.lines().find(|line| line.contains("[emerg]")).unwrap_or_default().to_owned();
        let told = done.code == Some(0) || done.code == Some(1) && !first.is_empty();
        if done.timed_out || !told || done.stderr.contains("panicked") {
            wrong += &format!("{file}: code {:?}, in time: {}\n{}\n", done.code, !done.timed_out, done.stderr);
        }
        let syntax = [
            "unexpected \"",
            "unexpected end of file",
            "is not terminated by",
            "has no opening \"{\"",
            "too long parameter",
        ];
        if !syntax.iter().any(|message| first.contains(message)) {
            parsed += 1;
        } else if accepted == "ok" {
            wrong += &format!("{file}: nginx reads it, but: {first}\n");
        }
        if done.code == Some(0) {
            passed += 1;
        }
        for name in names(&corpus.join(file)) {
            *used.entry(name).or_default() += 1;
        }
    }
    let missing = used.into_iter().filter(|(name, _)| is_unknown(name));
    let mut missing: Vec<(usize, String)> = missing.map(|(name, count)| (count, name)).collect();
    missing.sort_by(|a, b| b.cmp(a));
    // Written to the stream itself, which the test runner does not capture: the figures are wanted when all is well, too.
    let mut out = std::io::stdout();
    let count = missing.len();
    let _ = writeln!(
        out,
        "corpus: {total} files, {parsed} parse, {passed} pass -t; {count} directives are missing, most of all:"
    );
    for (count, name) in missing.iter().take(20) {
        let _ = writeln!(out, "  {count:4} {name}");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(total > 0);
}
