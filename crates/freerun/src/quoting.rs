//! Words as those read them who take quotes: a shell, and a configuration.

/// The marks besides letters and digits that a shell reads as themselves, wherever they stand in a word.
const SHELL_MARKS: &str = "/._-+=:,@%";

/// The marks besides letters and digits that a configuration reads as themselves, wherever they stand in a word.
const CONF_MARKS: &str = "/._-+=:,@%[]*$";

/// A word in quotes that a shell (POSIX, section 2.2.2) takes off again.
pub fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A word for a shell, in quotes if it needs them.
pub fn shell_word(word: &str) -> String {
    if is_plain(word, SHELL_MARKS) { word.to_owned() } else { shell_quoted(word) }
}

/// A word in quotes that the language of nginx.conf takes off again. It stays on one line.
pub fn conf_quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"))
}

/// A word for the language of nginx.conf, in quotes if it needs them.
pub fn conf_word(word: &str) -> String {
    if is_plain(word, CONF_MARKS) { word.to_owned() } else { conf_quoted(word) }
}

/// Whether a word has only letters, digits and these marks.
fn is_plain(word: &str, marks: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || marks.contains(letter))
}

#[cfg(test)]
mod tests {
    use freerun_conf::OneText;

    use super::*;

    #[test]
    fn a_shell_gets_the_word_back() {
        assert_eq!(shell_word("/a-b.conf"), "/a-b.conf");
        for (word, quoted) in [("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("$a;b", "'$a;b'")] {
            assert_eq!((shell_word(word).as_str(), shell_quoted(word).as_str()), (quoted, quoted));
        }
    }

    #[test]
    fn a_configuration_gets_the_word_back() {
        for word in ["plain", "a b", "", "a\"b\\c", "$host", "~^a{2}", "a;b", "${x}y", "one\ntwo", "#", "a\\nb", "it's"]
        {
            for written in [conf_word(word), conf_quoted(word)] {
                assert!(!written.contains('\n'), "{written}");
                let text = format!("x {written};");
                let tree = freerun_conf::parse("x", None, "", &mut OneText(&text));
                assert_eq!(tree.nodes[0].arg(0), Some(word), "{text}");
            }
        }
    }
}
