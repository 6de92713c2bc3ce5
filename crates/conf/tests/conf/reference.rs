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
    let pages = reference(&registry());
    let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["README.md", "blocks.md", "http-files.md", "main.md", "rewrite.md"]);
    assert_eq!(reference(&registry()), pages, "always the same");
    let text = &pages[2].1;
    assert!(text.contains("# http/files\n\nHow files are sent.\n\nWith a second paragraph.\n"));
    let sendfile = "\n## sendfile\n\nSends files with `sendfile()`.\n\n| | |\n|---|---|\n\
        | Syntax | `sendfile on \\| off;` |\n| Default | `sendfile off;` |\n\
        | Context | http, server, location, if in location |\n| nginx | as in nginx |\n\nMore about it.\n";
    assert!(text.contains(sendfile), "{text}");
    assert!(text.contains("| nginx | differs: no variables |"));
    assert!(pages[4].1.contains("## break\n\nStops.\n\n| | |\n|---|---|\n| Syntax | `break;` |\n| Default | — |"));
}

#[test]
fn the_index_says_what_is_and_is_not_there() {
    let pages = reference(&registry());
    let index = &pages[0].1;
    let (supported, rest) = index.split_once("## Accepted without effect").expect("a list");
    let (accepted, missing) = rest.split_once("## Not yet").expect("a list");
    assert!(supported.contains("- [`sendfile`](http-files.md#sendfile)\n"));
    assert!(supported.contains("- [`root`](http-files.md#root) — differs: no variables\n"));
    assert!(accepted.contains("- [`send_lowat`](http-files.md#send_lowat) — FreeBSD has it\n"));
    assert!(missing.contains("`proxy_pass`"));
    assert!(!missing.contains("`sendfile`"));
}
