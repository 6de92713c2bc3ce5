//! Markdown as plain text for a terminal.

/// The widest line, in characters, of text that may be broken.
const WIDTH: usize = 79;

/// Paragraphs of Markdown, broken into lines with an indent; lists, tables and code keep their lines. The signs of code and
/// links are left out.
pub fn plain(markdown: &str, indent: usize) -> String {
    let margin = " ".repeat(indent);
    let mut text = String::new();
    let mut paragraph: Vec<&str> = Vec::new();
    let mut in_code = false;
    for line in markdown.lines() {
        let fence = line.trim_start().starts_with("```");
        let keeps = fence || in_code || line.trim().is_empty() || line.starts_with(['|', '-', '*', ' ', '#']);
        if !keeps {
            paragraph.push(line);
            continue;
        }
        flow(&mut text, &std::mem::take(&mut paragraph), indent);
        in_code ^= fence;
        match (fence, in_code) {
            (true, _) => {}
            (false, true) => text += &format!("{margin}    {line}\n"),
            (false, false) if line.trim().is_empty() => text.push('\n'),
            (false, false) => text += &format!("{margin}{}\n", unmarked(line)),
        }
    }
    flow(&mut text, &paragraph, indent);
    text
}

/// Appends a paragraph, broken between words.
fn flow(text: &mut String, paragraph: &[&str], indent: usize) {
    let joined = unmarked(&paragraph.join(" "));
    text.push_str(&fold(&joined, indent));
}

/// Words in lines of at most 79 characters, each line with an indent and a line end; nothing if there are no words.
pub fn fold(words: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in words.split_whitespace() {
        let letters = word.chars().count();
        if width > 0 && width + 1 + letters > WIDTH {
            text.push('\n');
            width = 0;
        }
        if width == 0 {
            text.push_str(&" ".repeat(indent));
            width = indent;
        } else {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += letters;
    }
    if width > 0 {
        text.push('\n');
    }
    text
}

/// The text without `` ` ``, and `[text](address)` as `text (address)`.
pub fn unmarked(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        let link = after.split_once("](").and_then(|(name, after)| Some((name, after.split_once(')')?)));
        // A `[` in code, as in the syntax of a directive, begins no link.
        match link.filter(|(name, _)| !name.contains(['[', ']'])) {
            Some((name, (address, after))) => {
                text += &format!("{name} ({address})");
                rest = after;
            }
            None => {
                text.push('[');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_and_the_rest_stays() {
        let long = "word ".repeat(20);
        let text = plain(&format!("{long}\n\n- a `b`\n\n```nginx\n  root /a;\n```\nend"), 2);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].len(), 2 + 15 * 5 - 1);
        assert_eq!(lines[1..], ["  word word word word word", "", "  - a b", "", "        root /a;", "  end"]);
    }

    #[test]
    fn signs_of_code_and_links_are_left_out() {
        assert_eq!(unmarked("see [`a`](http://b), `c`"), "see a (http://b), c");
        assert_eq!(unmarked("`[a | b] [c](d`"), "[a | b] [c](d");
        assert_eq!(unmarked("[x] (y)"), "[x] (y)");
        assert_eq!(unmarked("[x](y"), "[x](y");
    }

    #[test]
    fn a_word_that_is_too_long_has_a_line_of_its_own() {
        let word = "x".repeat(100);
        assert_eq!(fold(&format!("a {word} b"), 2), format!("  a\n  {word}\n  b\n"));
        assert_eq!(fold(" ", 2), "");
    }
}
