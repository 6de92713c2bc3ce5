use proptest::prelude::*;

use super::*;

#[track_caller]
fn path(target: &str, merge: bool) -> Option<String> {
    let uri = normalise(target.as_bytes(), merge).ok()?;
    Some(uri.path.iter().map(|&b| b as char).collect())
}

/// Answers of nginx.
#[test]
fn merged_as_nginx() {
    for (target, expected) in [
        ("/", "/"),
        ("//", "/"),
        ("//a", "/a"),
        ("/a///b/", "/a/b/"),
        ("/./", "/"),
        ("/.", "/"),
        ("/a/..", "/"),
        ("/a/../", "/"),
        ("/a/.", "/a/"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/../..", "/"),
        ("/a/...", "/a/..."),
        ("/a/.../b", "/a/.../b"),
        ("/...", "/..."),
        ("/a/.b", "/a/.b"),
        ("/a/..b", "/a/..b"),
        ("/a/b..", "/a/b.."),
        ("/a/b.", "/a/b."),
        ("/%2e/", "/"),
        ("/a/%2e%2e/b", "/b"),
        ("/a/.%2e/b", "/b"),
        ("/a/%2e./b", "/b"),
        ("/%2F/a", "/a"),
        ("/a%2f%2fb", "/a/b"),
        ("/a/%2f/b", "/a/b"),
        ("/a%2f..%2fb", "/b"),
        ("/%41%42", "/AB"),
        ("/a%3Fb", "/a?b"),
        ("/a%252eb", "/a%2eb"),
        ("/a%2e%2e/b", "/a../b"),
        ("/a/..\\b", "/a/..\\b"),
        ("/a%0a", "/a\n"),
        ("/a#/../..", "/a"),
        ("/a/b/../c/./d//e/../f", "/a/c/d/f"),
        ("/a//../b", "/b"),
        ("/a/b//../c", "/a/c"),
        ("/a//b/../../c", "/c"),
        ("/..a", "/..a"),
        ("/a/%2e%2e", "/"),
        ("/a/%2e", "/a/"),
        ("/a%2F../b", "/b"),
        ("//./a", "/a"),
        ("/.//a", "/a"),
        ("/a/..//b", "/b"),
    ] {
        assert_eq!(path(target, true).as_deref(), Some(expected), "{target}");
    }
}

#[test]
fn unmerged_as_nginx() {
    for (target, expected) in [
        ("//", "//"),
        ("//a", "//a"),
        ("/a//../b", "/a/b"),
        ("/a/b//../c", "/a/b/c"),
        ("//..", "/"),
        ("//../", "/"),
        ("/a/.//b", "/a//b"),
        ("/a%2f%2fb", "/a//b"),
        ("/a/..//b", "//b"),
        ("/%2f%2f", "///"),
        ("///../a", "//a"),
    ] {
        assert_eq!(path(target, false).as_deref(), Some(expected), "{target}");
    }
    assert_eq!(path("//../..", false), None);
}

#[test]
fn refused() {
    for target in [
        "",
        "a",
        "#",
        "/..",
        "/../",
        "/a/../../b",
        "/a/b/../../..",
        "/%2e%2e/",
        "/%00",
        "/a%00b",
        "/a%0",
        "/a%",
        "/a%zz",
        "/a%2g",
        "//..",
        "/%2f..",
        "/a/..%2f..%2f..",
        "/./../a",
        "/a/%2E%2E/%2e%2e/",
        "/%u0041",
        "/%%41",
        "/a\0",
    ] {
        assert_eq!(path(target, true), None, "{target}");
    }
}

#[test]
fn arguments_and_fragments() {
    let args = |t: &'static str| {
        normalise(t.as_bytes(), true).ok().and_then(|u| u.args.map(|a| String::from_utf8_lossy(a).into_owned()))
    };
    assert_eq!(args("/a"), None);
    assert_eq!(args("/a?").as_deref(), Some(""));
    assert_eq!(args("/a?b?c").as_deref(), Some("b?c"));
    assert_eq!(args("/a?/../%zz").as_deref(), Some("/../%zz"));
    assert_eq!(args("/a?b#c").as_deref(), Some("b"));
    assert_eq!(args("/a#?b"), None);
    assert_eq!(args("?q=1").as_deref(), Some("q=1"));
    assert_eq!(argument(b"a=1&B=2&b=3&c", b"b"), Some(&b"2"[..]));
    assert_eq!(argument(b"a=1&c", b"c"), None);
}

