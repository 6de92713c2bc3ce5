//! Tests from text to tree: words, places, includes, bounds.

use crate::support::{MAIN, Memory, parse_text};
use freerun_conf::*;

fn words(text: &str) -> Vec<String> {
    let tree = parse_text(format!("x {text};").as_bytes());
    assert!(tree.error.is_none(), "{text:?}: {:?}", tree.error);
    assert_eq!(tree.nodes.len(), 1, "{text:?}");
    tree.nodes[0].args.iter().map(|word| word.text.clone()).collect()
}

#[test]
fn quotes_and_escapes() {
    for (text, expected) in [
        ("a b\tc\r\nd", vec!["a", "b", "c", "d"]),
        ("\"a b\" 'c \"d\"'", vec!["a b", "c \"d\""]),
        ("\"a;b{c}d#e\"", vec!["a;b{c}d#e"]),
        (r#""a\"b" 'a\'b'"#, vec!["a\"b", "a'b"]),
        (r"a\tb\nc\rd\\e\xf", vec!["a\tb\nc\rd\\e\\xf"]),
        (r"a\ b a\;b a\{b", vec![r"a\ b", r"a\;b", r"a\{b"]),
        ("a}b a\"b a'b a#b", vec!["a}b", "a\"b", "a'b", "a#b"]),
        ("a # comment ; }\n b", vec!["a", "b"]),
        ("${a}b c${d} $e", vec!["${a}b", "c${d}", "$e"]),
        ("^/a\\{2\\}$ \"^/a{2}$\"", vec!["^/a\\{2\\}$", "^/a{2}$"]),
        ("($a = \"b\")", vec!["($a", "=", "b", ")"]),
        ("\"\" ''", vec!["", ""]),
        ("\"a\\\\\"", vec!["a\\"]),
        ("\"a\nb\"", vec!["a\nb"]),
    ] {
        assert_eq!(words(text), expected, "{text:?}");
    }
}

#[test]
fn words_have_places() {
    let tree = parse_text(b"# c\nhttp {\n\tserver_name  \"a\n b\" cd\n ; }\n");
    let http = &tree.nodes[0];
    assert_eq!(http.name.place, Place { file: 0, line: 2, column: 1, width: 4 });
    assert_eq!(http.end, Place { file: 0, line: 2, column: 6, width: 1 });
    assert_eq!(http.close, Place { file: 0, line: 5, column: 4, width: 1 });
    let names = &http.children()[0];
    assert_eq!(names.name.place, Place { file: 0, line: 3, column: 2, width: 11 });
    // A word over two lines is cut at the end of the first line.
    assert_eq!(names.args[0].place, Place { file: 0, line: 3, column: 15, width: 2 });
    assert!(names.args[0].quoted);
    assert_eq!(names.args[1].place, Place { file: 0, line: 4, column: 5, width: 2 });
    assert_eq!(names.end, Place { file: 0, line: 5, column: 2, width: 1 });
    assert_eq!(tree.sources.location(names.end).as_deref(), Some("/etc/nginx/nginx.conf:5"));
}

#[test]
fn includes_are_relative_to_the_prefix_and_sorted() {
    let mut files = Memory::with(&[
        (MAIN, "include conf.d/*.conf;\ninclude none*;\nh { include sub/x.inc; } z;"),
        ("/etc/nginx/conf.d/b.conf", "b;"),
        ("/etc/nginx/conf.d/a.conf", "a 1;"),
        ("/etc/nginx/conf.d/c.other", "no;"),
        ("/etc/nginx/sub/x.inc", "include sub/y.inc;x;"),
        ("/etc/nginx/sub/y.inc", "y;"),
    ]);
    let tree = parse(MAIN, None, "/etc/nginx/", &mut files);
    assert!(tree.error.is_none());
    let names = |nodes: &[Node]| nodes.iter().map(|node| node.name.text.clone()).collect::<Vec<_>>();
    assert_eq!(names(&tree.nodes), ["a", "b", "h", "z"]);
    assert_eq!(names(tree.nodes[2].children()), ["y", "x"]);
    let order: Vec<u32> = tree.nodes.iter().map(|node| node.order).collect();
    assert!(order.windows(2).all(|pair| pair[0] < pair[1]));
    let paths: Vec<&str> = tree.sources.iter().map(|source| source.path.as_str()).collect();
    assert_eq!(
        paths,
        [MAIN, "/etc/nginx/conf.d/a.conf", "/etc/nginx/conf.d/b.conf", "/etc/nginx/sub/x.inc", "/etc/nginx/sub/y.inc"]
    );
}

#[test]
fn a_file_included_twice_is_read_once_and_dumped_once() {
    let mut files = Memory::with(&[("/a", "include b;\ninclude b;"), ("/b", "x;")]);
    let tree = parse("/a", Some("y;"), "/", &mut files);
    assert_eq!(tree.nodes.len(), 3);
    assert_eq!(
        String::from_utf8(dump(&tree.sources)).expect("ASCII"),
        "# configuration file /a:\ninclude b;\ninclude b;\n# configuration file /b:\nx;\n"
    );
}

#[test]
fn included_files_are_balanced_by_themselves() {
    let mut files = Memory::with(&[("/a", "h { include b; }"), ("/b", "x;\n}")]);
    let tree = parse("/a", None, "/", &mut files);
    let problem = tree.error.expect("a brace too many");
    assert_eq!(problem.first_line(&tree.sources), "[emerg] unexpected \"}\" in /b:2");
    assert_eq!(tree.nodes[0].children().len(), 1, "what stands before the error is kept");
}

/// Files of which those that are absent are left out.
struct Lenient(Memory, Vec<Problem>);

impl Loader for Lenient {
    fn load(&mut self, path: &str) -> std::io::Result<Vec<u8>> {
        self.0.load(path)
    }

    fn glob(&mut self, pattern: &str) -> std::io::Result<Vec<String>> {
        self.0.glob(pattern)
    }

    fn goes_on_without(&mut self, problem: &Problem) -> bool {
        self.1.push(problem.clone());
        true
    }
}

#[test]
fn a_loader_may_go_on_without_included_files() {
    let mut files = Lenient(Memory::with(&[("/a", "x;\ninclude none;\ninclude b;"), ("/b", "y;")]), Vec::new());
    let tree = parse("/a", None, "/", &mut files);
    assert!(tree.error.is_none());
    let names: Vec<&str> = tree.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["x", "y"]);
    let lines: Vec<String> = files.1.iter().map(|problem| problem.first_line(&tree.sources)).collect();
    assert_eq!(lines, ["[emerg] open() \"/none\" failed (2: No such file or directory) in /a:2"]);
    let tree = parse("/none", None, "/", &mut files);
    assert!(tree.error.is_some() && files.1.len() == 1, "the main file has to be there");
}

