//! The explanation of a request of HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use freerun_conf::{bytes_of, path_of, text_of};
use freerun_http::phases::Answer;
use freerun_http::protocol::rehearsal::{Rehearsal, rehearse};
use freerun_http::request::generation::{HttpConfiguration, Servers};
use freerun_http::request::location::Server;
use freerun_http::request::{Address, Request};
use freerun_http::write::text;
use freerun_runtime::loops;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::listen::ListenSpec;
use freerun_serve::tls::agreed_session::AgreedSession;
use freerun_serve::tls::client_facts::TlsFacts;
use freerun_tls::session::TlsVersion;

use super::asked::{AskedRequest, address_of};
use super::directives::WrittenDirectives;
use super::explanation::{ExplainedStep, Explanation};
use super::listeners::{self, ReachedListener};
use super::trace::{LookedFor, Observations, Trace, lines, uri};
use super::{CLIENT, Loop};
use crate::cli::ExplainRequest;

/// The port of the client, which no rule asks for.
pub const CLIENT_PORT: u16 = 40000;

/// Fields that an answer has whatever the configuration is.
const USUAL: [&str; 4] = ["Server:", "Date:", "Connection:", "Keep-Alive:"];

/// Explains a request.
///
/// # Errors
/// The request does not come to a server.
pub fn explain(
    rehearsal: &Loop,
    generation: &Arc<Generation>,
    asked: AskedRequest,
    options: &ExplainRequest,
    directives: Arc<WrittenDirectives>,
) -> Result<Explanation, String> {
    let http = generation.parts.get::<HttpConfiguration>().unwrap_or_default();
    let specs = http.listens.iter().map(|listen| &listen.spec).filter(|spec| !spec.quic);
    let reached = listeners::reach(specs, asked.port, address_of(&asked.host), options.to.as_deref())?;
    let listen = http.listens.find(&reached.spec).ok_or("nothing listens there")?;
    let servers = listen.servers_for(&reached.local).clone();
    let head = head(&asked, &options.fields)?;
    let is_tls = asked.is_secure || asked.port.is_none() && servers.tls;
    if asked.is_secure && !servers.tls {
        return Err(format!(
            "{} has no TLS (\"listen … ssl\"): a client that begins a handshake is answered with 400",
            reached.spec.name
        ));
    }
    let peer = Address::Ip(SocketAddr::new(options.from.unwrap_or(CLIENT), CLIENT_PORT));
    let name = address_of(&asked.host).is_none().then(|| asked.host.clone()).filter(|host| !host.is_empty());
    let (spec, local) = (reached.spec.clone(), reached.local.clone());
    let written = directives.clone();
    let (mut explanation, looked_for) = rehearsal.ask(move |services, sender| {
        let loop_state = services.loop_state.clone();
        loops::spawn(0, "explaining a request", async move {
            let tls = is_tls.then(|| session(name.as_deref()));
            let request = Rehearsal { head, peer, listen: spec, local, tls };
            let trace = Trace::new(&written);
            let explained = match rehearse(&loop_state, request, &trace).await {
                Ok((request, answer)) => Ok(conclude(request, answer, trace, &servers, &written)),
                Err(error) => Err(format!("the request is refused before it comes to a server: {error}")),
            };
            // Nobody waits any more if it took too long.
            let _ = sender.send(explained);
        });
    })??;
    explanation.request = description(&asked, options, &reached.spec, &reached.local);
    explanation.steps.insert(0, listener_step(&reached));
    // Behind the step of the listener.
    looked_for.iter().for_each(|files| look(files, &mut explanation.steps));
    Ok(explanation)
}

/// The request in one line.
fn description(asked: &AskedRequest, options: &ExplainRequest, spec: &ListenSpec, local: &Address) -> String {
    let scheme = if asked.is_secure { "https://" } else { "http://" };
    let url = if asked.port.is_none() {
        asked.target.clone()
    } else {
        format!("{scheme}{}{}", asked.authority, asked.target)
    };
    let to = match local {
        Address::Ip(address) => address.to_string(),
        Address::Unix(_) => spec.name.clone(),
    };
    format!("{} {url} from {} to {to}", asked.method, options.from.unwrap_or(CLIENT))
}

fn listener_step(reached: &ReachedListener) -> ExplainedStep {
    let details = match &reached.others[..] {
        [] => Vec::new(),
        others => vec![format!("{} would fit, too: choose one with --to", others.join(", "))],
    };
    let text = reached.spec.name.clone();
    ExplainedStep { kind: "listen".to_owned(), text, details, ..ExplainedStep::default() }
}

