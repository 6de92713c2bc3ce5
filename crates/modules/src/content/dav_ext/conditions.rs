//! The field `If` (RFC 4918 section 10.4): conditions about locks and tags of resources.

/// The most conditions in a field: each is compared with all locks, or asks for a file's attributes.
const MAX_CONDITIONS: usize = 64;

/// A condition of the field `If`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) negated: bool,
    pub(super) state: ConditionKind,
}

/// The state that a condition asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConditionKind {
    /// The resource is locked with this token.
    Token(Vec<u8>),
    /// The resource has this tag, quotes included.
    Tag(Vec<u8>),
}

/// Conditions that have to hold together, and the resource that they are about. Without a name it is the resource of
/// the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConditionList {
    pub(super) resource: Option<Vec<u8>>,
    pub(super) conditions: Vec<Condition>,
}

/// Reads the field; `None` if it is invalid.
pub(super) fn parse(text: &[u8]) -> Option<Vec<ConditionList>> {
    let mut rest = text.trim_ascii();
    let mut lists = Vec::new();
    let mut resource = None;
    let mut is_named = false;
    let mut count = 0;
    while let Some(first) = rest.first() {
        match first {
            b'<' => {
                let (url, behind) = enclosed(&rest[1..], b'>')?;
                // Lists without a resource do not go together with lists that have one.
                if !lists.is_empty() && !is_named {
                    return None;
                }
                is_named = true;
                resource = Some(url.to_vec());
                rest = behind.trim_ascii_start();
                if rest.first() != Some(&b'(') {
                    return None;
                }
            }
            b'(' => {
                let (conditions, behind) = list(&rest[1..])?;
                count += conditions.len();
                if count > MAX_CONDITIONS {
                    return None;
                }
                lists.push(ConditionList { resource: resource.clone(), conditions });
                rest = behind.trim_ascii_start();
            }
            _ => return None,
        }
    }
    (!lists.is_empty()).then_some(lists)
}

/// The conditions up to the closing parenthesis, and what follows it.
fn list(text: &[u8]) -> Option<(Vec<Condition>, &[u8])> {
    let mut rest = text.trim_ascii_start();
    let mut conditions = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix(b")") {
            return (!conditions.is_empty()).then_some((conditions, behind));
        }
        let negated = rest.get(..3).is_some_and(|word| word.eq_ignore_ascii_case(b"Not"));
        if negated {
            rest = rest[3..].trim_ascii_start();
        }
        let (state, behind) = match rest.split_first()? {
            (b'<', behind) => {
                enclosed(behind, b'>').map(|(token, rest)| (ConditionKind::Token(token.to_vec()), rest))?
            }
            (b'[', behind) => enclosed(behind, b']').map(|(tag, rest)| (ConditionKind::Tag(tag.to_vec()), rest))?,
            _ => return None,
        };
        conditions.push(Condition { negated, state });
        rest = behind.trim_ascii_start();
    }
}

fn enclosed(text: &[u8], end: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(end, text).filter(|at| *at > 0)?;
    Some((&text[..at], &text[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<Vec<String>> {
        let condition = |condition: &Condition| {
            let (kind, text) = match &condition.state {
                ConditionKind::Token(text) => ("token", text),
                ConditionKind::Tag(text) => ("tag", text),
            };
            format!("{}{kind} {}", if condition.negated { "not " } else { "" }, String::from_utf8_lossy(text))
        };
        let list = |list: &ConditionList| {
            let conditions: Vec<String> = list.conditions.iter().map(condition).collect();
            format!(
                "{}:{}",
                String::from_utf8_lossy(list.resource.as_deref().unwrap_or_default()),
                conditions.join(",")
            )
        };
        Some(parse(text.as_bytes())?.iter().map(list).collect())
    }

    #[test]
    fn the_examples_of_the_rfc_are_understood() {
        let text = "(<urn:uuid:1> [\"I am an ETag\"]) ([\"another\"])";
        assert_eq!(shown(text).unwrap(), [":token urn:uuid:1,tag \"I am an ETag\"", ":tag \"another\""]);
        assert_eq!(shown("(Not <urn:1> <urn:2>)").unwrap(), [":not token urn:1,token urn:2"]);
        let text = "</a> (<urn:1> [W/\"x\"]) ([\"strong\"])<http://h/b>(not<DAV:no-lock>)";
        let wanted = ["/a:token urn:1,tag W/\"x\"", "/a:tag \"strong\"", "http://h/b:not token DAV:no-lock"];
        assert_eq!(shown(text).unwrap(), wanted);
    }

    #[test]
    fn too_many_conditions_are_refused() {
        for text in ["(<urn:1>)", "(<urn:1> Not [\"x\"])"] {
            let each = text.matches(['<', '[']).count();
            assert!(parse(text.repeat(MAX_CONDITIONS / each).as_bytes()).is_some());
            assert_eq!(parse(text.repeat(MAX_CONDITIONS / each + 1).as_bytes()), None);
        }
    }

    #[test]
    fn anything_else_is_refused_and_never_panics() {
        for text in
            ["", "x", "()", "(", "(<>)", "(<a>", "<a>", "<a> x", "(Not)", "([a)", "(<a>) <b> (<c>)", "(a)", "<", "<a>("]
        {
            assert_eq!(shown(text), None, "{text}");
        }
        let whole = "</a> (Not <urn:1> [W/\"x\"]) ([\"y\"])";
        for end in 0..whole.len() {
            let _ = shown(&whole[..end]);
            let _ = shown(&whole[end..]);
        }
    }
}
