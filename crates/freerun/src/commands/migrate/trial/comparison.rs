//! The differences between two answers to the same request.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::Duration;

use freerun_conf::text_of;
use freerun_tls::digest::sha256;
use serde::Serialize;

/// Fields that are not compared, with the reason.
pub const LEFT_OUT: [(&str, &str); 9] = [
    ("Age", "the age of a stored response"),
    ("Connection", "of the connection, not of the response"),
    ("Date", "the time of the answer"),
    ("Keep-Alive", "of the connection, not of the response"),
    ("Server", "the name of the server"),
    ("Transfer-Encoding", "of the connection, not of the response"),
    ("X-Correlation-ID", "made anew for each request"),
    ("X-Request-ID", "made anew for each request"),
    ("X-Runtime", "the time that the application took"),
];

/// Values of fields that say what a cache did (`$upstream_cache_status`): the caches of the two servers have other contents.
const CACHE_WORDS: [&str; 7] = ["MISS", "HIT", "EXPIRED", "STALE", "UPDATING", "REVALIDATED", "BYPASS"];

/// The largest body that is compared, in bytes.
pub const MAX_BODY: usize = 8 << 20;

/// The most bytes of a value that are shown.
const MAX_SHOWN: usize = 120;

/// Bytes in front of the first difference of two bodies that are shown as well.
const CONTEXT: usize = 20;

/// The most fields of one answer that are said to differ.
const MAX_FIELDS: usize = 50;

/// An answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrialAnswer {
    /// The status.
    pub status: u16,
    /// The fields, in their order.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The body; `None` if it was too long to be compared.
    pub body: Option<Vec<u8>>,
    /// The time from the first attempt to connect to the last byte.
    pub time: Duration,
}

/// An answer, or the reason why there is none.
pub type AnswerResult = Result<TrialAnswer, String>;

/// The part of the answers that differs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The answer as a whole: one of the two servers has not answered.
    Answer,
    /// The status.
    Status,
    /// A field, by its name in the case in which it was received.
    Field(String),
    /// The body.
    Body,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The part that differs.
    pub kind: DifferenceKind,
    /// The part in nginx's answer.
    pub nginx: String,
    /// The part in freerun's answer.
    pub freerun: String,
    /// A sentence that says in which way they differ.
    pub reason: String,
}

impl DifferenceKind {
    /// The name of the part.
    pub fn part(&self) -> String {
        match self {
            DifferenceKind::Answer => "answer".to_owned(),
            DifferenceKind::Status => "status".to_owned(),
            DifferenceKind::Field(name) => format!("field {name}"),
            DifferenceKind::Body => "body".to_owned(),
        }
    }
}

/// The addresses that a request was sent to: a server may write its own port into an answer.
#[derive(Debug, Clone, Copy)]
pub struct AskedAddresses {
    /// nginx's address.
    pub nginx: SocketAddr,
    /// The address of the server that is tried.
    pub freerun: SocketAddr,
}

/// The differences between two results. Differences that follow from another one are left out: with another status the body is
/// another one, too.
pub fn compare(nginx: &AnswerResult, freerun: &AnswerResult, addresses: AskedAddresses) -> Vec<Difference> {
    let (ours, theirs) = match (nginx, freerun) {
        (Ok(nginx), Ok(freerun)) => (freerun, nginx),
        (Err(theirs), Err(ours)) if theirs == ours => return Vec::new(),
        (nginx, freerun) => {
            let shown = |result: &AnswerResult| match result {
                Ok(answer) => format!("status {}", answer.status),
                Err(error) => error.clone(),
            };
            let reason = match (nginx, freerun) {
                (Ok(_), _) => "nginx answers, and freerun does not",
                (_, Ok(_)) => "freerun answers, and nginx does not",
                _ => "neither answers, each for another reason",
            };
            return vec![Difference {
                kind: DifferenceKind::Answer,
                nginx: shown(nginx),
                freerun: shown(freerun),
                reason: reason.to_owned(),
            }];
        }
    };
    if theirs.status != ours.status {
        let shown =
            |answer: &TrialAnswer| match answer.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("location")) {
                Some((_, location)) => format!("{} to {}", answer.status, shown(location)),
                None => answer.status.to_string(),
            };
        return vec![Difference {
            kind: DifferenceKind::Status,
            nginx: shown(theirs),
            freerun: shown(ours),
            reason: format!("nginx answers with status {}, freerun with {}", theirs.status, ours.status),
        }];
    }
    let body = compare_bodies(theirs, ours, addresses);
    let mut differences = compare_fields(theirs, ours, addresses, body.is_some());
    differences.extend(body);
    differences
}