/// The head of the request.
///
/// # Errors
/// A field cannot be sent.
fn head(asked: &AskedRequest, fields: &[String]) -> Result<Vec<u8>, String> {
    let mut text = format!("{} {} HTTP/1.1\r\n", asked.method, asked.target);
    let is_host = |field: &String| field.get(..5).is_some_and(|name| name.eq_ignore_ascii_case("host:"));
    if !fields.iter().any(is_host) && !asked.authority.is_empty() {
        text += &format!("Host: {}\r\n", asked.authority);
    } else if !fields.iter().any(is_host) {
        text += "Host: localhost\r\n";
    }
    for field in fields {
        if !field.contains(':') || field.contains(['\r', '\n']) {
            return Err(format!("\"-H {field}\" is no field: write -H 'Name: value'"));
        }
        text += &format!("{field}\r\n");
    }
    Ok(bytes_of(&(text + "\r\n")).into_owned())
}

/// The TLS of a client of today, which asks for this name and shows no certificate.
pub fn session(name: Option<&str>) -> TlsFacts {
    let facts = TlsFacts::new(name.map(|name| bytes_of(name).into()), None);
    facts.establish(AgreedSession {
        version: TlsVersion::Tls13,
        cipher: "TLS_AES_256_GCM_SHA384",
        group: "X25519",
        alpn: Some(b"http/1.1".as_slice().into()),
        is_resumed: false,
        session_id: None,
        is_early: false,
        origin: None,
        shown: None,
        certificates: None,
    });
    facts
}

/// Makes the explanation of what was observed and of the answer.
fn conclude(
    mut request: Box<Request>,
    answer: Answer,
    trace: Trace<'_>,
    servers: &Servers,
    directives: &WrittenDirectives,
) -> (Explanation, Vec<LookedFor>) {
    let Observations { mut steps, looked_for, pass, file, assumptions } = trace.finish();
    steps.insert(0, server_step(&request, servers, directives));
    let location = &request.place.location;
    let place = |names: &[&str]| -> Vec<ExplainedStep> {
        let written = names.iter().flat_map(|name| directives.in_force(location.order, name));
        let step = |written: &super::directives::WrittenDirective| ExplainedStep {
            kind: written.name.clone(),
            text: written.text.clone(),
            place: written.place.clone(),
            ..ExplainedStep::default()
        };
        written.map(step).collect()
    };
    let (limits, logs) = (place(&["limit_rate", "limit_rate_after"]), place(&["access_log"]));
    let mut explanation = Explanation {
        is_passed_on: pass.is_some(),
        server: Some(request.place.server.name.to_string()),
        location: directives.around(location.order, "location").map(|(_, written)| written.text.clone()),
        uri: Some(uri(&request.asked.path, request.asked.args.as_deref())),
        file: file.map(|file| text_of(&file).into_owned()),
        assumptions,
        ..Explanation::default()
    };
    let mut last = ExplainedStep { kind: "answer".to_owned(), ..ExplainedStep::default() };
    match answer {
        Answer::Close => last.text = "none: the connection is closed".to_owned(),
        Answer::Response(response) => {
            request.sent.status = Some(response.sent_status());
            let mut head = Vec::new();
            text::head(&mut request, &response, false, &mut head);
            let mut lines = lines(&head);
            let line = lines.next().unwrap_or_default();
            let mut fields: Vec<String> =
                lines.filter(|line| !USUAL.iter().any(|name| line.starts_with(name))).collect();
            let status = response.sent_status().code();
            if explanation.is_passed_on {
                fields.retain(|line| !line.starts_with("Content-Length:"));
                last.text = "that of the upstream server".to_owned();
                last.result = match fields.len() {
                    0 => String::new(),
                    _ => format!("with status {status} it also has"),
                };
            } else {
                explanation.status = Some(status);
                last.text = line.strip_prefix("HTTP/1.1 ").unwrap_or(&line).to_owned();
            }
            last.details.clone_from(&fields);
            explanation.fields = fields;
        }
    }
    if let Some(pass) = pass {
        explanation.upstream = Some(pass.servers).filter(|servers| !servers.is_empty());
        explanation.sent = super::trace::lines(&pass.text).collect();
        explanation.cache_key = pass.cache_key.map(|key| text_of(&key).into_owned());
    }
    steps.extend(limits);
    steps.push(last);
    steps.extend(logs);
    explanation.steps = steps;
    (explanation, looked_for)
}

