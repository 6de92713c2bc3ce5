//! The tests of a `match` block on the response to a health check.

use freerun_conf::{Cx, Node, Problem, Shape, Word, bytes_of};
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::request::response::Field;
use freerun_http::template::Template;
use freerun_http::variables::VariableTable;
use freerun_serve::upstream::health::MatchBlock;

/// The tests of a `match` block.
#[derive(Debug)]
pub struct MatchTests {
    tests: Vec<Test>,
}

#[derive(Debug)]
enum Test {
    /// The status is in one of these ranges, or in none of them.
    Status(bool, Vec<(u16, u16)>),
    Header(String, FieldCondition),
    Body(bool, Pattern),
    Require(Vec<Template>),
}

/// The condition on a field.
#[derive(Debug)]
enum FieldCondition {
    There,
    Missing,
    Is(bool, String),
    Matches(bool, Pattern),
}

/// The response of a server, as far as it was read.
#[derive(Debug, Clone, Copy)]
pub struct CheckAnswer<'a> {
    /// The status.
    pub status: u16,
    /// The fields of its head.
    pub fields: &'a [Field],
    /// The beginning of its body.
    pub body: &'a [u8],
}

impl MatchBlock for MatchTests {
    const SHAPE: Shape = Shape::exactly(1, "name { test; … }").with_raw_block();

    fn parse(directive: &Node, cx: &mut Cx) -> Result<MatchTests, Problem> {
        let tests = directive.children().iter().map(|node| test(node, cx));
        Ok(MatchTests { tests: tests.collect::<Result<_, _>>()? })
    }
}

impl MatchTests {
    /// Whether the tests need the body.
    pub fn needs_body(&self) -> bool {
        self.tests.iter().any(|test| matches!(test, Test::Body(..)))
    }

