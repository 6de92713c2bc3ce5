//! What the documentation names is there: metrics, directives, options of the command line and files of the repository.
//!
//! The pages are those that people write. The reference is printed from the tables of the binary and cannot differ from it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use freerun_testkit::{Kind, Setup, Site, TempDir, require, run};

const TIME: Duration = Duration::from_secs(60);

/// Folders of pages, and pages.
const PAGES: &[&str] =
    &["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/guide", "docs/design", "bench/README.md"];

/// Those of them that speak to users: each name of a directive in them has to be one.
const FOR_USERS: &[&str] = &["README.md", "docs/guide"];

/// Names that begin like metrics and are none: crates, and tests.
const NO_METRICS: &[&str] = &["freerun_api", "freerun_proto", "freerun_runtime", "freerun_testkit", "freerun_tls"];

/// Words with `_` that are neither directives nor anything else that the reference names.
const OTHER_WORDS: &[&str] = &["llvm_tools", "sd_listen_fds", "sd_notify"];

/// Long options of other programs.
const OTHER_OPTIONS: &[&str] = &["--binary", "--image", "--no-fail-fast", "--workspace", "--release"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The pages below these names, with their texts.
fn pages(names: &[&str]) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    for name in names {
        let path = repository().join(name);
        let read = |path: &Path| std::fs::read_to_string(path).expect("a page");
        if path.is_file() {
            pages.push(((*name).to_owned(), read(&path)));
            continue;
        }
        for entry in std::fs::read_dir(&path).expect("a folder of pages").flatten() {
            let file = entry.file_name().into_string().expect("a name");
            if file.ends_with(".md") {
                pages.push((format!("{name}/{file}"), read(&entry.path())));
            }
        }
    }
    pages
}

/// What stands between backticks, outside of blocks of code.
fn code(text: &str) -> Vec<&str> {
    let mut spans = Vec::new();
    let mut is_block = false;
    let mut start = 0;
    let mut prose = Vec::new();
    for line in text.split_inclusive('\n') {
        let here = start..start + line.len();
        start = here.end;
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if !is_block {
            prose.push(&text[here]);
        }
    }
    for line in prose {
        spans.extend(line.split('`').skip(1).step_by(2));
    }
    spans
}

/// The blocks of code of a language.
fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let opening = format!("```{language}\n");
    text.split(opening.as_str()).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

/// The words of a text that consist of these letters.
fn words(text: &str, is_letter: impl Fn(char) -> bool) -> impl Iterator<Item = &str> {
    text.split(move |letter| !is_letter(letter)).filter(|word| !word.is_empty())
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_'
}

/// The reference, as the binary writes it: all pages together.
fn reference() -> String {
    let folder = TempDir::new("reference");
    let done = run(Kind::Freerun, &["reference", &folder.path().display().to_string()], TIME).expect("it starts");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let files = std::fs::read_dir(folder.path()).expect("a folder").flatten();
    let texts = files.map(|entry| std::fs::read_to_string(entry.path()).expect("a page"));
    texts.collect::<Vec<_>>().join("\n")
}

