//! Text that looks right and is not: what word processors, web pages and templates leave in a configuration.

use crate::octets::text_of;
use crate::place::{Place, Sources};

/// Quotes of word processors.
const QUOTES: &[char] = &['“', '”', '„', '‟', '‘', '’', '‚', '‛', '«', '»'];

/// Letters that look like a space, or like nothing.
const BLANKS: &[char] = &['\u{a0}', '\u{202f}', '\u{2007}', '\u{200b}', '\u{2060}', '\u{3000}'];

/// The words between which a template has what is filled in.
const TEMPLATES: &[(&str, &str)] = &[("{{", "}}"), ("<%", "%>"), ("{%", "%}")];

/// The possible fault of the text of a problem at `place`, whatever the problem is: it may only follow from this fault.
pub fn help(sources: &Sources, place: Place) -> Option<String> {
    let line = sources.line(place)?;
    let start = (place.column.saturating_sub(1) as usize).min(line.len());
    let end = start.saturating_add(place.width as usize).min(line.len());
    let word = text_of(&line[start..end]);
    // The directive begins behind the sign that ends the one before.
    let begin = line[..start].iter().rposition(|byte| matches!(byte, b';' | b'{' | b'}')).map_or(0, |at| at + 1);
    let directive = text_of(&line[begin..]);
    if let Some(blank) = word.chars().find(|letter| BLANKS.contains(letter)) {
        return Some(format!(
            "the word has the letter U+{:04X} in it, which only looks like a space: type a space instead",
            u32::from(blank)
        ));
    }
    if let Some(quote) = unquoted(&directive).find(|letter| QUOTES.contains(letter)) {
        return Some(format!("{quote} is a letter like any other here: quotes are \" and '"));
    }
    let is_template =
        |(open, close): &(&str, &str)| text_of(line).split_once(open).is_some_and(|(_, rest)| rest.contains(close));
    (TEMPLATES.iter().any(is_template) || has_environment(&word)).then(|| {
        "this looks like a template that nobody has filled in: run the program that does it (envsubst, for example) first"
            .to_owned()
    })
}

/// Whether the problems at two places of a line have the same text as their reason.
pub fn is_one(sources: &Sources, one: Option<Place>, other: Option<Place>) -> bool {
    let Some((one, other)) = one.zip(other) else { return false };
    // The line is looked for from the beginning of its file, so this is asked last.
    (one.file, one.line) == (other.file, other.line)
        && help(sources, one).is_some_and(|reason| help(sources, other) == Some(reason))
}

/// The letters of a directive that are not between quotes.
fn unquoted(text: &str) -> impl Iterator<Item = char> {
    let mut quote = None;
    text.chars().take_while(|letter| *letter != ';').filter(move |letter| match quote {
        Some(open) => {
            if *letter == open {
                quote = None;
            }
            false
        }
        None if matches!(letter, '"' | '\'') => {
            quote = Some(*letter);
            false
        }
        None => true,
    })
}

/// Whether a word has a variable of the environment, `${NAME}`: its name is in capitals, and nginx's never are.
fn has_environment(word: &str) -> bool {
    word.split("${").skip(1).filter_map(|rest| rest.split_once('}')).any(|(name, _)| {
        let is_capital = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        name.bytes().all(is_capital) && name.bytes().any(|byte| byte.is_ascii_uppercase())
    })
}

/// The place within `place` that a message is about, if the message quotes a variable or a regular expression. This has
/// to be a part of the word there, or stand behind it on the line.
pub fn narrowed(sources: &Sources, place: Place, message: &str) -> Place {
    let Some(line) = sources.line(place) else { return place };
    let start = (place.column.saturating_sub(1) as usize).min(line.len());
    let rest = &line[start..];
    let found = quoted_variable(message)
        .and_then(|name| {
            let candidates = [format!("${{{name}}}"), format!("${name}")];
            candidates.into_iter().find_map(|text| Some((position(rest, text.as_bytes())?, text.len())))
        })
        .or_else(|| {
            let expression = quoted_expression(message)?;
            Some((position(rest, expression.as_bytes())?, expression.len()))
        });
    match found {
        Some((at, width)) => {
            let offset = u32::try_from(at).unwrap_or_default();
            Place { column: place.column.saturating_add(offset), width: u32::try_from(width).unwrap_or(1), ..place }
        }
        None => place,
    }
}