fn compare_bodies(theirs: &TrialAnswer, ours: &TrialAnswer, addresses: AskedAddresses) -> Option<Difference> {
    let (their_body, our_body) = match (theirs.body.as_deref(), ours.body.as_deref()) {
        (Some(theirs), Some(ours)) => (theirs, ours),
        // Neither is known; the summary counts such answers.
        (None, None) => return None,
        (theirs, ours) => {
            let length = |body: Option<&[u8]>| match body {
                Some(body) => format!("{} bytes", body.len()),
                None => format!("more than {MAX_BODY} bytes"),
            };
            let longer = if theirs.is_none() { "nginx's" } else { "freerun's" };
            return Some(Difference {
                kind: DifferenceKind::Body,
                nginx: length(theirs),
                freerun: length(ours),
                reason: format!("{longer} body is longer, and too long to be compared"),
            });
        }
    };
    if is_same(their_body, our_body, addresses) {
        return None;
    }
    let (their_page, our_page) = (without_signature(their_body), without_signature(our_body));
    if is_same(&their_page, &our_page, addresses) {
        return None;
    }
    let pairs = their_page.iter().zip(our_page.iter());
    let at = pairs.take_while(|(one, other)| one == other).count();
    let describe = |body: &[u8]| {
        let from = at.saturating_sub(CONTEXT).min(body.len());
        let digest = digest(body);
        format!("{} bytes, SHA-256 {digest}…, from byte {from}: {}", body.len(), shown(&body[from..]))
    };
    let reason = match (their_page.len(), our_page.len()) {
        (theirs, ours) if theirs == ours => format!("the bodies are as long, and differ from byte {at} on"),
        (theirs, ours) => {
            let (count, how) = (ours.abs_diff(theirs), if ours > theirs { "longer" } else { "shorter" });
            let unit = if count == 1 { "byte" } else { "bytes" };
            format!("freerun's body is {count} {unit} {how}; they differ from byte {at} on")
        }
    };
    Some(Difference { kind: DifferenceKind::Body, nginx: describe(&their_page), freerun: describe(&our_page), reason })
}

/// The first bytes of the SHA-256 of a body, as sha256sum(1) prints them.
fn digest(body: &[u8]) -> String {
    sha256(body).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A page that a server has made itself, without the name of the server under its rule.
fn without_signature(body: &[u8]) -> Cow<'_, [u8]> {
    const BEGIN: &[u8] = b"<hr><center>";
    let Some(begin) = body.windows(BEGIN.len()).rposition(|window| window == BEGIN) else { return Cow::Borrowed(body) };
    let name = &body[begin + BEGIN.len()..];
    let Some(end) = name.iter().position(|byte| *byte == b'<') else { return Cow::Borrowed(body) };
    if !name.starts_with(b"nginx") && !name.starts_with(b"freerun") {
        return Cow::Borrowed(body);
    }
    Cow::Owned([&body[..begin + BEGIN.len()], &name[end..]].concat())
}

