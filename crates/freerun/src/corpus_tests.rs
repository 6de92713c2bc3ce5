//! Real configurations of other people, read without their machines: a file that nginx accepts has to be accepted,
//! unless it has directives that freerun lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use freerun_conf::{Loader, Node, directive_owners};
use freerun_testkit::require;

use freerun_serve::configuration::zones::Zones;
use freerun_serve::tls::files::{KnownFile, SecretFiles};

use crate::configuration::{KnownFacts, Side, read_after, registry};
use crate::source::Input;

/// The folder of the corpus: `FREERUN_CORPUS`, or `shared/corpus` beside the workspace.
fn folder() -> Option<PathBuf> {
    let given = std::env::var_os("FREERUN_CORPUS").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    given.or(Some(beside)).filter(|path| path.join("index.tsv").is_file())
}

/// One file of the corpus in the block that it belongs to. Every file that it includes exists, and is empty.
struct Stubs {
    main: String,
    file: PathBuf,
}

const MAIN: &str = "/stub/nginx.conf";

impl Loader for Stubs {
    fn load(&mut self, path: &str) -> io::Result<Vec<u8>> {
        match path {
            MAIN => Ok(self.main.clone().into_bytes()),
            path if Path::new(path) == self.file => std::fs::read(path),
            _ => Ok(Vec::new()),
        }
    }

    fn glob(&mut self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The text of the main file. `before` is put into `http`, if that is possible.
fn wrap(context: &str, file: &Path, before: &str) -> String {
    let include = format!("include \"{}\";", file.display());
    match context {
        "main" => include,
        "http" => format!("events {{ }}\nhttp {{\n{before}{include}\n}}\n"),
        "server" => format!("events {{ }}\nhttp {{\n{before}server {{\n{include}\n}}\n}}\n"),
        other => panic!("context {other:?}"),
    }
}

/// Collects the names in a file that only nginx has directives for.
fn missing(nodes: &[Node], into: &mut BTreeSet<String>) {
    Node::each(nodes, &mut |node| {
        let name = node.name.as_str();
        let is_nginx_s = directive_owners::modules().any(|(_, mut names)| names.any(|known| known == name));
        if is_nginx_s && !registry().knows(name) {
            into.insert(name.to_owned());
        }
    });
}

/// The most definitions of its surroundings that a file may lack.
const MAX_STUBS: usize = 20;

/// The directive that defines the name which a message reports as missing.
fn stub_for(message: &str, text: &str) -> Option<String> {
    let quoted = message.split('"').nth(1)?;
    if message.contains(" variable in ") {
        Some(format!("map $host ${quoted} {{ default \"\"; }}\n"))
    } else if message.contains("unknown log format ") {
        Some(format!("log_format {quoted} \"$request\";\n"))
    } else if message.contains("is defined for the \"listen ... ssl\" directive") {
        Some("ssl_certificate /stub/server.crt;\nssl_certificate_key /stub/server.key;\n".to_owned())
    } else if message.contains("no port in upstream ") {
        Some(format!("upstream {quoted} {{ server 127.0.0.1:1; }}\n"))
    } else if message.contains("zero size shared memory zone ") {
        let words: Vec<&str> = text.split([' ', '\t', '\n', ';']).filter(|word| !word.is_empty()).collect();
        let cache = words.windows(2).find(|pair| pair[1] == quoted && pair[0].ends_with("_cache"));
        if let Some(pair) = cache {
            return Some(format!("{}_path /stub/{quoted} keys_zone={quoted}:1m;\n", pair[0]));
        }
        Some(format!("limit_req_zone $binary_remote_addr zone={quoted}:1m rate=1r/s;\n"))
    } else {
        None
    }
}

/// Parameters of DHE: RFC 7919's group of 2048 bits.
const DHPARAM: &[u8] = b"-----BEGIN DH PARAMETERS-----
MIIBCAKCAQEA//////////+t+FRYortKmq/cViAnPTzx2LnFg84tNpWp4TZBFGQz
+8yTnc4kmz75fS/jY2MMddj2gbICrsRhetPfHtXV/WVhJDP1H18GbtCFY2VVPe0a
87VXE15/V8k1mE8McODmi3fipona8+/och3xWKE2rec1MKzKT0g6eXq8CrGCsyT7
YdEIqUuyyOP7uWrat2DX9GgdT0Kj3jlN9K5W7edjcrsZCwenyO4KbXCeAvzhzffi
7MA0BM0oNC9hkXL+nOmFg/+OTxIy7vKBg8P+OxtMb61zO7X8vC7CIAXFjvGDfRaD
ssbzSibBsu/6iGtCOGEoXJf//////////wIBAg==
-----END DH PARAMETERS-----
";

/// A file of TLS that a message reports as missing, and what may stand in it.
fn secret_for(message: &str) -> Option<(String, &'static [u8])> {
    let path = message.split('"').nth(1)?.to_owned();
    let contents: &[u8] = match message {
        _ if message.contains("cannot load certificate key") => include_bytes!("../../tls/tests/fixtures/ec.key"),
        _ if message.contains("cannot load certificate") || message.contains("SSL_CTX_load_verify_locations") => {
            include_bytes!("../../tls/tests/fixtures/ec.crt")
        }
        _ if message.contains("BIO_new_file(") => DHPARAM,
        _ if message.contains("open() ") => &[7; 48],
        _ => return None,
    };
    Some((path, contents))
}

/// The part that freerun does not have yet, though it has the directive.
fn lacking_part(message: &str) -> Option<&'static str> {
    let parts = [("no protocol is left", "TLS 1.1 and older alone")];
    parts.into_iter().find(|(words, _)| message.contains(words)).map(|(_, part)| part)
}

/// The first problem of a file, unless it is about a name that its author defines elsewhere.
fn refusal(context: &str, file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut before = String::new();
    let mut message = String::new();
    let mut secrets = SecretFiles::new();
    for _ in 0..MAX_STUBS {
        let mut loader = Stubs { main: wrap(context, file, &before), file: file.to_owned() };
        let input = Input {
            conf: MAIN.to_owned(),
            globals: None,
            prefix: "/stub/".to_owned(),
            conf_prefix: "/stub/".to_owned(),
            error_log: "stderr".to_owned(),
            privileged: true,
        };
        let known = KnownFacts { secrets: secrets.clone(), ..KnownFacts::default() };
        let failure = read_after(&input, &mut loader, Side::Worker, known, Zones::default()).err()?;
        message = failure.problems.first().map(|problem| problem.first_line(&failure.sources)).unwrap_or_default();
        if let Some((path, contents)) = secret_for(&message)
            && secrets.insert(path, KnownFile::read(contents.to_vec(), None)).is_none()
        {
            continue;
        }
        match stub_for(&message, &text) {
            Some(stub) => before += &stub,
            None => break,
        }
    }
    Some(message)
}

/// Findings of the lint in the corpus, for a person to judge: with `FREERUN_LINT_SHOW=1` each is printed, with its line.
///
/// A fragment lacks its surroundings: what nothing uses, and what has no resolver, is counted in whole files alone.
#[test]
fn the_lint_finds_few_things_in_files_that_work() {
    let corpus = folder();
    require::need("corpus", corpus.is_some(), "no corpus (FREERUN_CORPUS)");
    let Some(corpus) = corpus else { return };
    let index = std::fs::read_to_string(corpus.join("index.tsv")).unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut files, mut with) = (0, 0);
    let mut out = std::io::stdout();
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [name, context, ..] = columns[..] else { continue };
        let file = corpus.join(name);
        let mut loader = Stubs { main: wrap(context, &file, ""), file: file.clone() };
        let tree = freerun_conf::parse(MAIN, None, "/stub/", &mut loader);
        let found = crate::commands::lint_tree(&tree);
        let needs_all = |rule: &str| rule.ends_with("-unused") || rule == "resolver-missing";
        let found = found.iter().filter(|(rule, ..)| context == "main" || !needs_all(rule));
        files += 1;
        let before = counts.values().sum::<usize>();
        for (rule, place, line) in found {
            *counts.entry(rule).or_default() += 1;
            if std::env::var_os("FREERUN_LINT_SHOW").is_some() {
                let _ = writeln!(out, "{name}:{place} [{rule}] {line}");
            }
        }
        with += usize::from(counts.values().sum::<usize>() > before);
    }
    let sum: usize = counts.values().sum();
    let _ = writeln!(out, "corpus: the lint finds {sum} things in {with} of {files} files: {counts:?}");
    assert!(counts.len() > 5, "{counts:?}");
    assert!(sum < 2 * files, "{sum} findings in {files} files");
}

