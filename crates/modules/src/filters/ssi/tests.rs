use bytes::Bytes;

use super::expr::{Captures, Lookup, Patterns, evaluate, holds};
use super::parser::{ParsedPiece, Parser, SsiCommand};

fn command(name: &str, params: &[(&str, &str)]) -> ParsedPiece {
    let params = params.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
    ParsedPiece::Command(SsiCommand { name: name.as_bytes().to_vec(), params })
}

/// The items of a page that comes in pieces of `size`, with adjacent texts put together.
fn parse(page: &str, size: usize) -> Vec<ParsedPiece> {
    let mut parser = Parser::new(8);
    let mut out: Vec<ParsedPiece> = Vec::new();
    let push = |found: ParsedPiece, out: &mut Vec<ParsedPiece>| match (out.last_mut(), found) {
        (Some(ParsedPiece::Text(last)), ParsedPiece::Text(more)) => *last = [&last[..], &more].concat().into(),
        (_, found) => out.push(found),
    };
    for piece in page.as_bytes().chunks(size) {
        let mut piece = Bytes::copy_from_slice(piece);
        while let Some(found) = parser.next(&mut piece) {
            push(found, &mut out);
        }
        assert!(piece.is_empty());
    }
    if let Some(rest) = parser.end() {
        push(ParsedPiece::Text(rest), &mut out);
    }
    out
}

#[test]
fn pages_are_the_same_however_they_are_cut() {
    let text = |text: &'static str| ParsedPiece::Text(Bytes::from_static(text.as_bytes()));
    let fault = |why: &str| ParsedPiece::Fault(why.to_owned());
    for (page, wanted) in [
        ("plain", vec![text("plain")]),
        ("a<!--# echo var=\"x\" -->b", vec![text("a"), command("echo", &[("var", "x")]), text("b")]),
        ("<!--#echo var='x'-->", vec![command("echo", &[("var", "x")])]),
        ("<!--#\r\n\techo  var  =\n\"a b\"\tq=''-->", vec![command("echo", &[("var", "a b"), ("q", "")])]),
        ("<!--# echo v=\"a\\\"b\" -->", vec![command("echo", &[("v", "a\\\"b")])]),
        ("<!--# else --><!--# endif-->", vec![command("else", &[]), command("endif", &[])]),
        ("<<!<!-<!--<!--# x -->", vec![text("<<!<!-<!--"), command("x", &[])]),
        ("a<!--", vec![text("a<!--")]),
        ("a<!-- # x -->", vec![text("a<!-- # x -->")]),
        ("a<!--# x", vec![text("a")]),
        ("a<!--# x v=\"-->", vec![text("a")]),
        ("a<!--# -->b", vec![text("a")]),
        ("<!--# x --->b", vec![]),
        ("<!--# x ---->b", vec![]),
        ("<!--# x -a-->b", vec![fault("unexpected \"a\" symbol in \"x\" SSI command"), text("b")]),
        ("<!--# x ->--->b", vec![fault("unexpected \">\" symbol in \"x\" SSI command"), text("b")]),
        (
            "<!--# x v -->b",
            vec![fault("unexpected \"-\" symbol after \"v\" parameter in \"x\" SSI command"), text("b")],
        ),
        ("<!--# x v-->", vec![fault("unexpected \"-\" symbol after \"v\" parameter in \"x\" SSI command")]),
        ("<!--# x v=-->", vec![fault("unexpected \"-\" symbol before value of \"v\" parameter in \"x\" SSI command")]),
        (
            "<!--# x v=y -->",
            vec![fault("unexpected \"y\" symbol before value of \"v\" parameter in \"x\" SSI command")],
        ),
        (
            "<!--# x v=\"y\"z=\"\" -->",
            vec![fault("unexpected \"z\" symbol after \"y\" value of \"v\" parameter in \"x\" SSI command")],
        ),
        ("<!--# x v=\"12345678\" -->", vec![command("x", &[("v", "12345678")])]),
        (
            "<!--# x v=\"123456789\" -->",
            vec![fault("too long \"123456789...\" value of \"v\" parameter in \"x\" SSI command")],
        ),
    ] {
        for size in 1..=page.len() {
            assert_eq!(parse(page, size), wanted, "{page} in pieces of {size}");
        }
    }
}

