//! The way back from a line of an access log to the values of its format's variables.

use std::borrow::Cow;

use memchr::memmem;

use super::Escape;

/// The most variables of a format that are read; those behind them are passed over with the rest of the line.
const MAX_VARIABLES: usize = 200;

/// The format of the lines of an access log, as `log_format` gives it, for reading them.
///
/// A line does not say where a value ends. A value ends where the text behind it in the format comes for the first time. Values of
/// some variables have a length or an end of their own, which counts as well. A format with two variables and nothing between them can be read only if
/// all values of the first one have the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFormat {
    /// The text in front of the first variable.
    begin: Vec<u8>,
    /// The variables without their `$`, each with the text behind it.
    variables: Vec<(String, Vec<u8>)>,
    escape: Escape,
}

/// The values of a line, by the names of their variables. Variables without a value are left out.
pub type LineValues<'f, 'l> = Vec<(&'f str, Cow<'l, [u8]>)>;

impl LineFormat {
    /// The format of this text, in which the strings of `log_format` are joined.
    pub fn new(escape: Escape, text: &str) -> LineFormat {
        let mut format = LineFormat { begin: Vec::new(), variables: Vec::new(), escape };
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            let (before, from) = rest.split_at(dollar);
            format.push_text(before);
            let braced = from[1..].strip_prefix('{');
            let name = braced.unwrap_or(&from[1..]);
            let end = name.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_').unwrap_or(name.len());
            let (name, after) = name.split_at(end);
            rest = if braced.is_some() { after.strip_prefix('}').unwrap_or(after) } else { after };
            if name.is_empty() {
                format.push_text("$");
            } else if format.variables.len() < MAX_VARIABLES {
                format.variables.push((name.to_owned(), Vec::new()));
            } else {
                rest = "";
            }
        }
        format.push_text(rest);
        format
    }

    fn push_text(&mut self, text: &str) {
        let to = self.variables.last_mut().map_or(&mut self.begin, |(_, behind)| behind);
        to.extend_from_slice(text.as_bytes());
    }

    /// The names of the variables, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }

    /// The values of a line without its line end. `None`: the line has another format.
    pub fn read<'l>(&self, line: &'l [u8]) -> Option<LineValues<'_, 'l>> {
        let mut rest = line.strip_prefix(self.begin.as_slice())?;
        let mut values = Vec::new();
        for (place, (name, behind)) in self.variables.iter().enumerate() {
            let is_last = place + 1 == self.variables.len();
            let end = end_of_value(name, rest, behind, is_last)?;
            let value = &rest[..end];
            rest = rest.get(end + behind.len()..).unwrap_or_default();
            if value != self.escape.missing() {
                values.push((name.as_str(), self.escape.undo(value)));
            }
        }
        // The text of a format without variables is the whole line.
        (rest.is_empty() || self.variables.len() >= MAX_VARIABLES).then_some(values)
    }
}

/// The end of the value of a variable, with which `text` begins, in front of the text `behind`.
fn end_of_value(name: &str, text: &[u8], behind: &[u8], is_last: bool) -> Option<usize> {
    if is_last {
        return text.strip_suffix(behind).map(<[u8]>::len);
    }
    if behind.is_empty() {
        return length_of(name).filter(|length| *length <= text.len());
    }
    let finder = memmem::Finder::new(behind);
    // What a client sent instead of a request is logged as it came.
    if name == "request"
        && let Some(end) = finder.find_iter(text).find(|end| is_request(&text[..*end]))
    {
        return Some(end);
    }
    finder.find_iter(text).find(|end| length_of(name).is_none_or(|length| length == *end) || text[..*end] == *b"-")
}

/// Whether a text ends as the line of a request does: `HTTP/1.1`.
fn is_request(text: &[u8]) -> bool {
    matches!(text, [.., b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
        if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// The number of bytes of each value of a variable, if they all have the same.
fn length_of(name: &str) -> Option<usize> {
    match name {
        "status" => Some(3),
        "time_local" => Some(26),
        "time_iso8601" => Some(25),
        "request_id" => Some(32),
        "pipe" => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::COMBINED;
    use super::*;

    fn read(escape: Escape, format: &str, line: &str) -> Option<Vec<(String, String)>> {
        let format = LineFormat::new(escape, format);
        let values = format.read(line.as_bytes())?;
        let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
        Some(values.iter().map(|(name, value)| ((*name).to_owned(), text(value))).collect())
    }

    fn value(escape: Escape, format: &str, line: &str, name: &str) -> Option<String> {
        read(escape, format, line)?.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    #[test]
    fn a_line_of_the_usual_format_is_read() {
        let line =
            "::1 - - [10/Oct/2026:13:55:36 +0000] \"GET /a%20b?c=\\x22d\\x22 HTTP/1.1\" 200 5 \"-\" \"curl/7 (x)\"";
        let values = read(Escape::Default, COMBINED, line).expect("it has the format");
        let expected = [
            ("remote_addr", "::1"),
            ("time_local", "10/Oct/2026:13:55:36 +0000"),
            ("request", "GET /a%20b?c=\"d\" HTTP/1.1"),
            ("status", "200"),
            ("body_bytes_sent", "5"),
            ("http_user_agent", "curl/7 (x)"),
        ];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for other in ["", "GET /", &line[..40], &format!("{line} more")] {
            assert_eq!(read(Escape::Default, COMBINED, other), None, "{other}");
        }
    }

    #[test]
    fn values_with_spaces_end_where_their_form_ends() {
        let format = "$time_local $request $status${http_host}|$pipe$status";
        let line = "10/Oct/2026:13:55:36 +0000 GET /a HTTP/1.1 404a.example|.200";
        for (name, expected) in [("request", "GET /a HTTP/1.1"), ("http_host", "a.example"), ("pipe", ".")] {
            assert_eq!(value(Escape::Default, format, line, name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn values_in_json_lose_their_escapes() {
        let format = "{\"r\":\"$request\",\"h\":\"$host\",\"u\":\"$http_user_agent\"}";
        let line = "{\"r\":\"GET \\/\\\"\\u00e9\\\\ HTTP/1.1\",\"h\":\"\",\"u\":\"a\\tb\"}";
        let values = read(Escape::Json, format, line).expect("it has the format");
        let expected = [("request", "GET /\"é\\ HTTP/1.1"), ("http_user_agent", "a\tb")];
        assert_eq!(values, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(value(Escape::None, "$host|$uri", "a\\x|/", "host").as_deref(), Some("a\\x"));
    }

    #[test]
    fn strange_formats_end() {
        for format in ["", "$", "${", "${a", "$$a$", &"$a ".repeat(1000)] {
            let _ = LineFormat::new(Escape::Default, format).read(&b"a ".repeat(3000));
        }
        assert_eq!(read(Escape::Default, "always", "always"), Some(vec![]));
        assert_eq!(read(Escape::Default, "always", "always more"), None);
    }
}