/// The names of the metrics of a server that has one of everything.
fn metrics() -> BTreeSet<String> {
    let server = Setup::new()
        .root(&Site::new())
        .main("zone_sync_engine redis://127.0.0.1:1;")
        .http(
            "proxy_cache_path @DIR@/cache keys_zone=c:1m sync; keyval_zone zone=k:64k sync; limit_req_zone $host zone=r:1m rate=1r/s;
             otel_exporter { endpoint 127.0.0.1:1; }
             limit_conn_zone $host zone=n:1m; upstream u { zone u 64k; server 127.0.0.1:1; }
             server { listen 127.0.0.1:@PORT@; root @ROOT@; status_zone s; location /p { proxy_pass http://u; }
                 location = /status { status; } }",
        )
        .freerun();
    // Mounts and upstream servers are shown when they were used.
    server.get("/none");
    server.get("/p");
    let text = server.get("/status?format=prometheus").text();
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn metrics_that_are_named_are_there() {
    if !require::freerun() {
        return;
    }
    let known = metrics();
    assert!(known.len() > 50, "{known:?}");
    let mut wrong = Vec::new();
    let mut named = BTreeSet::new();
    for (page, text) in pages(PAGES) {
        for word in words(&text, is_of_name).filter(|word| word.starts_with("freerun_")) {
            // A histogram has samples with further names.
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
            // A beginning that a command looks for ends in `_`.
            let is_beginning = word.ends_with('_') && known.iter().any(|name| name.starts_with(word));
            if !NO_METRICS.contains(&word) && !known.contains(word) && !known.contains(base) && !is_beginning {
                wrong.push(format!("{page}: {word}"));
            }
            named.insert(word.to_owned());
        }
    }
    assert!(wrong.is_empty(), "no such metric:\n{}", wrong.join("\n"));
    assert!(named.contains("freerun_stalls_total"), "the guide says what to alert on: {named:?}");
}

#[test]
fn directives_that_are_named_are_there() {
    if !require::freerun() {
        return;
    }
    let reference = reference();
    let known: BTreeSet<&str> = words(&reference, is_of_name).collect();
    let mut wrong = Vec::new();
    for (page, text) in pages(FOR_USERS) {
        let configurations = blocks(&text, "nginx");
        let lines =
            configurations.iter().flat_map(|block| block.lines()).map(|line| line.trim_start_matches(['{', ' ']));
        let first_words = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split([' ', ';']).next());
        for word in code(&text).into_iter().chain(first_words) {
            // A directive with its arguments begins with its name.
            let word = word.split([' ', ';']).next().unwrap_or_default();
            let is_name = word.contains('_') && word.chars().all(is_of_name) && !word.starts_with("freerun_");
            if is_name
                && !word.starts_with('_')
                && !word.ends_with('_')
                && !known.contains(word)
                && !OTHER_WORDS.contains(&word)
            {
                wrong.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(wrong.is_empty(), "nothing in the reference has this name:\n{}", wrong.join("\n"));
}

#[test]
fn options_that_are_named_are_there() {
    if !require::freerun() {
        return;
    }
    let asked = |arguments: &[&str]| run(Kind::Freerun, arguments, TIME).expect("it starts").stdout;
    let help = [
        asked(&["--help"]),
        asked(&["serve", "--help"]),
        asked(&["migrate", "--help"]),
        asked(&["explain", "--help"]),
        asked(&["reference", "--help"]),
    ]
    .concat();
    let is_of_option = |letter: char| letter.is_ascii_lowercase() || letter == '-';
    let options = |text: &str| -> Vec<String> {
        words(text, is_of_option).filter(|word| word.len() > 3 && word.starts_with("--")).map(str::to_owned).collect()
    };
    let mut known: BTreeSet<String> = options(&help).into_iter().collect();
    // What prints it.
    known.insert("--help".to_owned());
    let mut wrong = Vec::new();
    for (page, text) in pages(FOR_USERS) {
        let commands = ["console", "sh"].iter().flat_map(|language| blocks(&text, language)).flat_map(str::lines);
        // Of a line with several commands, the one that is freerun's.
        let own = commands.flat_map(|line| line.split(['|', '&', ';'])).filter(|command| {
            let command = command.trim_start_matches(['$', ' ']);
            command.starts_with("freerun ") || command.contains("/freerun ")
        });
        let spans = code(&text).into_iter().filter(|span| span.starts_with("--") || span.starts_with("freerun "));
        for option in own.chain(spans).flat_map(options) {
            if !known.contains(&option) && !OTHER_OPTIONS.contains(&option.as_str()) {
                wrong.push(format!("{page}: {option}"));
            }
        }
    }
    assert!(wrong.is_empty(), "freerun --help has no such option:\n{}", wrong.join("\n"));
    assert!(known.contains("--json") && known.contains("--tls"), "{known:?}");
}

#[test]
fn files_that_are_named_are_there() {
    let folders = ["crates/", "tests/", "docs/", "xtask/", "bench/", "fuzz/", "packaging/", ".ci/"];
    let is_plain = |path: &str| path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter));
    let mut wrong = Vec::new();
    for (page, text) in pages(PAGES) {
        for span in code(&text) {
            // NNNN stands for a number.
            let is_path =
                folders.iter().any(|folder| span.starts_with(folder)) && is_plain(span) && !span.contains("NNNN");
            if is_path && !repository().join(span).exists() {
                wrong.push(format!("{page}: {span}"));
            }
        }
    }
    assert!(wrong.is_empty(), "no such file:\n{}", wrong.join("\n"));
}

#[test]
fn code_is_told_from_prose() {
    let text = "a `b c` d\n```nginx\n`x` y;\n```\n`e`\n";
    assert_eq!(code(text), ["b c", "e"]);
    assert_eq!(blocks(text, "nginx"), ["`x` y;\n"]);
}
