//! The result of a trial, for a person.

use std::fmt::Write as _;

use freerun_conf::fold;

use super::comparison::{LEFT_OUT, MAX_BODY};
use super::replay::{MAX_DIFFERENT, ReplayEnd};
use super::sources::MAX_LOG;
use super::summary::{AnswerTimes, TrialSummary};

/// The result as text. With `quiet`, only what differs, and what kept requests from being compared.
pub fn text(summary: &TrialSummary, conf_prefix: &str, quiet: bool) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    if !quiet {
        let _ = writeln!(text, "{}: freerun beside nginx", summary.configuration);
        if !conf_prefix.is_empty() {
            let _ = writeln!(text, "Places are below {conf_prefix}");
        }
        lines(&mut text, summary);
    }
    differences(&mut text, summary, conf_prefix);
    if !summary.differing_directives.is_empty() {
        let names = summary.differing_directives.join(", ");
        let about = format!(
            "Directives that do another thing with their values, whatever the answers are (\"freerun migrate\" says what): {names}"
        );
        let _ = write!(text, "\n{}", fold(&about, 0));
    }
    not_compared(&mut text, summary);
    if !quiet {
        notes(&mut text, summary);
        times(&mut text, summary);
        conclusion(&mut text, summary);
    }
    text
}

/// The lines of the logs, and what became of them.
fn lines(text: &mut String, summary: &TrialSummary) {
    let counts = &summary.lines;
    match &summary.sources[..] {
        [source] => {
            let _ = writeln!(text, "\n{} lines of {}", source.lines, source.path);
        }
        sources => {
            let _ = writeln!(text, "\n{} lines of {} logs", counts.lines, sources.len() + summary.unused.len());
            for source in sources {
                let _ = writeln!(text, "{:8} requests of {} ({} lines)", source.requests, source.path, source.lines);
            }
        }
    }
    for (path, why) in &summary.unused {
        let _ = writeln!(text, "         none of {path}: {why}");
    }
    for path in &summary.ends {
        let _ = writeln!(text, "         of {path} the last {} MiB alone were read", MAX_LOG >> 20);
    }
    let methods: Vec<String> =
        counts.unsafe_methods.iter().map(|(method, count)| format!("{count} {method}")).collect();
    let methods = methods.join(", ");
    let _ = writeln!(
        text,
        "{:8} different requests sent to both servers; upstream servers got them from both",
        summary.sent
    );
    for (count, what) in [
        (counts.repeated, "repeated"),
        (counts.unsafe_methods.values().sum(), "left out, since they may change something"),
        (counts.no_requests, "no requests"),
        (counts.unreadable, "in another format (--log-format names it)"),
        (counts.without_address, "for an address that nothing listens at"),
        (counts.cut, "further requests left out (--count is the most requests)"),
    ] {
        if count > 0 {
            let detail = if what.starts_with("left out,") { format!(": {methods}") } else { String::new() };
            let _ = writeln!(text, "{count:8} {what}{detail}");
        }
    }
    if counts.is_cut {
        let _ = writeln!(text, "         the lines behind these were not read: there are too many");
    }
    for (address, reason) in &summary.left_out {
        let _ = writeln!(text, "         nothing is sent to {address}: {reason}");
    }
}

fn differences(text: &mut String, summary: &TrialSummary, conf_prefix: &str) {
    if summary.different == 0 {
        return;
    }
    let _ = writeln!(text, "\nDifferences ({}):", summary.differences.len());
    for group in &summary.differences {
        let server = group.server.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
        let location = group.location.as_ref().map(|location| format!(" at {location}")).unwrap_or_default();
        let _ = writeln!(text, "{:6}  {}{location}{server}", group.count, group.kind.part());
        let _ = writeln!(text, "        {}", group.reason);
        let _ = writeln!(text, "        nginx:   {}\n        freerun: {}", group.nginx, group.freerun);
        for place in &group.places {
            let _ = writeln!(text, "        {}", place.replace(conf_prefix, ""));
        }
        let _ = writeln!(text, "        {}", group.example);
    }
    if summary.further_differences > 0 {
        let _ = writeln!(text, "{:6}  further ones, of other kinds or at other locations", summary.further_differences);
    }
}

/// The requests that are neither the same nor different, each kind with its reason.
fn not_compared(text: &mut String, summary: &TrialSummary) {
    let count = summary.not_compared();
    if count > 0 {
        let requests = if count == 1 { "request" } else { "requests" };
        let _ = writeln!(text, "\nNot compared, so not known to be the same ({count} {requests}):");
    }
    let error = summary.nginx_error.as_ref().map(|error| format!(" (nginx: {error})")).unwrap_or_default();
    let end = match summary.end {
        ReplayEnd::Time => "the time was over (--time is the longest)".to_owned(),
        ReplayEnd::Signal => "a signal ended the trial".to_owned(),
        ReplayEnd::Differences => format!("{MAX_DIFFERENT} requests had other answers already"),
        ReplayEnd::All | ReplayEnd::Broken => "the trial broke off; please report it".to_owned(),
    };
    for (count, why) in [
        (summary.unstable_requests, "whose answers change from one time to the next".to_owned()),
        (summary.too_long, format!("with bodies of more than {} MiB", MAX_BODY >> 20)),
        (summary.unanswered, format!("answered by neither server{error}")),
        (summary.chosen.saturating_sub(summary.sent), format!("not sent: {end}")),
    ] {
        if count > 0 {
            let _ = writeln!(text, "{count:6}  {why}");
        }
    }
    let mut parts: Vec<String> =
        summary.unstable.parts.iter().map(|(part, count)| format!("{part} ({count})")).collect();
    if summary.unstable.further > 0 {
        parts.push(format!("further ones ({})", summary.unstable.further));
    }
    if !parts.is_empty() {
        let about = format!("Differs only at times, or from one answer of nginx to the next: {}", parts.join(", "));
        let _ = write!(text, "\n{}", fold(&about, 0));
    }
}

fn notes(text: &mut String, summary: &TrialSummary) {
    let names: Vec<&str> = LEFT_OUT.iter().map(|(name, _)| *name).collect();
    let about = format!(
        "Not compared: the fields {}; what caches say of themselves (HIT, MISS …); the port of the trial; the server's name below \
         its own error pages",
        names.join(", ")
    );
    let _ = write!(text, "\n{}", fold(&about, 0));
    for note in &summary.notes {
        text.push_str(&fold(&format!("Not as it will be: {note}"), 0));
    }
}

fn times(text: &mut String, summary: &TrialSummary) {
    let TrialSummary { nginx: AnswerTimes { median_ms, p99_ms }, freerun, .. } = summary;
    if *p99_ms > 0.0 {
        let _ = writeln!(
            text,
            "\nTime of an answer, with a new connection for each: nginx median {median_ms} ms, p99 {p99_ms} ms; freerun median {} \
             ms, p99 {} ms",
            freerun.median_ms, freerun.p99_ms
        );
    }
}

fn conclusion(text: &mut String, summary: &TrialSummary) {
    let _ = writeln!(text, "\n{} of {} requests have the same answer of both", summary.same, summary.chosen);
    if summary.different > 0 {
        text.push_str("\"freerun explain --request 'METHOD URL'\" says what a configuration does with a request\n");
    }
}