#[test]
fn commands_are_bounded() {
    let long = "c".repeat(33);
    let page = format!("<!--# {long} -->");
    assert_eq!(parse(&page, 5), vec![ParsedPiece::Fault(format!("the \"{long}...\" SSI command is too long"))]);
    let page = format!("<!--# x {long}=\"\" -->");
    let why = format!("too long \"{long}...\" parameter in \"x\" SSI command");
    assert_eq!(parse(&page, 5), vec![ParsedPiece::Fault(why)]);
    let params: String = (0..17).map(|_| " a=\"\"").collect();
    let why = "too many SSI command parameters: \"x\"".to_owned();
    assert_eq!(parse(&format!("<!--# x{params} -->"), 5), vec![ParsedPiece::Fault(why)]);
    assert_eq!(parse(&format!("<!--# {} x -->", " ".repeat(100_000)), 999), vec![command("x", &[])]);
}

#[test]
fn a_command_reads_as_it_is_written() {
    for page in ["<!--#x -->", "<!--#x a=\"b\" c=\"\" -->", "<!--#x a='b\"c' -->", "<!--#x a=\"b\\\"c\" -->"] {
        let mut piece = Bytes::from_static(page.as_bytes());
        let Some(ParsedPiece::Command(command)) = Parser::new(8).next(&mut piece) else { panic!("{page}") };
        let mut out = Vec::new();
        command.source(&mut out);
        assert_eq!(out, page.as_bytes());
    }
}

#[derive(Default)]
struct Names(Captures);

impl Lookup for Names {
    fn value(&self, name: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(match name {
            b"x" => b"aab",
            b"y" => b"a",
            b"long" => &[b'l'; 40_000],
            b"1" => b"one",
            _ => b"",
        });
    }

    fn captured(&mut self, captures: Captures) {
        self.0 = captures;
    }
}

#[test]
fn values() {
    for (text, wanted) in [
        ("a", Ok("a")),
        ("$x-${y}c$Y", Ok("aab-aca")),
        ("$none", Ok("")),
        ("$10", Ok("one0")),
        ("\\$x\\\\\\\"\\'\\a\\", Ok("$x\\\"'\\a\\")),
        ("a$", Err("invalid variable name in \"a$\"")),
        ("a$-", Err("invalid variable name in \"a$-\"")),
        ("${}", Err("invalid variable name in \"${}\"")),
        ("${x", Err("the closing bracket in \"x\" variable is missing")),
        ("$long$long", Err("too long value of 80000 bytes")),
    ] {
        let wanted = wanted.map(|text| text.as_bytes().to_vec()).map_err(str::to_owned);
        assert_eq!(evaluate(text.as_bytes(), &Names::default()), wanted, "{text}");
    }
}

#[test]
fn conditions() {
    let patterns = Patterns::default();
    for (text, wanted) in [
        ("$x", Some(true)),
        ("$none", Some(false)),
        ("", Some(false)),
        ("0", Some(true)),
        ("$x   =   aab", Some(true)),
        ("$x=aab", Some(true)),
        ("$x!=aab", Some(false)),
        ("$x = aab ", Some(false)),
        (" $x = aab", None),
        ("$x ! = aab", None),
        ("$x !", None),
        ("$x = ", Some(false)),
        ("= a", Some(false)),
        ("!= a", Some(true)),
        ("=", Some(true)),
        ("'a' = 'a'", Some(true)),
        ("a-b = a-b", None),
        ("a b", None),
        ("$x > a", None),
        ("$x == aab", Some(false)),
        ("$x = /^(a+)(?<n>b)/", Some(true)),
        ("$x != /c/", Some(true)),
        ("$x = /AAB/", Some(false)),
        ("$x = /a\\.b/", Some(false)),
        ("$x = /b\\$/", Some(true)),
        ("$x = /$y/", Some(true)),
        ("$x = //", Some(true)),
        ("$x = /", Some(false)),
        ("$x = /a", None),
        ("$x = /a/ ", None),
        ("$x = /a/i", None),
        ("$x = /(/", None),
        ("$x = /b$/", None),
        ("/a/ = a", None),
    ] {
        let got = holds(text.as_bytes(), &mut Names::default(), &patterns);
        assert_eq!(got.clone().ok(), wanted, "{text}: {got:?}");
    }
    let mut names = Names::default();
    holds(b"$x = /(a)(?<n>a)(c)?/", &mut names, &patterns).unwrap();
    assert_eq!(names.0.numbered, [&b"aa"[..], b"a", b"a", b""]);
    assert_eq!(names.0.named, [(b"n".to_vec(), b"a".to_vec())]);
    holds(b"$x = /(c)/", &mut names, &patterns).unwrap();
    assert_eq!(names.0.numbered.len(), 4, "a failed match changes nothing");
    for number in 0..200 {
        holds(format!("$x = /{number}/").as_bytes(), &mut names, &patterns).unwrap();
    }
}
