//! The most similar of some names, for the help about a wrong name.

/// The hint to a parameter of a directive with this syntax that is similar to the one in nginx's message about it.
pub(crate) fn parameter(message: &str, syntax: &str) -> Option<String> {
    // The last one is of `stream`.
    let beginnings = ["invalid parameter \"", "invalid value \"", "the invalid \""];
    let quoted = beginnings.iter().find_map(|begin| message.strip_prefix(begin))?;
    let wrong = quoted.split_once('"')?.0;
    let (name, value) = wrong.split_once('=').map_or((wrong, false), |(name, _)| (name, true));
    // What the documentation writes as `[name]`, `[name=value]` or between `|` is written as it stands.
    let words = syntax.split(|sign: char| sign.is_whitespace() || "[]|".contains(sign)).filter(|word| !word.is_empty());
    let parameters = words.filter_map(|word| match word.split_once('=') {
        Some((name, _)) => value.then_some(name),
        None => (!value).then_some(word),
    });
    let near = near(name, parameters).filter(|near| *near != name)?;
    Some(format!("did you mean \"{near}{}\"?", if value { "=" } else { "" }))
}

/// The most similar of some names, if it is similar enough: at most a quarter of the letters, and at most three, are
/// wrong.
pub fn near<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters = wrong.chars().count();
    let limit = (letters / 4).clamp(1, 3);
    if !(3..=64).contains(&letters) {
        return None;
    }
    names
        .filter(|name| name.len().abs_diff(letters) <= limit)
        .filter_map(|name| Some((distance(wrong, name)?, name)))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// The number of edits (insert, delete, replace, swap of neighbours) that turn one name into the other, ignoring case.
fn distance(left: &str, right: &str) -> Option<usize> {
    let left: Vec<char> = left.chars().map(|letter| letter.to_ascii_lowercase()).collect();
    let right: Vec<char> = right.chars().map(|letter| letter.to_ascii_lowercase()).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, a) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in right.iter().enumerate() {
            let mut best = (above[column] + usize::from(a != b)).min(above[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *a == right[column - 1] && left[row - 1] == *b {
                best = best.min(before[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied()
}
