//! Completions of the command line for shells, from the table of commands.

use std::fmt::Write as _;

use super::command_table::{CommandRow, OptionRow, ValueKind, commands, program};
use crate::quoting::shell_quoted;

/// A shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// The Z shell.
    Zsh,
    /// fish.
    Fish,
}

impl Shell {
    /// The shell of a name.
    pub fn from_name(name: &str) -> Option<Shell> {
        Some(match name {
            "bash" => Shell::Bash,
            "zsh" => Shell::Zsh,
            "fish" => Shell::Fish,
            _ => return None,
        })
    }

    /// The script that has the shell complete freerun's command line; `directives` are the names that `explain` takes.
    pub fn completions(self, directives: &[&str]) -> String {
        match self {
            Shell::Bash => bash(directives),
            Shell::Zsh => zsh(directives),
            Shell::Fish => fish(directives),
        }
    }
}

// Writing to a String cannot fail: the results of `write!` are dropped.
fn bash(directives: &[&str]) -> String {
    let mut text = "\
# Completions of freerun for bash, printed by \"freerun completions bash\".

_freerun() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=
    (( COMP_CWORD > 1 )) && command=${COMP_WORDS[1]}
    COMPREPLY=()
    case $command in
"
    .to_owned();
    let (program, commands) = (program(), commands());
    for row in commands.iter().chain([&program]) {
        let _ = writeln!(text, "    {})\n        case $prev in", if row.name.is_empty() { "*" } else { row.name });
        for option in &row.options {
            if let Some((_, kind)) = option.value {
                let names = option.names().join("|");
                let _ = writeln!(text, "        {names}) {}return ;;", bash_offer(kind, directives));
            }
        }
        let names: Vec<String> = row.options.iter().flat_map(OptionRow::names).collect();
        let options = shell_quoted(&names.join(" "));
        let _ = writeln!(
            text,
            "        esac\n        if [[ $cur == -* ]]; then\n            mapfile -t COMPREPLY < <(compgen -W {options} -- \
             \"$cur\")"
        );
        if row.name.is_empty() {
            let names: Vec<&str> = commands.iter().map(|row| row.name).collect();
            let words = shell_quoted(&names.join(" "));
            let _ = writeln!(
                text,
                "        elif (( COMP_CWORD == 1 )); then\n            mapfile -t COMPREPLY < <(compgen -W {words} -- \
                 \"$cur\")"
            );
        } else if let Some(kind) = row.operand {
            let _ = writeln!(text, "        else\n            {}return", bash_offer(kind, directives));
        }
        text += "        fi\n        ;;\n";
    }
    text + "    esac\n}\n\ncomplete -F _freerun freerun\n"
}

/// The commands that offer a value, each with a `;` behind it.
fn bash_offer(kind: ValueKind, directives: &[&str]) -> String {
    let offer = |what: &str| format!("mapfile -t COMPREPLY < <(compgen {what} -- \"$cur\"); ");
    match kind {
        ValueKind::File => format!("compopt -o filenames; {}", offer("-f")),
        ValueKind::Folder => format!("compopt -o filenames; {}", offer("-d")),
        ValueKind::Words(words) => offer(&format!("-W {}", shell_quoted(&words.join(" ")))),
        ValueKind::Directive => offer(&format!("-W {}", shell_quoted(&directives.join(" ")))),
        ValueKind::Text => String::new(),
    }
}