/// The name in nginx's `unknown "x" variable`.
fn quoted_variable(message: &str) -> Option<&str> {
    message.strip_prefix("unknown \"")?.strip_suffix("\" variable")
}

/// The expression in nginx's `pcre2_compile() failed: … in "x" at "y"`.
fn quoted_expression(message: &str) -> Option<&str> {
    let (_, rest) = message.strip_prefix("pcre2_compile() failed: ")?.split_once(" in \"")?;
    let expression = rest.rsplit_once("\" at \"").map_or(rest, |(expression, _)| expression);
    Some(expression.strip_suffix('"').unwrap_or(expression))
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    (!part.is_empty()).then(|| text.windows(part.len()).position(|window| window == part))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::OneText;

    /// The help for the first word of a directive, or for its argument with this number.
    fn helped(text: &str, word: usize) -> Option<String> {
        let tree = crate::parse("x", None, "", &mut OneText(text));
        let node = &tree.nodes[0];
        help(&tree.sources, word.checked_sub(1).map_or(node.name.place, |arg| node.args[arg].place))
    }

    #[test]
    fn letters_that_look_like_others_are_told() {
        assert!(helped("listen\u{a0}80;", 0).unwrap().contains("U+00A0"));
        assert!(helped("root\u{200b} /srv;", 0).unwrap().contains("U+200B"));
        assert!(helped("add_header A “b c”;", 0).unwrap().starts_with('“'));
        assert_eq!(helped("add_header A \"“b c”\" d e f;", 0), None, "quotes may stand between quotes");
        assert_eq!(helped("listen 80;", 0), None);
    }

    #[test]
    fn templates_are_told() {
        for (text, word) in [("listen ${PORT};", 1), ("server_name ${A_1}.x;", 1), ("listen <% port %>;", 0)] {
            assert!(helped(text, word).unwrap().contains("template"), "{text}");
        }
        assert!(helped("root {{ .Values.root }};", 0).is_some());
        assert_eq!(helped("return 200 ${uri}${1};", 2), None);
    }

    #[test]
    fn problems_of_one_line_have_one_reason() {
        let tree = crate::parse("x", None, "", &mut OneText("root {{ a }};\nindex {{ b }};\nlisten 80; listen 81;"));
        let at = |line, column| Some(Place { file: 0, line, column, width: 1 });
        assert!(is_one(&tree.sources, at(1, 1), at(1, 7)));
        assert!(!is_one(&tree.sources, at(1, 1), at(2, 1)), "each line has a template of its own");
        assert!(!is_one(&tree.sources, at(3, 1), at(3, 12)), "the text is not the reason");
    }

    #[test]
    fn a_part_of_a_word_is_pointed_at() {
        let tree = crate::parse("x", None, "", &mut OneText("log_format a '$uri $remote_adr';"));
        let word = tree.nodes[0].args[1].place;
        let place = narrowed(&tree.sources, word, "unknown \"remote_adr\" variable");
        assert_eq!((place.column, place.width), (20, 11));
        assert_eq!(narrowed(&tree.sources, word, "unknown \"other\" variable"), word);
        let tree = crate::parse("x", None, "", &mut OneText("location ~ ^/a)b { }"));
        let name = tree.nodes[0].name.place;
        let place = narrowed(&tree.sources, name, "pcre2_compile() failed: unmatched in \"^/a)b\" at \")b\"");
        assert_eq!((place.column, place.width), (12, 5));
    }
}