    /// The test that the answer fails, as the text for the log; `None` if it passes all.
    pub fn refuses(&self, answer: &CheckAnswer<'_>, request: &Request) -> Option<&'static str> {
        self.tests.iter().find_map(|test| test.refuses(answer, request))
    }
}

fn test(node: &Node, cx: &mut Cx) -> Result<Test, Problem> {
    let words = &*node.args;
    let invalid = |word: &Word| Problem::invalid_parameter(node, word);
    let few = || Problem::wrong_count(node);
    let pattern = |word: &Word, caseless: bool, cx: &mut Cx| {
        let pattern = Pattern::new(&word.text, caseless, cx.extensions.get_or_default::<VariableTable>());
        pattern.map_err(|why| Problem::new(why).at(word.place))
    };
    // The `!` stands alone, as nginx's documentation writes it.
    let (not, rest) = match words {
        [word, rest @ ..] if word.text == "!" => (true, rest),
        all => (false, all),
    };
    match node.name.text.as_str() {
        "status" => {
            if rest.is_empty() {
                return Err(few());
            }
            let ranges: Result<Vec<(u16, u16)>, Problem> =
                rest.iter().map(|word| range(&word.text).ok_or_else(|| invalid(word))).collect();
            Ok(Test::Status(not, ranges?))
        }
        "header" => match rest {
            [name] => {
                Ok(Test::Header(name.text.clone(), if not { FieldCondition::Missing } else { FieldCondition::There }))
            }
            [name, operator, value] if !not => {
                let wanted = match operator.text.as_str() {
                    "=" => FieldCondition::Is(true, value.text.clone()),
                    "!=" => FieldCondition::Is(false, value.text.clone()),
                    "~" | "~*" => FieldCondition::Matches(true, pattern(value, operator.text.ends_with('*'), cx)?),
                    "!~" | "!~*" => FieldCondition::Matches(false, pattern(value, operator.text.ends_with('*'), cx)?),
                    _ => return Err(invalid(operator)),
                };
                Ok(Test::Header(name.text.clone(), wanted))
            }
            _ => Err(few()),
        },
        "body" => match words {
            [operator, value] => match operator.text.as_str() {
                "~" | "~*" => Ok(Test::Body(true, pattern(value, operator.text.ends_with('*'), cx)?)),
                "!~" | "!~*" => Ok(Test::Body(false, pattern(value, operator.text.ends_with('*'), cx)?)),
                _ => Err(invalid(operator)),
            },
            _ => Err(few()),
        },
        "require" => {
            if words.is_empty() {
                return Err(few());
            }
            let all: Result<Vec<Template>, Problem> = words
                .iter()
                .map(|word| if word.text.starts_with('$') { Template::parse(word, cx) } else { Err(invalid(word)) })
                .collect();
            Ok(Test::Require(all?))
        }
        name => Err(Problem::new(format!("unknown directive \"{name}\"")).at_node(node)),
    }
}

/// Parses `200`, or `200-399`.
fn range(text: &str) -> Option<(u16, u16)> {
    let status = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    match text.split_once('-') {
        None => status(text).map(|only| (only, only)),
        Some((first, last)) => Some((status(first)?, status(last)?)).filter(|(first, last)| first <= last),
    }
}

impl Test {
    fn refuses(&self, answer: &CheckAnswer<'_>, request: &Request) -> Option<&'static str> {
        match self {
            Test::Status(not, ranges) => {
                let within = ranges.iter().any(|&(first, last)| (first..=last).contains(&answer.status));
                (within == *not).then_some("checking status code")
            }
            Test::Header(name, wanted) => (!wanted.found(name, answer.fields)).then_some("checking header"),
            Test::Body(wanted, pattern) => {
                // A match that was given up does not count.
                let found = pattern.is_match(answer.body).unwrap_or(false);
                (found != *wanted).then_some("checking response body")
            }
            Test::Require(all) => {
                let refuse = all.iter().any(|value| matches!(&*value.render(request), b"" | b"0"));
                refuse.then_some("checking variables")
            }
        }
    }
}

impl FieldCondition {
    fn found(&self, name: &str, fields: &[Field]) -> bool {
        let mut values =
            fields.iter().filter(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value);
        match self {
            FieldCondition::There => values.next().is_some(),
            FieldCondition::Missing => values.next().is_none(),
            FieldCondition::Is(same, text) => values.any(|value| (*value.as_ref() == *bytes_of(text)) == *same),
            FieldCondition::Matches(same, pattern) => {
                values.any(|value| pattern.is_match(value).unwrap_or(false) == *same)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_or_ranges() {
        let cases = [("200", Some((200, 200))), ("200-399", Some((200, 399))), ("301-300", None)];
        for (text, wanted) in cases {
            assert_eq!(range(text), wanted, "{text}");
        }
        for text in ["", "20", "2000", "x", "200-", "-200", "+20"] {
            assert_eq!(range(text), None, "{text}");
        }
    }

    #[test]
    fn fields_are_found_in_any_case() {
        let fields = [
            ("Content-Type".into(), "text/html".into()),
            ("set-cookie".into(), "a".into()),
            ("Set-Cookie".into(), "b".into()),
        ];
        let pattern = |text: &str| Pattern::new(text, false, &mut VariableTable::default()).unwrap();
        let is = |same, text: &str| FieldCondition::Is(same, text.to_owned());
        let cases = [
            ("content-type", FieldCondition::There, true),
            ("Host", FieldCondition::There, false),
            ("Host", FieldCondition::Missing, true),
            ("Content-Type", is(true, "text/html"), true),
            ("Content-Type", is(true, "text"), false),
            ("Content-Type", is(false, "text"), true),
            // The field has to be there to have another value.
            ("Host", is(false, "text"), false),
            ("Set-Cookie", is(true, "b"), true),
            ("Content-Type", FieldCondition::Matches(true, pattern("^text/")), true),
            ("Content-Type", FieldCondition::Matches(false, pattern("^text/")), false),
        ];
        for (name, wanted, found) in cases {
            assert_eq!(wanted.found(name, &fields), found, "{name} {wanted:?}");
        }
    }
}