#[test]
fn endless_inclusion_ends() {
    let tree = parse("/a", None, "/", &mut Memory::with(&[("/a", "x;\ninclude a;")]));
    let problem = tree.error.expect("a file including itself");
    assert_eq!(problem.first_line(&tree.sources), "[emerg] more than 32 files including each other in /a:2");
    assert_eq!(problem.place.map(|place| place.column), Some(9));
}

#[test]
fn inclusion_that_multiplies_ends() {
    // 10 times 10 times … files without directives: the bytes read are bounded.
    let mut files = Memory::default();
    for level in 0..20 {
        let text = format!("include f{};", level + 1).repeat(10);
        files.0.insert(format!("/f{level}"), text.into_bytes());
    }
    files.0.insert("/f20".to_owned(), [b"#".as_slice(), &[b'x'; 8 << 20]].concat());
    let tree = parse("/f0", None, "/", &mut files);
    let problem = tree.error.expect("too much");
    assert!(problem.message.starts_with("the configuration is larger than"), "{problem}");
}

#[test]
fn deep_nesting_ends() {
    let tree = parse_text("a { ".repeat(100_000).as_bytes());
    let problem = tree.error.expect("too deep");
    assert_eq!(problem.message, "more than 100 blocks inside each other");
    let fine = format!("{}{}", "a { ".repeat(100), "}".repeat(100));
    assert!(parse_text(fine.as_bytes()).error.is_none());
}

#[test]
fn words_are_bytes() {
    let tree = parse_text(b"a;\nb \xff\xfe \"caf\xe9\\n\" \xc3\xa9;");
    assert!(tree.error.is_none());
    let words: Vec<_> = tree.nodes[1].args.iter().map(|word| word.bytes().into_owned()).collect();
    assert_eq!(words, [&b"\xff\xfe"[..], b"caf\xe9\n", b"\xc3\xa9"]);
}

#[test]
fn comments_of_any_length() {
    let text = format!("a;\n#{}\nb;", "c".repeat(10_000));
    assert_eq!(parse_text(text.as_bytes()).nodes.len(), 2);
}
