//! Tests of the tables' own check, and of the reference that is printed from them.

use crate::support::registry;
use freerun_conf::*;

#[test]
fn the_tables_are_without_fault() {
    let mut cx = Cx::new(Sources::default());
    assert_eq!(registry().check(&mut cx), Vec::<String>::new());
}

settings! {
    pub struct Faulty {
        sendfile: bool = "perhaps", in HTTP;
        /// Documented.
        index: Vec<String> = "a;b", in HTTP;
    }
}

#[test]
fn faults_of_tables_are_found() {
    static NOWHERE: &[Directive] = &[Directive::structural("x", Contexts::NONE, Shape::exactly(0, ""), "Docs.")];
    let faulty = Registry::new(&[group::<Faulty>()], NOWHERE).expect("names are unique");
    let faults = faulty.check(&mut Cx::new(Sources::default())).join("\n");
    assert!(faults.contains("\"sendfile\" has no documentation"));
    assert!(faults.contains("the default of \"index\" is not made of words"));
    assert!(faults.contains("\"x\" has no context"));
    assert!(faults.contains("defaults of Faulty: invalid value \"perhaps\""));
    assert!(faults.contains("group Faulty has no documentation"));
}

#[test]
fn every_group_has_a_page() {
    let pages = reference(&registry(), &Additions::default());
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["README.md", "blocks.md", "http-files.md", "main.md", "rewrite.md"]);
    assert_eq!(reference(&registry(), &Additions::default()), pages, "always the same");
    let text = &pages[2].1;
    assert!(text.contains("# http/files (ngx_http_core_module, ngx_http_index_module)\n\nHow files are sent.\n\nWith a second paragraph.\n"));
    let sendfile = "\n## sendfile\n\nSends files with `sendfile()`.\n\n| | |\n|---|---|\n\
        | Syntax | `sendfile on \\| off;` |\n| Default | `sendfile off;` |\n\
        | Context | http, server, location, if in location |\n| nginx | as in nginx |\n\
        | Module | [ngx_http_core_module](https://nginx.org/en/docs/http/ngx_http_core_module.html#sendfile) |\n\n\
        More about it.\n";
    assert!(text.contains(sendfile), "{text}");
    assert!(text.contains("| nginx | differs: no variables |"));
    assert!(pages[4].1.contains("## break\n\nStops.\n\n| | |\n|---|---|\n| Syntax | `break;` |\n| Default | — |"));
}

#[test]
fn the_index_says_what_is_and_is_not_there() {
    let pages = reference(&registry(), &Additions::default());
    let index = &pages[0].1;
    let (supported, rest) = index.split_once("## Accepted without effect").expect("a list");
    let (accepted, missing) = rest.split_once("## Not yet").expect("a list");
    assert!(supported.contains("- [`sendfile`](http-files.md#sendfile)\n"));
    assert!(supported.contains("- [`root`](http-files.md#root) — differs: no variables\n"));
    assert!(accepted.contains("- [`send_lowat`](http-files.md#send_lowat) — FreeBSD has it\n"));
    assert!(missing.contains("`proxy_pass`"));
    assert!(!missing.contains("`sendfile`"));
}

/// Additions with an example of `sendfile` in `http`, and a page.
fn additions() -> Additions {
    let names = vec!["root".to_owned(), "sendfile".to_owned()];
    let example = Example { names, context: Contexts::HTTP, text: "sendfile on;\nroot /srv/www;".to_owned() };
    let page = ("more.md".to_owned(), "More".to_owned(), "Text.\n".to_owned());
    Additions { examples: Examples(vec![example]), pages: vec![page] }
}

#[test]
fn examples_and_further_pages_are_added() {
    let pages = reference(&registry(), &additions());
    let text = |name: &str| &pages.iter().find(|(file, _)| file == name).expect("a page").1;
    let example = "\nExample, in `http`:\n\n```nginx\nsendfile on;\nroot /srv/www;\n```\n";
    assert_eq!(text("http-files.md").matches(example).count(), 2);
    assert!(text("more.md").ends_with("# More\n\nText.\n"));
    assert!(text("README.md").contains("- [More](more.md)\n"));
}

#[test]
fn an_example_is_shown_for_its_protocol() {
    let mut examples = additions().examples;
    examples.0[0].context = Contexts::STREAM;
    let of = |examples: &Examples, contexts| {
        examples.of(&Directive::structural("root", contexts, Shape::exactly(0, ""), "")).count()
    };
    assert_eq!(of(&examples, Contexts::HTTP), 0);
    assert_eq!(of(&examples, Contexts::STREAM_SERVER), 1);
    assert_eq!(of(&examples, Contexts::HTTP.union(Contexts::STREAM)), 1);
    assert_eq!(of(&additions().examples, Contexts::STREAM_SERVER), 0);
}

#[test]
fn a_directive_is_explained_in_plain_text() {
    let text = explain(&registry(), "sendfile", &additions()).expect("it is there");
    let wanted = "sendfile\n  Sends files with sendfile().\n\n  Syntax     sendfile on | off;\n\
        \x20 Default    sendfile off;\n  Context    http, server, location, if in location\n\
        \x20 nginx      as in nginx\n  Module     ngx_http_core_module\n\
        \x20            (https://nginx.org/en/docs/http/ngx_http_core_module.html#sendfile)\n\n\
        \x20 More about it.\n\n  Example, in `http`:\n\n      sendfile on;\n      root /srv/www;\n";
    assert_eq!(text, wanted.replace('`', ""));
    assert_eq!(explain(&registry(), "sendfil", &additions()), None);
}
