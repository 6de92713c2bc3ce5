//! The texts of `-h`, `--help` and `freerun COMMAND --help`, from the table of commands.

use freerun_conf::fold;

use super::command_table::{CommandRow, OptionRow, commands, program};

/// The widest line of a synopsis, in characters.
const WIDTH: usize = 79;

/// The text of `-h`: nginx's options, and the names of the commands.
pub fn short() -> String {
    let program = program();
    let names: Vec<&str> = commands().iter().map(|row| row.name).collect();
    let last = format!("Commands: {}. \"freerun --help\" shows them and their options.", names.join(", "));
    format!("{}\nOptions:\n{}\n{}", synopsis("Usage: ", &program), options(&program.options), fold(&last, 0))
}

/// The text of `--help`: all options of all commands.
pub fn long() -> String {
    let (program, commands) = (program(), commands());
    let mut text = synopsis("Usage: ", &program);
    for row in &commands {
        text += &synopsis("       ", row);
    }
    text += &format!("\nOptions:\n{}", options(&program.options));
    for row in &commands {
        text += &format!("\nfreerun {}\n{}", row.name, description(row));
    }
    text
}

/// The text of `freerun COMMAND --help`; empty for a command that is none.
pub fn command(name: &str) -> String {
    let rows = commands();
    rows.iter().find(|row| row.name == name).map(|row| synopsis("", row) + &description(row)).unwrap_or_default()
}

/// The purpose of a command, and its options.
fn description(row: &CommandRow) -> String {
    fold(&row.about, 2) + &options(&row.options)
}

/// The program, the command and what it takes, broken between these words.
fn synopsis(begin: &str, row: &CommandRow) -> String {
    let space = if row.name.is_empty() { "" } else { " " };
    let mut line = format!("{begin}freerun{space}{}", row.name);
    let indent = line.len() + 1;
    let mut text = String::new();
    for piece in row.synopsis {
        if line.len() + 1 + piece.len() > WIDTH {
            text += &format!("{line}\n");
            line = format!("{:indent$}{piece}", "");
        } else {
            line += &format!(" {piece}");
        }
    }
    text + &line + "\n"
}

/// A line or several for each option, with the meanings below each other.
fn options(rows: &[OptionRow]) -> String {
    let width = rows.iter().map(|row| row.usage().len()).max().unwrap_or(0);
    rows.iter()
        .map(|row| {
            let meaning = fold(&row.text, width + 5);
            format!("  {:width$} : {}", row.usage(), meaning.trim_start())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_help_is_nginx_s_and_the_long_one_has_everything() {
        let (short, long) = (short(), long());
        assert!(short.starts_with("Usage: freerun [-?hvVtTq] [--strict] [--lint [--json]]"), "{short}");
        assert!(short.contains("\n  -c filename   : set configuration file (default: /"), "{short}");
        assert!(short.contains("\nCommands: serve, migrate, explain, "), "{short}");
        for row in commands() {
            assert!(long.contains(&format!("\n       freerun {}", row.name)), "{long}");
            let own = command(row.name);
            assert!(own.starts_with(&format!("freerun {}", row.name)), "{own}");
            for option in &row.options {
                for text in [&long, &own] {
                    assert!(text.contains(&format!("\n  {} ", option.usage())), "{text}");
                }
            }
        }
        assert!(long.lines().all(|line| line.len() <= WIDTH), "{long}");
        assert_eq!(command("nothing"), "");
    }
}
