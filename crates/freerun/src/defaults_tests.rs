//! The defaults of nginx's directives, by nginx's documentation: what is in effect here without a directive is the same,
//! and the directive may be written with it.

use std::io;

use freerun_conf::{Contexts, Directive, Loader};
use freerun_serve::configuration::zones::Zones;

use crate::configuration::{KnownFacts, Side, read_after, registry};
use crate::source::Input;

/// Name, block and default of each directive that nginx documents with a default and freerun has. Two values with `|`
/// between them depend on the platform.
const NGINX: &str = include_str!("nginx_defaults.tsv");

/// Defaults that differ, each with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("aio", "operations that would wait go to a thread pool; the directive says so"),
    ("open_file_cache", "files that were opened less than a second ago are kept; the directive says so"),
    ("open_file_cache_valid", "what is kept is checked each time; the directive says so"),
    ("charset_types", "text/html is always among them"),
    ("types", "the table is built in"),
    ("client_body_temp_path", "the default path is the one compiled in"),
    ("fastcgi_temp_path", "the default path is the one compiled in"),
    ("proxy_temp_path", "the default path is the one compiled in"),
    ("scgi_temp_path", "the default path is the one compiled in"),
    ("uwsgi_temp_path", "the default path is the one compiled in"),
];

/// Directives whose default is no text of a table, because it follows from something else, each with the place or the reason.
const COMPUTED: &[(&str, &str)] = &[
    ("access_log", "the default path is the one compiled in"),
    ("add_header_inherit", "a level without it has the value of the enclosing one"),
    ("add_trailer_inherit", "a level without it has the value of the enclosing one"),
    ("addition_types", "text/html is always among them"),
    ("env", "TZ is always passed on"),
    ("error_log", "the default path is the one compiled in"),
    ("fastcgi_param", "the parameter follows from the request's host"),
    ("grpc_set_header", "fields that are not set follow from the request"),
    ("gzip_types", "text/html is always among them"),
    ("http2_idle_timeout", "the directive is obsolete"),
    ("http2_max_concurrent_pushes", "the directive is obsolete"),
    ("http2_max_field_size", "the directive is obsolete"),
    ("http2_max_header_size", "the directive is obsolete"),
    ("http2_max_requests", "the directive is obsolete"),
    ("http2_push", "the directive is obsolete"),
    ("http2_push_preload", "the directive is obsolete"),
    ("http2_recv_timeout", "the directive is obsolete"),
    ("keepalive", "32 of a group that has no directive, and local"),
    ("listen", "port 80, or 8000 without the rights of root"),
    ("lock_file", "the default path is the one compiled in, and no lock is needed"),
    ("log_format", "`combined` is built in"),
    ("pid", "the default path is the one compiled in"),
    ("proxy_cache_key", "the target of the request takes the place of the variables"),
    ("proxy_redirect", "the rule follows from proxy_pass and the location"),
    ("proxy_set_header", "fields that are not set follow from the request"),
    ("scgi_param", "the parameter follows from the request's host"),
    ("server_name", "a server without it has no name"),
    ("ssi_types", "text/html is always among them"),
    ("state_path", "it follows from the issuer's name"),
    ("sub_filter_types", "text/html is always among them"),
    ("thread_pool", "the pool `default` is built in"),
    ("user", "the user is the one compiled in"),
    ("userid_service", "the server's address"),
    ("uwsgi_param", "the parameter follows from the request's host"),
    ("worker_priority", "the priority is not changed"),
    ("fastcgi_busy_buffers_size", "two buffers, whatever their size"),
    ("proxy_busy_buffers_size", "two buffers, whatever their size"),
    ("scgi_busy_buffers_size", "two buffers, whatever their size"),
    ("uwsgi_busy_buffers_size", "two buffers, whatever their size"),
    ("fastcgi_temp_file_write_size", "two buffers, whatever their size"),
    ("proxy_temp_file_write_size", "two buffers, whatever their size"),
    ("scgi_temp_file_write_size", "two buffers, whatever their size"),
    ("uwsgi_temp_file_write_size", "two buffers, whatever their size"),
    ("fastcgi_cache_methods", "GET and HEAD are always among them"),
    ("proxy_cache_methods", "GET and HEAD are always among them"),
    ("scgi_cache_methods", "GET and HEAD are always among them"),
    ("uwsgi_cache_methods", "GET and HEAD are always among them"),
    ("grpc_ssl_name", "the name of the target"),
    ("proxy_ssl_name", "the name of the target"),
    ("uwsgi_ssl_name", "the name of the target"),
];

/// Directives that cannot be written with what the documentation shows as their default: it is a description, a path of
/// another installation, or needs a block.
const NOT_WRITTEN: &[&str] = &[
    "access_log",
    "acme_shared_zone",
    "error_log",
    "listen",
    "lock_file",
    "log_format",
    "pid",
    "proxy_redirect",
    "state_path",
    "types",
    "user",
    "userid_service",
    "grpc_ssl_name",
    "proxy_ssl_name",
    "uwsgi_ssl_name",
];

