//! The variables of the program: the page of the reference, and what `freerun explain` says of one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use freerun_serve::values::Variable;

use super::nginx_variables;
use crate::configuration::{modules, stream_modules};

/// Variables that nginx documents and that a configuration itself gives their values, so that no table has them.
const GIVEN_BY_CONFIGURATION: &[&str] = &["memcached_key"];

/// A variable, or a family of them.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    is_family: bool,
    /// The module of freerun that has it.
    own_module: &'static str,
    documentation: &'static str,
}

/// The variables of a protocol by name.
struct Protocol {
    name: &'static str,
    of_stream: bool,
    rows: BTreeMap<&'static str, Row>,
}

/// The rows of tables; of variables with the same name the last one counts, as in a configuration.
fn rows<S: 'static>(
    tables: impl Iterator<Item = (&'static str, &'static [Variable<S>])>,
) -> BTreeMap<&'static str, Row> {
    let all = tables.flat_map(|(own_module, variables)| variables.iter().map(move |variable| (own_module, variable)));
    let row = |(own_module, variable): (_, &'static Variable<S>)| {
        let Variable { name, documentation, prefix: is_family, .. } = *variable;
        (name, Row { name, is_family, own_module, documentation })
    };
    all.map(row).collect()
}

/// All variables, from where the configuration takes them.
fn protocols() -> [Protocol; 2] {
    let http = rows(freerun_http::build::variables(modules()));
    let stream = rows(freerun_stream::build::variables(stream_modules()));
    [
        Protocol { name: "http", of_stream: false, rows: http },
        Protocol { name: "stream", of_stream: true, rows: stream },
    ]
}

impl Row {
    /// The name as text shows it: `$host`, `$arg_NAME`.
    fn shown(&self) -> String {
        format!("${}{}", self.name, if self.is_family { "NAME" } else { "" })
    }

    /// The module: nginx's with its page, or freerun's.
    fn module(&self, of_stream: bool) -> String {
        match nginx_variables::module(self.name, of_stream) {
            Some(module) => format!("[{module}]({}#var_{})", freerun_conf::page(module), self.name),
            None => format!("{}, not in nginx", self.own_module),
        }
    }
}

/// The text above the table.
const INTRODUCTION: &str = "\
A variable is written as `$name` or `${name}`, where its value ends before a letter. `http` has those of requests,
`stream` those of sessions. In a family, such as `$arg_NAME`, `NAME` stands for any name. A variable without a value is
empty in texts and `-` in logs.

Directives define further ones: `set`, `map`, `num_map`, `geo`, `geoip2`, `split_clients`, `predicate`,
`auth_request_set`, `auth_jwt_claim_set`, and named groups of regular expressions. `freerun explain '$name'` shows what
is said here.
";

/// The page of the reference: the Markdown after the title.
pub fn page() -> String {
    let mut text = format!("{INTRODUCTION}\n| Variable | In | Module | Value |\n|---|---|---|---|\n");
    let [http, stream] = protocols();
    let mut rows: Vec<(&str, &Row, &Protocol)> = Vec::new();
    for protocol in [&http, &stream] {
        rows.extend(protocol.rows.values().map(|row| (row.name, row, protocol)));
    }
    // Variables of http come first among equal names.
    rows.sort_by_key(|(name, ..)| *name);
    for (_, row, protocol) in rows {
        let value = row.documentation.replace('|', "\\|");
        let module = row.module(protocol.of_stream);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{}` | {} | {module} | {value} |", row.shown(), protocol.name);
    }
    text += "\n## Not yet\n\nnginx has these, freerun does not have them yet:\n\n";
    for (module, names) in missing() {
        let names: Vec<String> = names.iter().map(|name| format!("`${name}`")).collect();
        let _ = writeln!(text, "- {module}: {}", names.join(", "));
    }
    text
}

/// The modules of nginx with their variables that freerun lacks, without the `$`.
pub fn missing() -> Vec<(&'static str, Vec<&'static str>)> {
    let [http, stream] = protocols();
    let lacks = |module: &str, name: &str| {
        let rows = if module.starts_with("ngx_stream_") { &stream.rows } else { &http.rows };
        !rows.contains_key(name) && !GIVEN_BY_CONFIGURATION.contains(&name)
    };
    let lacking = nginx_variables::modules()
        .map(|(module, names)| (module, names.filter(|name| lacks(module, name)).collect::<Vec<_>>()));
    lacking.filter(|(_, names)| !names.is_empty()).collect()
}

/// The reference's text about a variable, as plain text for a terminal; `None` if there is no variable of this name.
/// The name comes without the `$`.
pub fn explain(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let mut parts = Vec::new();
    for protocol in protocols() {
        let families = || protocol.rows.values().filter(|row| row.is_family && name.starts_with(row.name));
        let Some(row) = protocol.rows.get(name.as_str()).or_else(|| families().max_by_key(|row| row.name.len())) else {
            continue;
        };
        let mut text = format!("{}\n{}\n", row.shown(), freerun_conf::plain(row.documentation, 2));
        let module = freerun_conf::unmarked(&row.module(protocol.of_stream));
        let _ = write!(
            text,
            "  In         {}\n  Module     {}",
            protocol.name,
            freerun_conf::fold(&module, 13).trim_start()
        );
        parts.push(text);
    }
    (!parts.is_empty()).then(|| parts.join("\n"))
}

/// The names of all variables, without the `$`.
pub fn names() -> Vec<&'static str> {
    protocols().into_iter().flat_map(|protocol| protocol.rows.into_keys()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_of_the_program_is_on_the_page() {
        let page = page();
        let [http, stream] = protocols();
        for (protocol, at_least) in [(&http, 120), (&stream, 40)] {
            assert!(protocol.rows.len() > at_least, "{}", protocol.rows.len());
            for row in protocol.rows.values() {
                assert!(page.contains(&format!("\n| `{}` | {} | ", row.shown(), protocol.name)), "${}", row.name);
                assert!(row.documentation.ends_with('.'), "${} has no documentation", row.name);
                assert_eq!(row.is_family, row.name.ends_with('_'), "${}", row.name);
            }
        }
    }

    #[test]
    fn each_variable_of_nginx_is_there_or_missing() {
        let page = page();
        let (there, not_yet) = page.split_once("## Not yet").expect("a list");
        for (module, names) in nginx_variables::modules() {
            let protocol = if module.starts_with("ngx_stream_") { "stream" } else { "http" };
            for name in names.filter(|name| !GIVEN_BY_CONFIGURATION.contains(name)) {
                let family = if name.ends_with('_') { "NAME" } else { "" };
                let is_there = there.contains(&format!("| `${name}{family}` | {protocol} |"));
                let line = not_yet.lines().find(|line| line.starts_with(&format!("- {module}:")));
                let is_missing = line.is_some_and(|line| line.contains(&format!("`${name}`")));
                assert!(is_there != is_missing, "${name} of {module}");
            }
        }
    }

    #[test]
    fn a_name_of_a_family_is_explained_by_it() {
        let text = explain("arg_page").expect("a family");
        assert!(text.starts_with("$arg_NAME\n  The value of the argument NAME"), "{text}");
        assert!(text.contains("\n  Module     ngx_http_core_module\n"), "{text}");
        let both = explain("HOSTNAME").expect("two protocols have it");
        assert_eq!(both.matches("$hostname\n").count(), 2);
        assert!(explain("sent_trailer_x").is_some_and(|text| text.starts_with("$sent_trailer_NAME")));
        assert!(explain("nothing").is_none());
    }
}