#[test]
fn what_nginx_accepts_and_freerun_has_is_accepted() {
    let corpus = folder();
    require::need("corpus", corpus.is_some(), "no corpus (FREERUN_CORPUS)");
    let Some(corpus) = corpus else { return };
    let index = std::fs::read_to_string(corpus.join("index.tsv")).unwrap();
    let (mut accepted, mut lacking) = (0, 0);
    let mut lacks: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = String::new();
    for row in index.lines().skip(1) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [file, context, _, "ok", ..] = columns[..] else { continue };
        let file = corpus.join(file);
        let mut loader = Stubs { main: wrap(context, &file, ""), file: file.clone() };
        let tree = freerun_conf::parse(MAIN, None, "/stub/", &mut loader);
        let mut names = BTreeSet::new();
        missing(&tree.nodes, &mut names);
        if names.is_empty() {
            let Some(message) = refusal(context, &file) else {
                accepted += 1;
                continue;
            };
            match lacking_part(&message) {
                Some(part) => drop(names.insert(part.to_owned())),
                None => wrong += &format!("{}: {message}\n", file.display()),
            }
        }
        lacking += 1;
        for name in names {
            *lacks.entry(name).or_default() += 1;
        }
    }
    let mut lacks: Vec<(usize, String)> = lacks.into_iter().map(|(name, count)| (count, name)).collect();
    lacks.sort_by(|a, b| b.cmp(a));
    // This is written to the stream itself, which the test runner does not capture: the figures are wanted when the
    // test passes, too.
    let mut out = std::io::stdout();
    let _ =
        writeln!(out, "corpus: {accepted} files accepted as nginx does, {lacking} name directives that are missing:");
    for (count, name) in lacks.iter().take(20) {
        let _ = writeln!(out, "  {count:4} {name}");
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(accepted > 0);
}