struct Row {
    name: &'static str,
    block: &'static str,
    default: &'static str,
}

fn rows() -> Vec<Row> {
    let row = |line: &'static str| {
        let mut columns = line.split('\t');
        Row { name: columns.next().unwrap(), block: columns.next().unwrap(), default: columns.next().unwrap() }
    };
    NGINX.lines().map(row).collect()
}

impl Row {
    fn directive(&self) -> Option<&'static Directive> {
        let is_here = |context: Contexts| context.names().any(|name| name == self.block);
        registry().named(self.name).find(|directive| is_here(directive.contexts))
    }

    /// The documented values, of which one is in effect.
    fn values(&self) -> Vec<String> {
        match self.default.rsplit_once(' ') {
            Some((first, last)) if last.contains('|') => {
                last.split('|').map(|size| format!("{first} {size}")).collect()
            }
            _ => self.default.split('|').map(|value| value.trim().to_owned()).collect(),
        }
    }

    /// A whole configuration with the directive.
    fn text(&self, value: &str) -> String {
        let line = format!("{} {value};", self.name);
        match self.block {
            "main" => format!("{line}\nevents {{ }}\n"),
            "events" => format!("events {{ {line} }}\n"),
            "http" => format!("events {{ }}\nhttp {{ {line} }}\n"),
            "server" => format!("events {{ }}\nhttp {{ server {{ {line} }} }}\n"),
            "location" => format!("events {{ }}\nhttp {{ server {{ location / {{ {line} }} }} }}\n"),
            "upstream" => format!("events {{ }}\nhttp {{ upstream u {{ server 127.0.0.1:81; {line} }} }}\n"),
            "acme_issuer" => format!("events {{ }}\nhttp {{ acme_issuer i {{ uri https://ca.example/; {line} }} }}\n"),
            "otel_exporter" => {
                format!("events {{ }}\nhttp {{ otel_exporter {{ endpoint localhost:4317; {line} }} }}\n")
            }
            "stream" => format!("events {{ }}\nstream {{ {line} }}\n"),
            "server in stream" => {
                format!("events {{ }}\nstream {{ server {{ listen 81; proxy_pass 127.0.0.1:82; {line} }} }}\n")
            }
            "upstream in stream" => {
                format!("events {{ }}\nstream {{ upstream u {{ server 127.0.0.1:81; {line} }} }}\n")
            }
            other => panic!("{other}"),
        }
    }
}

/// What is the same in both spellings of a value.
fn plain(value: &str) -> String {
    value
        .to_ascii_lowercase()
        .split_whitespace()
        .map(|word| if word == "0s" { "0" } else { word })
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn defaults_are_those_of_nginx() {
    let mut wrong = Vec::new();
    for row in rows() {
        let (name, values) = (row.name, row.values());
        let Some(directive) = row.directive() else {
            wrong.push(format!("{name} is not in {}", row.block));
            continue;
        };
        let is_listed = |list: &[(&str, &str)]| list.iter().any(|(listed, _)| *listed == name);
        let is_same = |ours: &str| values.iter().any(|value| plain(value) == plain(ours));
        match directive.default {
            Some(ours) if is_same(ours) => {}
            Some(_) if is_listed(DIFFERENT) => {}
            // Nothing is the same as `off`, and as an empty text.
            None if matches!(row.default, "off" | "\"\"") || is_listed(COMPUTED) => {}
            ours => wrong.push(format!("{name}: nginx has {:?}, freerun {ours:?}", row.default)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn exceptions_are_needed() {
    let rows = rows();
    let of = |name: &'static str| {
        rows.iter().filter(move |row| row.name == name).filter_map(|row| Some((row, row.directive()?)))
    };
    for (name, _) in DIFFERENT {
        let differs = |(row, directive): (&Row, &Directive)| {
            directive.default.is_some_and(|ours| !row.values().iter().any(|value| plain(value) == plain(ours)))
        };
        assert!(of(name).any(differs), "{name}");
    }
    for (name, _) in COMPUTED {
        assert!(of(name).any(|(_, directive)| directive.default.is_none()), "{name}");
    }
}

/// One text.
struct Text(String);

impl Loader for Text {
    fn load(&mut self, _: &str) -> io::Result<Vec<u8>> {
        Ok(self.0.clone().into_bytes())
    }

    fn glob(&mut self, _: &str) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

#[test]
fn defaults_may_be_written() {
    let mut wrong = Vec::new();
    for row in rows().iter().filter(|row| !NOT_WRITTEN.contains(&row.name)) {
        for value in row.values() {
            let input = Input {
                conf: "nginx.conf".to_owned(),
                globals: None,
                prefix: "/stub/".to_owned(),
                conf_prefix: "/stub/".to_owned(),
                error_log: "stderr".to_owned(),
                privileged: true,
            };
            let text = row.text(&value);
            let read = read_after(&input, &mut Text(text), Side::Worker, KnownFacts::default(), Zones::default());
            if let Err(failure) = read {
                let message = failure.problems.first().map(|problem| problem.first_line(&failure.sources));
                wrong.push(format!("{} {value}: {}", row.name, message.unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
