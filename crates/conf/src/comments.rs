//! The comments of a configuration text, which the parser passes over.

use crate::lexer::{Lexer, Token};
use crate::octets::text_of;
use crate::place::Place;

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// The place of it, from its `#` to the end of the line.
    pub place: Place,
    /// The text behind the `#`, without white space around it.
    pub text: String,
    /// Whether no directive, and no part of one, stands before it on its line.
    pub is_alone: bool,
    /// Whether no directive stands before it in its text.
    pub is_in_head: bool,
}

/// The comments of a text, up to its first error. `file` is the index for their places.
pub fn comments(text: &[u8], file: u32) -> Vec<Comment> {
    let mut lexer = Lexer::new(text, file);
    let mut found = Vec::new();
    let mut last_line = 0;
    loop {
        let token = lexer.next();
        found.extend(lexer.comments.drain(..).map(|(place, bytes)| Comment {
            place,
            text: text_of(&bytes[1..]).trim().to_owned(),
            is_alone: place.line != last_line,
            is_in_head: last_line == 0,
        }));
        last_line = match token {
            Ok(Token::Word(word)) => word.last_line(),
            Ok(Token::End(place) | Token::Open(place) | Token::Close(place)) => place.line,
            Ok(Token::Eof(_)) | Err(_) => return found,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_has_its_place_and_its_surroundings() {
        let text = b"# head\n\n#  second \nhttp { # behind\n  # alone\n a '#no' b#no; # end\r\n}";
        let found = comments(text, 3);
        let seen: Vec<_> = found
            .iter()
            .map(|comment| (comment.place.line, comment.text.as_str(), comment.is_alone, comment.is_in_head))
            .collect();
        let expected = [
            (1, "head", true, true),
            (3, "second", true, true),
            (4, "behind", false, false),
            (5, "alone", true, false),
            (6, "end", false, false),
        ];
        assert_eq!(seen, expected);
        assert_eq!((found[2].place.file, found[2].place.column), (3, 8));
        assert!(comments(b"a 'open # no", 0).is_empty());
    }
}