#[test]
fn plain_paths_are_borrowed() {
    for target in ["/", "/a/b.html?x", "/a/b../c", "/index.tar.gz#top"] {
        assert!(matches!(normalise(target.as_bytes(), true).unwrap().path, Cow::Borrowed(_)), "{target}");
    }
    assert!(matches!(normalise(b"/a//b", false).unwrap().path, Cow::Borrowed(_)));
}

#[test]
fn extensions() {
    for (path, ext) in [
        ("/a.html", "html"),
        ("/a.tar.gz", "gz"),
        ("/a", ""),
        ("/a.b/c", ""),
        ("/a.", ""),
        ("/.htaccess", ""),
        ("/...a", ""),
        ("/....a", "a"),
        ("/..x.a", "a"),
    ] {
        assert_eq!(extension(path.as_bytes()), ext.as_bytes(), "{path}");
    }
}

/// The sets that nginx uses, byte by byte.
#[test]
fn escape_sets() {
    let escaped = |set: EscapeSet| (0x21..0x7fu8).filter(|&b| set.contains(b)).map(char::from).collect::<String>();
    assert_eq!(escaped(EscapeSet::Uri), "\"#%<>?\\^`{|}");
    assert_eq!(escaped(EscapeSet::Args), "\"#%&+;<>?\\^`{|}");
    for b in (0..=b' ').chain(0x7f..=0xff) {
        assert!(EscapeSet::Args.contains(b) && EscapeSet::Uri.contains(b));
    }
    assert_eq!(&*escape(EscapeSet::Uri, "/a b/é?#%".as_bytes()), b"/a%20b/%C3%A9%3F%23%25");
    assert!(matches!(escape(EscapeSet::Uri, b"/plain"), Cow::Borrowed(_)));
    assert_eq!(&*unescape(b"a%20b%zz%4"), b"a b%zz%4");
}

/// A simple reference: decode everything, then resolve segment by segment.
fn reference(raw: &[u8], merge: bool) -> Option<Vec<u8>> {
    let mut decoded = Vec::new();
    let mut rest = raw;
    while let Some((&b, tail)) = rest.split_first() {
        rest = tail;
        if b == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            if !digits.bytes().all(|d| d.is_ascii_hexdigit()) {
                return None;
            }
            decoded.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            decoded.push(b);
        }
    }
    if decoded.contains(&0) || decoded.first() != Some(&b'/') {
        return None;
    }
    let segments: Vec<&[u8]> = decoded[1..].split(|&b| b == b'/').collect();
    let mut stack: Vec<&[u8]> = Vec::new();
    let last = segments.len() - 1;
    let mut folder = false;
    for (i, segment) in segments.into_iter().enumerate() {
        folder = false;
        match segment {
            b"." => folder = true,
            b".." => {
                stack.pop()?;
                folder = true;
            }
            b"" if i == last => folder = true,
            b"" if merge => {}
            _ => stack.push(segment),
        }
    }
    let mut out = Vec::new();
    for segment in &stack {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if folder || stack.is_empty() {
        out.push(b'/');
    }
    Some(out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn agrees_with_the_reference(
        parts in prop::collection::vec(
            prop::sample::select(vec!["/", "/", "//", ".", "..", "a", "b.c", "%2e", "%2F", "%41", "%00", "%", "%zz", "\u{e9}", "%25"]), 0..14),
        merge: bool,
    ) {
        let text = format!("/{}", parts.concat());
        let got = normalise(text.as_bytes(), merge).ok().map(|u| u.path.into_owned());
        prop_assert_eq!(got, reference(text.as_bytes(), merge), "{}", text);
    }

    #[test]
    fn never_leaves_the_root(raw in prop::collection::vec(prop::sample::select(b"/.%2eEfFa0?#\0\xff\\".to_vec()), 0..40), merge: bool) {
        if let Ok(uri) = normalise(&raw, merge) {
            prop_assert_eq!(uri.path.first(), Some(&b'/'));
            prop_assert!(!uri.path.contains(&0));
            let mut depth = 0i32;
            for segment in uri.path[1..].split(|&b| b == b'/') {
                prop_assert!(segment != b"." && segment != b"..");
                depth += 1;
            }
            prop_assert!(depth > 0);
            // Escaped again, the path normalises to itself.
            let again = escape(EscapeSet::Uri, &uri.path).into_owned();
            prop_assert_eq!(normalise(&again, merge).unwrap().path, uri.path);
        }
    }

    #[test]
    fn any_bytes(raw: Vec<u8>, merge: bool) {
        let _ = normalise(&raw, merge);
        let escaped = escape(EscapeSet::Component, &raw);
        prop_assert_eq!(&*unescape(&escaped), &raw[..]);
    }
}