/// The step that says why the server was chosen.
fn server_step(request: &Request, servers: &Servers, directives: &WrittenDirectives) -> ExplainedStep {
    let server: &Server = &request.place.server;
    let host = request.asked.host.as_deref().unwrap_or_default();
    let order = server.entry.order;
    let written = directives.get(order);
    let names = directives.children(order).filter(|directive| directive.name == "server_name");
    let names: Vec<&String> = names.flat_map(|names| &names.args).collect();
    let is_default = Arc::as_ptr(&servers.default) == std::ptr::from_ref(server);
    let place = written.and_then(|written| written.place.clone());
    named_server(&names, host, (is_default, servers.all.len()), place)
}

/// The step about a server with these names, which was chosen for a host; whether it is the default one, and how many there are
/// at the address.
pub fn named_server(
    names: &[&String],
    host: &str,
    (is_default, all): (bool, usize),
    place: Option<String>,
) -> ExplainedStep {
    let by_name = names.iter().find(|name| names_host(name, host));
    let regex = names.iter().find(|name| name.starts_with('~'));
    let result = match (by_name, regex) {
        (Some(name), _) => format!("its name \"{name}\" fits \"{host}\""),
        (None, Some(name)) if !is_default => format!("its name \"{name}\" matches \"{host}\""),
        (None, _) if all == 1 => "the only one at this address".to_owned(),
        (None, _) if host.is_empty() => format!("the default one of {all} at this address: no name is asked for"),
        (None, _) => format!("the default one of {all} at this address: no name fits \"{host}\""),
    };
    let text = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    let text = if text.is_empty() { "without a name".to_owned() } else { text };
    ExplainedStep { kind: "server".to_owned(), text, place, result, details: Vec::new() }
}

/// Whether a name of `server_name` that is no regular expression fits a host.
pub fn names_host(name: &str, host: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_below = |suffix: &str| host.len() > suffix.len() && host.ends_with(suffix);
    if let Some(suffix) = name.strip_prefix('*') {
        is_below(suffix)
    } else if let Some(domain) = name.strip_prefix('.') {
        host == domain || is_below(&name)
    } else if let Some(prefix) = name.strip_suffix('*') {
        host.len() > prefix.len() && host.starts_with(prefix)
    } else {
        !host.is_empty() && name == host
    }
}

/// Says which of the files of a `try_files` are there. They were looked for in this order up to the first one.
fn look(looked_for: &LookedFor, steps: &mut [ExplainedStep]) {
    // The steps about the listener and the server stand in front.
    let Some(step) = steps.get_mut(looked_for.step + 2) else { return };
    for (file, is_folder) in &looked_for.files {
        let name = text_of(file);
        let meta = std::fs::metadata(path_of(&name));
        let (is_there, words) = match (meta, is_folder) {
            (Err(error), _) if error.kind() == std::io::ErrorKind::NotFound => (false, "is not there".to_owned()),
            (Err(error), _) => (false, format!("cannot be looked at ({error})")),
            (Ok(meta), true) if meta.is_dir() => (true, "is there".to_owned()),
            (Ok(_), true) => (false, "is no folder".to_owned()),
            (Ok(meta), false) if meta.is_dir() => (false, "is a folder".to_owned()),
            (Ok(_), false) => (true, "is there".to_owned()),
        };
        let slash = if *is_folder && !name.ends_with('/') { "/" } else { "" };
        step.details.push(format!("{name}{slash}: {words}"));
        if is_there {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_hosts_as_the_table_has_them() {
        for (name, host, fits) in [
            ("a.example", "a.example", true),
            ("A.example", "a.example", true),
            ("*.example", "a.example", true),
            ("*.example", "example", false),
            (".example", "example", true),
            (".example", "a.example", true),
            ("www.*", "www.example", true),
            ("www.*", "example", false),
            ("_", "a.example", false),
            ("\"\"", "", false),
        ] {
            assert_eq!(names_host(name, host), fits, "{name} {host}");
        }
    }

    #[test]
    fn a_head_has_one_host() {
        let asked = AskedRequest {
            method: "GET".to_owned(),
            is_secure: false,
            authority: "a:81".to_owned(),
            host: "a".to_owned(),
            port: Some(81),
            target: "/".to_owned(),
        };
        let of = |fields: &[&str]| head(&asked, &fields.iter().map(|field| (*field).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["A: b"]), Ok(b"GET / HTTP/1.1\r\nHost: a:81\r\nA: b\r\n\r\n".to_vec()));
        assert_eq!(of(&["host: b"]), Ok(b"GET / HTTP/1.1\r\nhost: b\r\n\r\n".to_vec()));
        assert!(of(&["A"]).is_err() && of(&["A: b\nC: d"]).is_err());
    }
}
