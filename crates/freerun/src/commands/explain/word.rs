//! The entry of the reference for a directive, a variable or a word, on the terminal.

use std::collections::BTreeSet;
use std::process::ExitCode;

use freerun_conf::{Contexts, Directive, fold, near, unmarked};

use super::recipes;
use crate::commands::lint;
use crate::commands::reference::{additions, variables};
use crate::configuration::registry;
use crate::console;

/// Prints what is said of a name.
pub fn run(name: &str) -> ExitCode {
    match explained(name) {
        Ok(text) => {
            console::output(&text);
            ExitCode::SUCCESS
        }
        Err(told) => {
            console::print(&format!("freerun: {told}\n"));
            ExitCode::FAILURE
        }
    }
}

/// The explanation of a name. Without a `$` it may be a directive and a variable: a shell takes the `$` of a word that
/// is not quoted.
///
/// # Errors
/// There is no such name: a sentence with similar ones.
fn explained(name: &str) -> Result<String, String> {
    let (word, is_variable) = match name.strip_prefix('$') {
        Some(word) => (word.trim_start_matches('{').trim_end_matches('}'), true),
        None => (name, false),
    };
    let directive = if is_variable { None } else { freerun_conf::explain(registry(), word, &additions()) };
    let rule = if is_variable { None } else { lint::rules::explain(word) };
    let mut found: Vec<String> = [directive, variables::explain(word), rule].into_iter().flatten().collect();
    if found.is_empty() && !is_variable {
        found.extend(recipes::explain(word));
    }
    if !found.is_empty() {
        return Ok(found.join("\n"));
    }
    let kind = if is_variable { "variable" } else { "directive" };
    let mut told = format!("unknown {kind} \"{name}\"");
    let directives = if is_variable { None } else { near(word, registry().names(Contexts::ANY)) };
    let near = directives
        .map(str::to_owned)
        .or_else(|| near(word, variables::names().into_iter()).map(|name| format!("${name}")))
        .or_else(|| near(word, lint::rules::all().map(|rule| rule.name)).map(str::to_owned))
        .or_else(|| near(word, recipes::words()).map(str::to_owned));
    let module = freerun_conf::module_of(word).filter(|_| !is_variable);
    if near.is_none() && module.is_none() && !is_variable {
        let speaking = speaking_of(word);
        if !speaking.is_empty() {
            return Ok(format!("There is no directive \"{word}\"; these speak of it:\n\n{speaking}"));
        }
    }
    match (near, module) {
        (_, Some(module)) => told += &format!("; it is of {module}, which freerun does not have"),
        (Some(near), None) => told += &format!("; did you mean \"{near}\"?"),
        (None, None) => {}
    }
    Err(told)
}

/// The most directives that are named as speaking of a word.
const MAX_NAMED: usize = 30;

/// The directives with a word in their documentation, or in a comment of their examples; if there are none, those with
/// the word elsewhere in an example. Each has its summary.
fn speaking_of(word: &str) -> String {
    let examples = additions().examples;
    let in_comment = |text: &str| text.lines().any(|line| line.trim_start().starts_with('#') && has_word(line, word));
    let said = |known: &Directive| {
        has_word(known.documentation, word) || examples.of(known).any(|example| in_comment(&example.text))
    };
    let found = named_by(said);
    if found.is_empty() {
        named_by(|known| examples.of(known).any(|example| has_word(&example.text, word)))
    } else {
        found
    }
}

/// The directives that meet a condition, each with its summary.
fn named_by(is_so: impl Fn(&Directive) -> bool) -> String {
    let mut seen = BTreeSet::new();
    let mut names: Vec<&str> = registry().names(Contexts::ANY).filter(|name| seen.insert(*name)).collect();
    names.sort_unstable();
    let mut text = String::new();
    let mut count = 0;
    for name in names {
        let Some(directive) = registry().named(name).find(|known| is_so(known)) else {
            continue;
        };
        count += 1;
        if count <= MAX_NAMED {
            text += &format!("  {name}\n{}", fold(&unmarked(&directive.summary()), 8));
        }
    }
    if count > MAX_NAMED {
        text += &format!("  … and {} more\n", count - MAX_NAMED);
    }
    text
}

/// Whether a text has a word, or the plural of it, in any case.
fn has_word(text: &str, word: &str) -> bool {
    let (text, word) = (text.to_lowercase(), word.to_lowercase());
    let is_letter = |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    word.len() > 1
        && text.match_indices(word.as_str()).any(|(at, _)| {
            let rest = &text[at + word.len()..];
            let rest = rest.strip_prefix('s').unwrap_or(rest);
            !is_letter(text[..at].chars().next_back()) && !is_letter(rest.chars().next())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_explained_with_and_without_the_sign() {
        let both = explained("limit_rate").expect("a directive and a variable");
        assert!(both.starts_with("limit_rate\n") && both.contains("\n$limit_rate\n"), "{both}");
        let variable = explained("${limit_rate}").expect("a variable");
        assert!(variable.starts_with("$limit_rate\n"), "{variable}");
        let listen = explained("listen").expect("http and stream have it");
        assert!(listen.contains("ngx_http_core_module") && listen.contains("ngx_stream_core_module"), "{listen}");
    }

    #[test]
    fn an_unknown_name_has_similar_ones() {
        assert_eq!(explained("sendfil").unwrap_err(), "unknown directive \"sendfil\"; did you mean \"sendfile\"?");
        assert_eq!(explained("$hosst").unwrap_err(), "unknown variable \"$hosst\"; did you mean \"$host\"?");
        assert_eq!(
            explained("remote_adr").unwrap_err(),
            "unknown directive \"remote_adr\"; did you mean \"$remote_addr\"?"
        );
        assert_eq!(explained("qqqqqqqqqqqq").unwrap_err(), "unknown directive \"qqqqqqqqqqqq\"");
        let xslt = explained("xslt_stylesheet").unwrap_err();
        assert_eq!(
            xslt,
            "unknown directive \"xslt_stylesheet\"; it is of ngx_http_xslt_module, which freerun does not have"
        );
    }

    #[test]
    fn a_word_is_looked_for_in_the_texts() {
        let found = explained("half-close").expect("directives speak of it");
        assert!(found.starts_with("There is no directive \"half-close\"; these speak of it:\n\n  "), "{found}");
        let recipe = explained("CORS").expect("a recipe");
        assert!(recipe.starts_with("CORS\n") && recipe.contains("Access-Control-Allow-Origin"), "{recipe}");
        assert!(has_word("For WebSockets.", "websocket") && !has_word("unwebsocketed", "websocket"));
        assert!(!has_word("rate_limit", "rate") && has_word("the rate", "Rate"));
    }
}