fn zsh(directives: &[&str]) -> String {
    let mut text = "\
#compdef freerun
# Completions of freerun for zsh, printed by \"freerun completions zsh\".

_freerun() {
    if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
        local -a commands=(
"
    .to_owned();
    let (program, commands) = (program(), commands());
    for row in &commands {
        let _ = writeln!(text, "            {}", shell_quoted(&format!("{}:{}", row.name, row.summary)));
    }
    text += "        )\n        _describe command commands\n        return\n    fi\n    case $words[2] in\n";
    for row in commands.iter().chain([&program]) {
        let _ = writeln!(text, "    {})", if row.name.is_empty() { "*" } else { row.name });
        if !row.name.is_empty() {
            text += "        shift words\n        (( CURRENT-- ))\n";
        }
        text += "        _arguments -s";
        for argument in zsh_arguments(row, directives) {
            let _ = write!(text, " \\\n            {}", shell_quoted(&argument));
        }
        text += "\n        ;;\n";
    }
    text + "    esac\n}\n\n_freerun \"$@\"\n"
}

/// The specifications of `_arguments` for a command.
fn zsh_arguments(row: &CommandRow, directives: &[&str]) -> Vec<String> {
    // Characters that mean something in a specification.
    let plain = |text: &str| text.replace(['[', ']'], "").replace(':', "\\:");
    let mut arguments = Vec::new();
    for option in &row.options {
        let names = option.names();
        let others = if names.len() > 1 { format!("({})", names.join(" ")) } else { String::new() };
        let value = option
            .value
            .map(|(name, kind)| format!(":{}:{}", plain(name), zsh_action(kind, directives)))
            .unwrap_or_default();
        arguments.extend(names.iter().map(|name| format!("{others}{name}[{}]{value}", plain(option.brief()))));
    }
    if let Some(kind) = row.operand {
        arguments.push(format!("1:value:{}", zsh_action(kind, directives)));
    }
    arguments
}

fn zsh_action(kind: ValueKind, directives: &[&str]) -> String {
    match kind {
        ValueKind::File => "_files".to_owned(),
        ValueKind::Folder => "_files -/".to_owned(),
        ValueKind::Words(words) => format!("({})", words.join(" ")),
        ValueKind::Directive => format!("({})", directives.join(" ")),
        ValueKind::Text => " ".to_owned(),
    }
}

fn fish(directives: &[&str]) -> String {
    let mut text = "# Completions of freerun for fish, printed by \"freerun completions fish\".\n\n".to_owned();
    let (program, commands) = (program(), commands());
    let names: Vec<&str> = commands.iter().map(|row| row.name).collect();
    let none = format!("not __fish_seen_subcommand_from {}", names.join(" "));
    text += "complete -c freerun -f\n";
    for row in &commands {
        let _ = writeln!(
            text,
            "complete -c freerun -n __fish_use_subcommand -a {} -d {}",
            row.name,
            fish_quoted(row.summary)
        );
    }
    for row in commands.iter().chain([&program]) {
        let when = if row.name.is_empty() { none.clone() } else { format!("__fish_seen_subcommand_from {}", row.name) };
        let when = fish_quoted(&when);
        for option in &row.options {
            let _ = write!(text, "complete -c freerun -n {when}");
            for letter in option.letters.chars() {
                let _ = write!(text, " -s {}", fish_quoted(&letter.to_string()));
            }
            if let Some(long) = option.long {
                let _ = write!(text, " -l {}", long.trim_start_matches('-'));
            }
            if let Some((_, kind)) = option.value {
                let _ = write!(text, "{}", fish_offer(kind, directives, true));
            }
            let _ = writeln!(text, " -d {}", fish_quoted(option.brief()));
        }
        if let Some(kind) = row.operand {
            let _ = writeln!(text, "complete -c freerun -n {when}{}", fish_offer(kind, directives, false));
        }
    }
    text
}

/// The options of `complete` that offer a value, of an option or behind a command.
fn fish_offer(kind: ValueKind, directives: &[&str], is_option: bool) -> String {
    let required = if is_option { " -x" } else { "" };
    match kind {
        ValueKind::File if is_option => " -r -F".to_owned(),
        ValueKind::File => " -F".to_owned(),
        ValueKind::Folder => format!("{required} -a '(__fish_complete_directories)'"),
        ValueKind::Words(words) => format!("{required} -a {}", fish_quoted(&words.join(" "))),
        ValueKind::Directive => format!("{required} -a {}", fish_quoted(&directives.join(" "))),
        ValueKind::Text => required.to_owned(),
    }
}

fn fish_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::command_table::SHELLS;
    use super::*;

    /// The long options in a text.
    fn long_options(text: &str) -> BTreeSet<&str> {
        text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-'))
            .filter(|word| word.starts_with("--") && word.len() > 2)
            .collect()
    }

    #[test]
    fn all_shells_have_all_commands_and_options_and_no_others() {
        let (program, commands) = (program(), commands());
        let rows: Vec<&CommandRow> = commands.iter().chain([&program]).collect();
        let known: BTreeSet<&str> = rows.iter().flat_map(|row| &row.options).filter_map(|option| option.long).collect();
        for name in SHELLS {
            let text = Shell::from_name(name).expect(name).completions(&["root", "listen"]);
            // fish has the names without dashes.
            if name != "fish" {
                assert_eq!(long_options(&text), known, "{name}");
            }
            for row in &rows {
                assert!(row.name.is_empty() || text.contains(row.name), "{name}: {}", row.name);
                for option in &row.options {
                    let has = match (name, option.long) {
                        ("fish", Some(long)) => text.contains(&format!(" -l {}", long.trim_start_matches('-'))),
                        ("fish", None) => {
                            option.letters.chars().all(|letter| text.contains(&format!(" -s '{letter}'")))
                        }
                        _ => option.names().iter().all(|option| text.contains(option.as_str())),
                    };
                    assert!(has, "{name}: {} {:?}", row.name, option.names());
                }
            }
            assert!(text.contains("root") && text.contains("listen"), "{name}");
        }
        assert_eq!(Shell::from_name("tcsh"), None);
    }

    #[test]
    fn quotes_end_where_they_should() {
        assert_eq!(shell_quoted("Let's"), r"'Let'\''s'");
        assert_eq!(fish_quoted(r"Let's \"), r"'Let\'s \\'");
    }
}
