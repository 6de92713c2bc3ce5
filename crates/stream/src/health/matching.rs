//! A `match` block of stream: what is sent to a server, and what is expected from it.

use freerun_conf::{Cx, Node, Problem, Shape, Word};
use freerun_serve::upstream::health::MatchBlock;
use freerun_serve::values::{Pattern, VariableTable};

use crate::session::Session;

/// A `match` block.
#[derive(Debug, Default)]
pub struct Match {
    /// The bytes to send.
    pub send: Vec<u8>,
    expect: Option<ExpectedBytes>,
}

#[derive(Debug)]
enum ExpectedBytes {
    Text(Vec<u8>),
    Pattern(Pattern),
}

impl MatchBlock for Match {
    const SHAPE: Shape = Shape::exactly(1, "name { send …; expect …; }").with_raw_block();

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Match, Problem> {
        let mut all = Match::default();
        for node in directive.children() {
            match (node.name.text.as_str(), &*node.args) {
                ("send", [word]) => all.send = bytes(word)?,
                ("expect", [word]) => all.expect = Some(ExpectedBytes::Text(bytes(word)?)),
                ("expect", [operator, word]) if matches!(operator.text.as_str(), "~" | "~*") => {
                    let caseless = operator.text == "~*";
                    let table = cx.extensions.get_or_default::<VariableTable<Session>>();
                    let pattern = Pattern::new(&word.text, caseless, table);
                    all.expect = Some(ExpectedBytes::Pattern(pattern.map_err(|why| Problem::new(why).at(word.place))?));
                }
                ("expect", [operator, _]) => return Err(Problem::invalid_parameter(node, operator)),
                ("send" | "expect", _) => return Err(Problem::wrong_count(node)),
                (name, _) => return Err(Problem::new(format!("unknown directive \"{name}\"")).at_node(node)),
            }
        }
        Ok(all)
    }
}

impl Match {
    /// Whether nothing is to be sent.
    pub fn sends_nothing(&self) -> bool {
        self.send.is_empty()
    }

    /// Whether what has come so far is what is expected.
    pub fn is_met(&self, received: &[u8]) -> bool {
        match &self.expect {
            None => true,
            Some(ExpectedBytes::Text(text)) => text.is_empty() || received.windows(text.len()).any(|part| part == text),
            // A match that was given up does not count.
            Some(ExpectedBytes::Pattern(pattern)) => pattern.is_match(received).unwrap_or(false),
        }
    }
}

/// The bytes of a text in which `\x0d` stands for the byte with this number.
fn bytes(word: &Word) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::with_capacity(word.text.len());
    let text = word.bytes();
    let mut rest = &*text;
    while let [byte, behind @ ..] = rest {
        rest = behind;
        if *byte == b'\\' && behind.first() == Some(&b'x') {
            let digits = behind.get(1..3).and_then(|digits| std::str::from_utf8(digits).ok());
            let number = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
            let number = number.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            out.push(number.ok_or_else(|| {
                Problem::new(format!("invalid hexadecimal literal in \"{}\"", word.text)).at(word.place)
            })?);
            rest = &behind[3..];
        } else {
            out.push(*byte);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expecting(expect: ExpectedBytes) -> Match {
        Match { expect: Some(expect), ..Match::default() }
    }

    #[test]
    fn texts_may_come_anywhere_and_expressions_match() {
        let text = expecting(ExpectedBytes::Text(b"PONG".to_vec()));
        assert!(text.is_met(b"+PONG\r\n") && text.is_met(b"PONG") && !text.is_met(b"+PON") && !text.is_met(b""));
        let pattern = Pattern::new("^220 .* ESMTP", false, &mut VariableTable::<Session>::default()).unwrap();
        let pattern = expecting(ExpectedBytes::Pattern(pattern));
        assert!(pattern.is_met(b"220 mail.test ESMTP Postfix\r\n") && !pattern.is_met(b"421 mail.test ESMTP\r\n"));
        let nothing = Match::default();
        assert!(nothing.is_met(b""));
    }
}
