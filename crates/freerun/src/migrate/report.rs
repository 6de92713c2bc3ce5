//! The report for a person.

use std::fmt::Write as _;

use freerun_conf::fold;

use super::survey::{Survey, Told, Used, Verdict};

/// The width of the column with the names; longer ones push the place to the right.
const NAME: usize = 30;

/// The report as text. `start` is the command that starts the server with this configuration.
pub fn text(survey: &Survey, start: &str) -> String {
    let files = if survey.files == 1 { "file" } else { "files" };
    let mut text = format!("{}: {} directives in {} {files}\n", survey.configuration, survey.directives, survey.files);
    directives(&mut text, "Works", &survey.works);
    directives(&mut text, "Works, with a difference", &survey.differs);
    directives(&mut text, "Accepted without effect", &survey.no_effect);
    messages(&mut text, "Warnings", &survey.warnings);
    messages(&mut text, "Not found on this machine", &survey.not_found);
    directives(&mut text, "Missing", &survey.missing);
    directives(&mut text, "Missing variables", &survey.missing_variables);
    messages(&mut text, "Refused", &survey.refused);
    if survey.may_be_more {
        text += "  … and there may be more: correct these, then ask again\n";
    }
    // Writing to a String cannot fail.
    let _ = write!(text, "\n{} of {} directives are accepted; ", survey.accepted, survey.directives);
    match survey.verdict() {
        Verdict::Missing => {
            text += "take out, or replace, what is missing or refused; then try:\n";
            let _ = writeln!(text, "  {} -t", start);
        }
        _ => {
            let _ = writeln!(text, "start with:\n  {start}");
        }
    }
    text
}

fn directives(text: &mut String, title: &str, list: &[Used]) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title} ({}):", list.len());
    for Used { name, uses, first, module, told } in list {
        let _ = write!(text, "{uses:6}  {name:NAME$}  {first}");
        let _ = writeln!(text, "{}", module.map(|module| format!("  ({module})")).unwrap_or_default());
        text.push_str(&fold(told.as_deref().unwrap_or_default(), 12));
    }
}

fn messages(text: &mut String, title: &str, list: &[Told]) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title} ({}):", list.len());
    for Told { message, place, help } in list {
        match place {
            Some(place) => {
                let _ = writeln!(text, "  {place}\n    {message}");
            }
            None => {
                let _ = writeln!(text, "  {message}");
            }
        }
        text.push_str(&fold(&help.as_ref().map(|help| format!("help: {help}")).unwrap_or_default(), 4));
    }
}
