//! Texts with variables: `http://$host/x`.

use freerun_conf::{Node, Word};

use super::blocks::BlockTree;
use freerun_conf::expression::{ByteSet, Expression};

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextPart<'t> {
    /// Text as it is.
    Plain(&'t str),
    /// The name of a variable.
    Variable(&'t str),
}

/// The parts of a text.
pub fn parts(text: &str) -> Vec<TextPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let behind = &rest[at + 1..];
        let (name, length) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let mut length = behind.find(|letter| !is_name(letter)).unwrap_or(behind.len());
                // The variable of a capture has one digit.
                if behind.starts_with(|letter: char| letter.is_ascii_digit()) {
                    length = 1;
                }
                (&behind[..length], length)
            }
        };
        if at > 0 {
            parts.push(TextPart::Plain(&rest[..at]));
        }
        if name.is_empty() {
            parts.push(TextPart::Plain("$"));
        } else {
            parts.push(TextPart::Variable(name));
        }
        rest = &behind[length..];
    }
    if !rest.is_empty() {
        parts.push(TextPart::Plain(rest));
    }
    parts
}

/// The variables of a text.
pub fn variables(text: &str) -> impl Iterator<Item = &str> {
    parts(text).into_iter().filter_map(|part| match part {
        TextPart::Variable(name) => Some(name),
        TextPart::Plain(_) => None,
    })
}

/// The deepest chain of variables that are made of others.
const MAX_DEPTH: usize = 8;

/// The question whether a value has a property, which is asked of the variables that nothing in the configuration makes, and of
/// the groups of expressions.
pub struct ValueQuestion<'q> {
    /// The answer for a variable of the server.
    pub variable: &'q dyn Fn(&str) -> bool,
    /// The answer for a group of an expression that matches the path: the bytes that it may match.
    pub group: &'q dyn Fn(&ByteSet) -> bool,
}

impl BlockTree<'_> {
    /// The first variable of a text, as it is used in a block, for which the answer is yes. A variable that `set`, `map` or an
    /// expression makes of others is judged by these.
    pub fn find_variable<'x>(&self, at: usize, text: &'x str, question: &ValueQuestion<'_>) -> Option<&'x str> {
        variables(text).find(|name| self.answer(at, name, question, 0))
    }

    fn answer(&self, at: usize, name: &str, question: &ValueQuestion<'_>, depth: usize) -> bool {
        if depth > MAX_DEPTH {
            return false;
        }
        let made =
            |text: &str| variables(text).any(|inner| inner != name && self.answer(at, inner, question, depth + 1));
        if let Some(bytes) = self.captured(at, name) {
            return (question.group)(&bytes);
        }
        let values: Vec<&str> = self.set_values(at, name).collect();
        if !values.is_empty() {
            return values.iter().any(|value| made(value));
        }
        match self.map_of(name) {
            Some(map) => map.children().iter().any(|entry| {
                let is_pattern = entry.name.text.starts_with('~');
                // Its own expressions have groups, which are parts of the value that it looks at.
                entry
                    .arg(0)
                    .is_some_and(|value| variables(value).any(|inner| !(is_pattern && is_number(inner)) && made(value)))
            }),
            None => (question.variable)(name),
        }
    }

    /// The bytes that the group of a variable may match, if an expression around a block has such a group.
    fn captured(&self, at: usize, name: &str) -> Option<ByteSet> {
        self.around(at).find_map(|block| {
            let rewritten = self.own(block, "rewrite").rev();
            let own = self.blocks[block].node.and_then(expression);
            let expressions = rewritten.filter_map(|node| node.arg(0)).chain(own.iter().copied());
            expressions.filter_map(|text| Expression::parse(text, false)).find_map(|pattern| pattern.group(name))
        })
    }
}

fn is_number(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_digit())
}

/// The expression of a `location`, an `if` or a `server_name` that matches the path.
fn expression(node: &Node) -> Option<&str> {
    match (node.name.text.as_str(), node.args.as_slice()) {
        ("location", [sign, pattern]) if sign.text.starts_with('~') => Some(&pattern.text),
        ("if", _) => {
            let condition = comparison(node)?;
            (!condition.is_negated && is_decoded(condition.variable)).then_some(condition.text)
        }
        _ => None,
    }
}

/// The comparison of a variable with an expression, in an `if`.
pub struct PatternComparison<'t> {
    /// The variable, without its `$`.
    pub variable: &'t str,
    /// Whether it must not fit.
    pub is_negated: bool,
    /// The word with the expression.
    pub word: &'t Word,
    /// The expression.
    pub text: &'t str,
}

/// The comparison with an expression that is the condition of an `if`.
pub fn comparison(node: &Node) -> Option<PatternComparison<'_>> {
    // The bracket behind a word in quotes is a word of its own.
    let ([source, sign, word] | [source, sign, word, _]) = node.args.as_slice() else { return None };
    let is_condition = node.name.text == "if" && sign.text.trim_start_matches('!').starts_with('~');
    let text = if node.args.len() == 3 { word.text.strip_suffix(')').unwrap_or(&word.text) } else { &word.text };
    is_condition.then(|| PatternComparison {
        variable: source.text.trim_start_matches(['(', '$']),
        is_negated: sign.text.starts_with('!'),
        word,
        text,
    })
}

/// Whether a variable has the path after its escapes were resolved.
pub fn is_decoded(name: &str) -> bool {
    matches!(name, "uri" | "document_uri")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_parts() {
        use TextPart::{Plain, Variable};
        assert_eq!(
            parts("http://${host}:$1x$a_b/"),
            [Plain("http://"), Variable("host"), Plain(":"), Variable("1"), Plain("x"), Variable("a_b"), Plain("/")]
        );
        assert_eq!(parts("a$"), [Plain("a"), Plain("$")]);
    }
}
