//! The report for a person.

use std::fmt::Write as _;

use freerun_conf::fold;

use super::survey::{Survey, SurveyMessage, UsedName};

/// The width of the column with the names; longer ones push the place to the right.
const NAME: usize = 30;

/// The report as text. `start` is the command that starts the server with this configuration; places below the folder
/// `conf_prefix` are written without it. With `quiet`, what needs nobody's attention is left out.
pub fn text(survey: &Survey, start: &str, conf_prefix: &str, quiet: bool) -> String {
    let files = if survey.files == 1 { "file" } else { "files" };
    let mut text = format!("{}: {} directives in {} {files}\n", survey.configuration, survey.directives, survey.files);
    if !conf_prefix.is_empty() {
        let _ = writeln!(text, "Places are below {conf_prefix}");
    }
    let below = |place: &str| place.strip_prefix(conf_prefix).unwrap_or(place).to_owned();
    if !quiet {
        directives(&mut text, "Works", &survey.works, &below);
        in_principle(&mut text, &survey.differs_in_principle);
        directives(&mut text, "Accepted without effect", &survey.no_effect, &below);
    }
    directives(&mut text, "Works, with a difference for what is written", &survey.differs, &below);
    messages(&mut text, "Warnings", &survey.warnings, &below);
    messages(&mut text, "Not found on this machine", &survey.not_found, &below);
    directives(&mut text, "Missing", &survey.missing, &below);
    directives(&mut text, "Missing variables", &survey.missing_variables, &below);
    messages(&mut text, "Refused", &survey.refused, &below);
    if survey.may_be_more {
        text += "  … and there may be more: correct these, then ask again\n";
    }
    // Writing to a String cannot fail.
    let _ = write!(text, "\n{} of {} directives are accepted; ", survey.accepted, survey.directives);
    let needed = survey.needed_to_start;
    let things = if needed == 1 { "thing is" } else { "things are" };
    let _ = match (survey.is_accepted(), needed) {
        (false, _) => writeln!(text, "take out, or replace, what is missing or refused; then try:\n  {start} -t"),
        (true, 0) => writeln!(text, "start with:\n  {start}"),
        (true, _) => writeln!(
            text,
            "a server would not start on this machine: {needed} {things} missing (above); then try:\n  {start} -t"
        ),
    };
    text
}

/// The directives that differ in a way that what is written does not meet: their names are enough.
fn in_principle(text: &mut String, list: &[UsedName]) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nWorks; what differs in nginx does not concern what is written ({}):", list.len());
    let mut names: Vec<&str> = list.iter().map(|used| used.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    text.push_str(&fold(&names.join(", "), 8));
    text.push_str("        \"freerun explain NAME\" says of each how it differs\n");
}

fn directives(text: &mut String, title: &str, list: &[UsedName], below: &impl Fn(&str) -> String) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title} ({}):", list.len());
    for UsedName { name, uses, first, module, told } in list {
        let _ = write!(text, "{uses:6}  {name:NAME$}  {}", below(first));
        let _ = writeln!(text, "{}", module.map(|module| format!("  ({module})")).unwrap_or_default());
        text.push_str(&fold(told.as_deref().unwrap_or_default(), 12));
    }
}

fn messages(text: &mut String, title: &str, list: &[SurveyMessage], below: &impl Fn(&str) -> String) {
    if list.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title} ({}):", list.len());
    for SurveyMessage { message, place, help } in list {
        match place {
            Some(place) => {
                let _ = writeln!(text, "  {}\n    {message}", below(place));
            }
            None => {
                let _ = writeln!(text, "  {message}");
            }
        }
        text.push_str(&fold(&help.as_ref().map(|help| format!("help: {help}")).unwrap_or_default(), 4));
    }
}