fn compare_fields(
    theirs: &TrialAnswer,
    ours: &TrialAnswer,
    addresses: AskedAddresses,
    has_other_body: bool,
) -> Vec<Difference> {
    // The answer to HEAD does not show whether its page is the server's own; a redirect or an error most likely has such a page.
    let is_generated = theirs.body.as_deref().is_some_and(|body| match body {
        [] => theirs.status >= 300,
        body => without_signature(body).len() != body.len(),
    });
    let left_out = |name: &str| {
        LEFT_OUT.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
            // The length follows from the body, and from the name of the server in its own pages.
            || (has_other_body || is_generated) && name.eq_ignore_ascii_case("content-length")
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in theirs.fields.iter().chain(&ours.fields) {
        if !left_out(name) && !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    let values = |answer: &TrialAnswer, name: &str| -> Vec<Vec<u8>> {
        let all = answer.fields.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        all.map(|(_, value)| value.clone()).collect()
    };
    let mut differences = Vec::new();
    for name in names {
        let (their_values, our_values) = (values(theirs, name), values(ours, name));
        let pairs = || their_values.iter().zip(&our_values);
        let is_word = |value: &[u8]| CACHE_WORDS.iter().any(|word| word.as_bytes() == value);
        let same =
            |(one, other): (&Vec<u8>, &Vec<u8>)| is_same(one, other, addresses) || is_word(one) && is_word(other);
        if their_values.len() == our_values.len() && pairs().all(same) {
            continue;
        }
        let shown_values = |values: &[Vec<u8>]| match values {
            [] => "absent".to_owned(),
            values => shown(&values.join(&b", "[..])),
        };
        let reason = match (their_values.len(), our_values.len()) {
            (_, 0) => "nginx sends this field, and freerun does not".to_owned(),
            (0, _) => "freerun sends this field, and nginx does not".to_owned(),
            (1, 1) => "the field has another value".to_owned(),
            (theirs, ours) if theirs == ours => "one of the fields has another value".to_owned(),
            (theirs, ours) => format!("nginx sends this field {theirs} times, freerun {ours} times"),
        };
        differences.push(Difference {
            // The name is the servers' own choice, too.
            kind: DifferenceKind::Field(shown(name.as_bytes())),
            reason,
            nginx: shown_values(&their_values),
            freerun: shown_values(&our_values),
        });
        if differences.len() >= MAX_FIELDS {
            break;
        }
    }
    differences
}

/// Whether two texts are the same but for the ports of the servers. nginx leaves out the usual port of a scheme, and the server
/// that is tried has another port.
fn is_same(theirs: &[u8], ours: &[u8], addresses: AskedAddresses) -> bool {
    if theirs == ours {
        return true;
    }
    let own = addresses.freerun.port().to_string();
    let with_colon = format!(":{own}");
    if addresses.nginx == addresses.freerun || !contains(ours, own.as_bytes()) {
        return false;
    }
    let nginx = addresses.nginx.port().to_string();
    let without_port = replace(ours, with_colon.as_bytes(), b"");
    replace(&without_port, own.as_bytes(), nginx.as_bytes()) == theirs
        || replace(ours, own.as_bytes(), nginx.as_bytes()) == theirs
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The text with another one instead of `from`, a number or a colon with a number, wherever no digit of a longer number is beside it.
fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let begins_with_digit = is_digit(from.first());
    let (mut replaced, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        if rest.starts_with(from) && !(begins_with_digit && is_digit(before)) && !is_digit(rest.get(from.len())) {
            replaced.extend_from_slice(to);
            at += from.len();
        } else {
            replaced.push(rest[0]);
            at += 1;
        }
    }
    replaced
}

/// The beginning of a text, as it can be printed on one line.
fn shown(text: &[u8]) -> String {
    let mut shown = String::new();
    let begin = text_of(&text[..text.len().min(MAX_SHOWN * 4)]);
    let mut letters = begin.chars();
    for letter in letters.by_ref().take(MAX_SHOWN) {
        match freerun_conf::byte_of(letter) {
            Some(byte) => shown += &format!("\\x{byte:02x}"),
            None if letter.is_control() => shown.extend(letter.escape_default()),
            None => shown.push(letter),
        }
    }
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> TrialAnswer {
        let field = |(name, value): &(&str, &str)| ((*name).to_owned(), value.as_bytes().to_vec());
        TrialAnswer {
            status,
            fields: fields.iter().map(field).collect(),
            body: Some(body.as_bytes().to_vec()),
            time: Duration::ZERO,
        }
    }

    fn addresses() -> AskedAddresses {
        AskedAddresses {
            nginx: "127.0.0.1:80".parse().expect("an address"),
            freerun: "127.0.0.1:45678".parse().expect("an address"),
        }
    }

    fn differences(nginx: TrialAnswer, freerun: TrialAnswer) -> Vec<DifferenceKind> {
        compare(&Ok(nginx), &Ok(freerun), addresses()).into_iter().map(|difference| difference.kind).collect()
    }

    #[test]
    fn what_always_differs_is_left_out() {
        let page = |name: &str| format!("<html>\r\n<hr><center>{name}</center>\r\n</html>\r\n");
        let nginx = answer(
            404,
            &[("Server", "nginx/1.22.1"), ("Date", "a"), ("Content-Length", "9"), ("X-Cache", "HIT"), ("A", "b")],
            &page("nginx/1.22.1"),
        );
        let freerun = answer(
            404,
            &[("a", "b"), ("Server", "freerun"), ("Date", "c"), ("Content-Length", "8"), ("X-Cache", "MISS")],
            &page("freerun/0.2.0"),
        );
        assert_eq!(differences(nginx, freerun), []);
        let of_head = |length: &str| answer(404, &[("Content-Length", length)], "");
        assert_eq!(differences(of_head("153"), of_head("154")), []);
    }

    #[test]
    fn each_part_that_differs_is_found() {
        let field = |name: &str| DifferenceKind::Field(name.to_owned());
        let of = |fields: &[(&str, &str)], body: &str| answer(200, fields, body);
        assert_eq!(differences(of(&[("A", "1")], "x"), of(&[("A", "2"), ("B", "3")], "x")), [field("A"), field("B")]);
        assert_eq!(differences(of(&[("A", "1"), ("A", "2")], ""), of(&[("A", "1")], "")), [field("A")]);
        let (long, short) = (of(&[("Content-Length", "2")], "xy"), of(&[("Content-Length", "1")], "x"));
        assert_eq!(differences(long, short), [DifferenceKind::Body]);
        assert_eq!(differences(answer(200, &[], "a"), answer(500, &[("B", "c")], "d")), [DifferenceKind::Status]);
        let failed = compare(&Ok(answer(200, &[], "")), &Err("refused".to_owned()), addresses());
        assert_eq!((failed[0].nginx.as_str(), failed[0].freerun.as_str()), ("status 200", "refused"));
    }

    #[test]
    fn a_body_shows_where_it_begins_to_differ() {
        let body = |end: &str| answer(200, &[], &format!("{}\n{end}", "a".repeat(30)));
        let found = compare(&Ok(body("one")), &Ok(body("other")), addresses());
        let end = |text: &str, part: &str| assert!(text.ends_with(part), "{text}");
        end(&found[0].nginx, "from byte 12: aaaaaaaaaaaaaaaaaa\\none");
        end(&found[0].freerun, "from byte 12: aaaaaaaaaaaaaaaaaa\\nother");
    }

    #[test]
    fn the_port_of_the_trial_stands_for_the_real_one() {
        for (theirs, ours, same) in [
            ("http://a/b/", "http://a:45678/b/", true),
            ("http://127.0.0.1/b/", "http://127.0.0.1:45678/b/", true),
            ("http://a:80/b/", "http://a:45678/b/", true),
            ("port 80", "port 45678", true),
            ("port 80", "port 145678", false),
            ("port 81", "port 45678", false),
            ("http://a/b/ 80", "http://a:45678/b/ 45678", true),
        ] {
            assert_eq!(is_same(theirs.as_bytes(), ours.as_bytes(), addresses()), same, "{theirs} {ours}");
        }
    }

    #[test]
    fn texts_are_shown_on_one_line() {
        assert_eq!(shown(b"a\r\n\xffb\xc3\xa9"), "a\\r\\n\\xffb\u{e9}");
        assert_eq!(shown(&[b'a'; 500]).chars().count(), MAX_SHOWN + 1);
    }

    #[test]
    fn errors_and_bodies_that_are_unknown_are_not_the_same_as_known_ones() {
        let failed = |words: &str| Err(words.to_owned());
        let reason = |nginx: &AnswerResult, freerun: &AnswerResult| {
            compare(nginx, freerun, addresses()).first().map(|difference| difference.reason.clone())
        };
        let found = reason(&failed("closed"), &failed("too late"));
        assert_eq!(found.as_deref(), Some("neither answers, each for another reason"));
        assert_eq!(reason(&failed("closed"), &failed("closed")), None);
        let body = |body: Option<&str>| Ok(TrialAnswer { body: body.map(Into::into), ..answer(200, &[], "") });
        assert_eq!(
            reason(&body(None), &body(Some("a"))).as_deref(),
            Some("nginx's body is longer, and too long to be compared")
        );
        assert_eq!(
            reason(&body(Some("a")), &body(None)).as_deref(),
            Some("freerun's body is longer, and too long to be compared")
        );
        assert_eq!(reason(&body(None), &body(None)), None);
    }

    #[test]
    fn each_difference_says_in_which_way_the_answers_differ() {
        let of = |fields: &[(&str, &str)], body: &str| answer(200, fields, body);
        for (nginx, freerun, expected) in [
            (of(&[("A", "1")], ""), of(&[], ""), "nginx sends this field, and freerun does not"),
            (of(&[], ""), of(&[("A", "1")], ""), "freerun sends this field, and nginx does not"),
            (of(&[("A", "1")], ""), of(&[("A", "2")], ""), "the field has another value"),
            (
                of(&[("A", "1"), ("A", "2")], ""),
                of(&[("A", "1")], ""),
                "nginx sends this field 2 times, freerun 1 times",
            ),
            (of(&[], "abc"), of(&[], "abd"), "the bodies are as long, and differ from byte 2 on"),
            (of(&[], "abc"), of(&[], "ab"), "freerun's body is 1 byte shorter; they differ from byte 2 on"),
            (of(&[], "a"), of(&[], "abc"), "freerun's body is 2 bytes longer; they differ from byte 1 on"),
            (answer(200, &[], ""), answer(404, &[], ""), "nginx answers with status 200, freerun with 404"),
        ] {
            let found = compare(&Ok(nginx), &Ok(freerun), addresses());
            assert_eq!(found[0].reason, expected);
        }
        let long = "N".repeat(10_000);
        let found = compare(&Ok(of(&[(&long, "")], "")), &Ok(of(&[], "")), addresses());
        assert!(found[0].kind.part().len() < 200);
    }
}
