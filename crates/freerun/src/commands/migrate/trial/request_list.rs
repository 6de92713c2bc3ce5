//! The requests that are sent to both servers: from the lines of access logs, or from a list.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead};
use std::net::IpAddr;

use freerun_conf::text_of;
use freerun_serve::logs::access_log::LineFormat;
use freerun_serve::tls::upstream::without_port;
use serde::Serialize;

use super::sites::Sites;
use crate::commands::explain::{AskedRequest, ExplainedSubject, names_host, parse_request};

/// The longest line that is read, in bytes; longer ones are passed over.
const MAX_LINE: usize = 64 << 10;

/// The most lines that are read.
const MAX_LINES: u64 = 20_000_000;

/// The most servers and addresses that one line is sent to.
const MAX_PLACES: usize = 16;

/// The most methods that are counted by their names.
const MAX_METHODS: usize = 20;

/// Methods that change nothing (RFC 9110 section 9.2.1), but `TRACE`, which no server answers.
const SAFE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Fields of the client that are not sent: they are about its connection, or about a body that is not there.
const OWN_FIELDS: [&str; 8] =
    ["connection", "content-length", "expect", "host", "te", "trailer", "transfer-encoding", "upgrade"];

/// The field that is added to requests that do not have it. Answers with this coding can be compared.
const ACCEPTED: (&str, &str) = ("accept-encoding", "gzip");

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayedRequest {
    /// The method.
    pub method: String,
    /// The target: the path with its arguments.
    pub target: String,
    /// The value of `Host`.
    pub authority: String,
    /// The place of the address in [`Sites::listeners`].
    pub listener: usize,
    /// Further fields.
    pub fields: Vec<(String, Vec<u8>)>,
}

/// Whether a method changes nothing.
pub fn is_safe(method: &str) -> bool {
    SAFE.contains(&method)
}

impl ReplayedRequest {
    /// The host without its port.
    pub fn host(&self) -> &str {
        without_port(&self.authority)
    }
}

/// Numbers of lines by what became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LineCounts {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that have another format, or are too long.
    pub unreadable: u64,
    /// Lines of what was no request of HTTP.
    pub no_requests: u64,
    /// Requests that may change something, by their methods.
    pub unsafe_methods: BTreeMap<String, u64>,
    /// Requests that were there before.
    pub repeated: u64,
    /// Requests for which no address fits.
    pub without_address: u64,
    /// Whether the list was full before the end of the lines.
    pub is_cut: bool,
}

/// Rules for the list.
#[derive(Debug, Clone, Default)]
pub struct ListRules {
    /// The most requests.
    pub count: usize,
    /// Whether methods that may change something are taken.
    pub all_methods: bool,
    /// The host of requests whose line does not have it.
    pub host: Option<String>,
}

/// A list of different requests.
pub struct RequestList<'s> {
    sites: &'s Sites,
    rules: ListRules,
    known: HashSet<(usize, String, String, String)>,
    /// The requests.
    pub requests: Vec<ReplayedRequest>,
    /// Numbers of lines.
    pub counts: LineCounts,
}

/// The request that a line describes.
#[derive(Debug, Default)]
struct LoggedRequest {
    method: String,
    target: String,
    host: Option<String>,
    is_secure: Option<bool>,
    port: Option<u16>,
    fields: Vec<(String, Vec<u8>)>,
}

impl<'s> RequestList<'s> {
    /// An empty list.
    pub fn new(sites: &'s Sites, rules: ListRules) -> RequestList<'s> {
        let (known, requests, counts) = Default::default();
        RequestList { sites, rules, known, requests, counts }
    }

    /// Whether it has as many requests as it may have.
    pub fn is_full(&self) -> bool {
        self.requests.len() >= self.rules.count
    }

    /// Adds the requests of an access log. Of servers that write this log, those are asked that may have got the request.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn add_log(&mut self, log: &mut dyn BufRead, format: &LineFormat, writers: &[usize]) -> io::Result<()> {
        self.each_line(log, |list, line| {
            let Some(values) = values(format, line) else {
                list.counts.unreadable += 1;
                return;
            };
            let knows = |name: &str| format.names().any(|known| known == name);
            match logged(&values, knows) {
                Some(logged) => list.add(logged, writers),
                None => list.counts.no_requests += 1,
            }
        })
    }

    /// Adds the requests of a list: a method and a URL, or one of the two, on each line; `#` begins a comment.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn add_list(&mut self, lines: &mut dyn BufRead) -> io::Result<()> {
        self.each_line(lines, |list, line| {
            let text = text_of(line);
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                return;
            }
            let Ok(ExplainedSubject::Http(asked)) = parse_request(text) else {
                list.counts.unreadable += 1;
                return;
            };
            let AskedRequest { method, is_secure, authority, port, target, .. } = asked;
            let is_url = port.is_some();
            let listens = |port: &u16| list.sites.listeners.iter().any(|listener| listener.written.port() == *port);
            let logged = LoggedRequest {
                method,
                target,
                host: Some(authority).filter(|_| is_url),
                is_secure: is_url.then_some(is_secure),
                port: port.filter(listens),
                fields: Vec::new(),
            };
            let all: Vec<usize> = (0..list.sites.servers.len()).collect();
            list.add(logged, &all);
        })
    }

    fn each_line(&mut self, lines: &mut dyn BufRead, mut take: impl FnMut(&mut Self, &[u8])) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            let was_read = read_line(lines, &mut line)?;
            if !was_read {
                return Ok(());
            }
            if self.is_full() || self.counts.lines >= MAX_LINES {
                self.counts.is_cut = true;
                return Ok(());
            }
            self.counts.lines += 1;
            if line.len() > MAX_LINE {
                self.counts.unreadable += 1;
            } else {
                take(self, &line);
            }
        }
    }

    /// Adds a request, once for each address that may have got it.
    fn add(&mut self, logged: LoggedRequest, writers: &[usize]) {
        if !self.rules.all_methods && !is_safe(&logged.method) {
            let methods = &mut self.counts.unsafe_methods;
            let name = if methods.len() < MAX_METHODS { logged.method } else { "others".to_owned() };
            *methods.entry(name).or_default() += 1;
            return;
        }
        let places = self.places(&logged, writers);
        if places.is_empty() {
            self.counts.without_address += 1;
        }
        for (listener, authority) in places.into_iter().take(MAX_PLACES) {
            let LoggedRequest { method, target, fields, .. } = &logged;
            if self.is_full() {
                self.counts.is_cut = true;
            } else if self.known.insert((listener, method.clone(), authority.clone(), target.clone())) {
                let (method, target, mut fields) = (method.clone(), target.clone(), fields.clone());
                if !fields.iter().any(|(name, _)| name == ACCEPTED.0) {
                    fields.push((ACCEPTED.0.to_owned(), ACCEPTED.1.into()));
                }
                self.requests.push(ReplayedRequest { method, target, authority, listener, fields });
            } else {
                self.counts.repeated += 1;
            }
        }
    }

    /// The addresses that may have got a request, each with the value of `Host`.
    fn places(&self, logged: &LoggedRequest, writers: &[usize]) -> Vec<(usize, String)> {
        let LoggedRequest { host, is_secure, port, .. } = logged;
        let fits = |place: &usize| {
            let listener = &self.sites.listeners[*place];
            is_secure.is_none_or(|is_secure| is_secure == listener.is_tls)
                && port.is_none_or(|port| port == listener.written.port())
        };
        let mut places = Vec::new();
        let mut add = |server: usize, authority: Option<&str>| {
            let server = &self.sites.servers[server];
            for place in self.sites.different_listeners(server).into_iter().filter(fits) {
                let authority = authority.map(str::to_owned).unwrap_or_else(|| self.authority(server.host(), place));
                if !places.contains(&(place, authority.clone())) {
                    places.push((place, authority));
                }
            }
        };
        let Some(host) = host.as_deref().or(self.rules.host.as_deref()) else {
            writers.iter().for_each(|server| add(*server, None));
            return places;
        };
        let name = without_port(host).to_ascii_lowercase();
        let has_name = |server: &usize| self.sites.servers[*server].names.iter().any(|known| names_host(known, &name));
        let named: Vec<usize> = (0..self.sites.servers.len()).filter(has_name).collect();
        let servers = if named.is_empty() { writers } else { &named };
        servers.iter().for_each(|server| add(*server, Some(host)));
        places
    }

    /// The value of `Host` for a server at an address. A server without a name is asked by its address.
    fn authority(&self, host: Option<String>, place: usize) -> String {
        let listener = &self.sites.listeners[place];
        let port = listener.nginx.port();
        let host = host.unwrap_or_else(|| match listener.nginx.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        });
        if port == if listener.is_tls { 443 } else { 80 } { host } else { format!("{host}:{port}") }
    }
}

/// Reads a line, without its end, into `line`; `false` at the end of the text. Of a line that is too long one byte more than
/// [`MAX_LINE`] is kept.
fn read_line(lines: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let chunk = match lines.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if chunk.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let room = (MAX_LINE + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let taken = end.map_or(chunk.len(), |end| end + 1);
        lines.consume(taken);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(true);
        }
    }
}

/// The values of a line by the names of variables: by the format, or as an object of JSON whose keys are such names.
fn values(format: &LineFormat, line: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    if let Some(values) = format.read(line) {
        return Some(values.into_iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect());
    }
    if line.first() != Some(&b'{') {
        return None;
    }
    let object: BTreeMap<String, serde_json::Value> = serde_json::from_slice(line).ok()?;
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) if text.is_empty() || text == "-" => None,
        serde_json::Value::String(text) => Some(text.into_bytes()),
        serde_json::Value::Number(number) => Some(number.to_string().into_bytes()),
        _ => None,
    };
    let values = object.into_iter().filter_map(|(key, value)| Some((key, text(value)?)));
    // Freerun's own format has shorter names for these.
    let named = |key: String| match key.as_str() {
        "method" => "request_method".to_owned(),
        "referer" | "user_agent" => format!("http_{key}"),
        _ => key,
    };
    Some(values.map(|(key, value)| (named(key), value)).collect())
}

/// The request that the values of a line describe; `knows` says which variables the format has. `None`: it is no request.
fn logged(values: &BTreeMap<String, Vec<u8>>, knows: impl Fn(&str) -> bool) -> Option<LoggedRequest> {
    let text = |name: &str| values.get(name).and_then(|value| std::str::from_utf8(value).ok());
    let (method, target) = match text("request") {
        Some(line) => {
            let mut words = line.split(' ');
            let (method, target, version) = (words.next()?, words.next()?, words.next()?);
            if words.next().is_some() || !version.starts_with("HTTP/") {
                return None;
            }
            (method, target.to_owned())
        }
        None => {
            let method = text("request_method").unwrap_or("GET");
            let target = match (text("request_uri"), text("uri")) {
                (Some(target), _) => target.to_owned(),
                (None, Some(path)) => match text("args").or_else(|| text("query_string")) {
                    Some(args) => format!("{}?{args}", escaped_path(path)),
                    None if path.contains('?') => path.to_owned(),
                    None => escaped_path(path),
                },
                (None, None) => return None,
            };
            (method, target)
        }
    };
    // A target as proxies get it has the host in front.
    let target = match target.strip_prefix("http://").or_else(|| target.strip_prefix("https://")) {
        Some(rest) => rest.find('/').map_or_else(|| "/".to_owned(), |slash| rest[slash..].to_owned()),
        None => target,
    };
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let is_target = target.starts_with('/') && target.bytes().all(|byte| byte > b' ' && byte != 0x7f);
    if !is_method || !is_target {
        return None;
    }
    let is_secure = match (text("scheme"), text("https"), text("ssl_protocol")) {
        (Some(scheme), ..) => Some(scheme == "https"),
        (_, Some(https), _) => Some(https == "on"),
        (.., Some(_)) => Some(true),
        _ if knows("https") || knows("ssl_protocol") => Some(false),
        _ => None,
    };
    let is_host =
        |host: &&str| !host.is_empty() && host.bytes().all(|byte| byte > b' ' && byte != b'/' && byte != 0x7f);
    let host = ["http_host", "host", "server_name"].into_iter().find_map(|name| text(name).filter(is_host));
    let field = |(name, value): (&String, &Vec<u8>)| {
        let name = name.strip_prefix("http_")?.replace('_', "-");
        if name == ACCEPTED.0 {
            let is_accepted = value.windows(ACCEPTED.1.len()).any(|word| word == ACCEPTED.1.as_bytes());
            return Some((name, if is_accepted { ACCEPTED.1 } else { "identity" }.into()));
        }
        let is_sent =
            !OWN_FIELDS.contains(&name.as_str()) && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        is_sent.then(|| (name, value.clone()))
    };
    Some(LoggedRequest {
        method: method.to_owned(),
        host: host.map(str::to_owned),
        is_secure,
        port: text("server_port").and_then(|port| port.parse().ok()),
        fields: values.iter().filter_map(field).collect(),
        target,
    })
}

/// A path as a target has it. `$uri` is the path after its escapes were read.
fn escaped_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'?' | b'#' | b'%' | 0..=b' ' | 0x7f.. => escaped += &format!("%{byte:02X}"),
            byte => escaped.push(char::from(byte)),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use freerun_conf::OneText;
    use freerun_serve::logs::access_log::Escape;

    use super::*;
    use crate::commands::migrate::trial::addresses::TrialAddresses;
    use crate::commands::migrate::trial::texts::change;
    use crate::source::loader::RecordedTexts;

    const SITES: &str = "http { server { listen 80; server_name a.example; access_log /a; }\n\
                         server { listen 80; listen 443 ssl; server_name b.example *.b.example; access_log /b; }\n\
                         server { listen 8080; access_log /a; } }";

    fn sites() -> Sites {
        let tree = freerun_conf::parse("x", None, "", &mut OneText(SITES));
        let mut addresses = TrialAddresses::default();
        change(&tree, &RecordedTexts::default(), ("/t", "/"), &mut addresses).expect("free ports");
        Sites::of(&tree, &addresses, "/")
    }

    fn rules() -> ListRules {
        ListRules { count: 100, all_methods: false, host: None }
    }

    /// The requests of a log, each as `method authority target` with the port, and the counts.
    fn replayed(format: &str, writers: &[usize], lines: &str, rules: ListRules) -> (Vec<String>, LineCounts) {
        let sites = sites();
        let mut list = RequestList::new(&sites, rules);
        let format = LineFormat::new(Escape::Default, format);
        list.add_log(&mut Cursor::new(lines), &format, writers).expect("a text");
        let port = |request: &ReplayedRequest| sites.listeners[request.listener].written.port();
        let shown = |request: &ReplayedRequest| {
            format!("{} {}{} at {}", request.method, request.authority, request.target, port(request))
        };
        (list.requests.iter().map(shown).collect(), list.counts)
    }

    const PLAIN: &str = "\"$request\" $status";

    #[test]
    fn the_servers_that_write_a_log_are_asked_if_it_has_no_host() {
        let (requests, _) = replayed(PLAIN, &[0, 2], "\"GET /x?y HTTP/1.1\" 200\n", rules());
        assert_eq!(requests, ["GET a.example/x?y at 80", "GET 127.0.0.1:8080/x?y at 8080"]);
        let (requests, _) = replayed(PLAIN, &[1], "\"GET / HTTP/1.1\" 200", rules());
        assert_eq!(requests, ["GET b.example/ at 80", "GET b.example/ at 443"]);
        let named = ListRules { host: Some("a.example".to_owned()), ..rules() };
        assert_eq!(replayed(PLAIN, &[1], "\"GET / HTTP/1.1\" 200", named).0, ["GET a.example/ at 80"]);
    }

    #[test]
    fn host_scheme_and_port_of_a_line_choose_the_address() {
        let format = "$http_host $scheme $server_port $request_method $request_uri";
        let lines = "www.b.example https 443 GET /a\nb.example http 80 HEAD /b\nnobody.example http 8080 GET /c\n";
        let (requests, counts) = replayed(format, &[0, 1, 2], lines, rules());
        let expected = ["GET www.b.example/a at 443", "HEAD b.example/b at 80", "GET nobody.example/c at 8080"];
        assert_eq!(requests, expected);
        assert_eq!(counts.without_address, 0);
        let (requests, counts) = replayed(format, &[0], "a.example https 443 GET /\n", rules());
        assert_eq!((requests.len(), counts.without_address), (0, 1));
    }

    #[test]
    fn what_is_no_safe_request_is_counted() {
        let lines = "\"GET / HTTP/1.1\" 200\n\"POST / HTTP/1.1\" 200\n\"\\x16\\x03\" 400\nnonsense\n\"GET / HTTP/1.1\" 304\n\
                     \"GET /a\\x00b HTTP/1.1\" 400\n\"-\" 400\n";
        let (requests, counts) = replayed(PLAIN, &[0], lines, rules());
        assert_eq!(requests, ["GET a.example/ at 80"]);
        assert_eq!((counts.lines, counts.unreadable, counts.no_requests, counts.repeated), (7, 1, 3, 1));
        assert_eq!(counts.unsafe_methods, [("POST".to_owned(), 1)].into());
        let all = ListRules { all_methods: true, ..rules() };
        assert_eq!(replayed(PLAIN, &[0], lines, all).0.len(), 2);
    }

    #[test]
    fn a_list_and_a_line_have_bounds() {
        let lines: String = (0..1000).map(|number| format!("\"GET /{number} HTTP/1.1\" 200\n")).collect();
        let (requests, counts) = replayed(PLAIN, &[0], &lines, rules());
        assert_eq!((requests.len(), counts.lines, counts.is_cut), (100, 100, true));
        let long = format!("\"GET /{} HTTP/1.1\" 200\n\"GET / HTTP/1.1\" 200\n", "a".repeat(10 * MAX_LINE));
        let (requests, counts) = replayed(PLAIN, &[0], &long, rules());
        assert_eq!((requests.len(), counts.unreadable), (1, 1));
    }

    #[test]
    fn fields_that_a_log_has_are_sent() {
        let format = LineFormat::new(Escape::Default, "$http_user_agent|$http_te|$http_accept_encoding|$uri|$args");
        let of = |line: &[u8]| {
            let values = values(&format, line).expect("the format");
            logged(&values, |_| false).expect("a request")
        };
        let logged = of(b"me \\x22|1|br, gzip|/a b|c=d");
        assert_eq!(logged.target, "/a%20b?c=d");
        let field = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        assert_eq!(logged.fields, [field("accept-encoding", "gzip"), field("user-agent", "me \"")]);
        assert_eq!(of(b"-|-|br|/|-").fields, [field("accept-encoding", "identity")]);
    }

    #[test]
    fn objects_of_json_are_read_whatever_the_format_is() {
        let line = r#"{"time":"x","method":"HEAD","host":"b.example","uri":"/a?b=c","status":"200","size":5,"user_agent":"me"}"#;
        let (requests, _) = replayed(PLAIN, &[0], line, rules());
        assert_eq!(requests, ["HEAD b.example/a?b=c at 80", "HEAD b.example/a?b=c at 443"]);
    }

    #[test]
    fn a_list_has_urls_and_paths() {
        let sites = sites();
        let mut list = RequestList::new(&sites, rules());
        let text = "# comment\nhttps://b.example/x\nHEAD http://a.example:80/y\n/z\nnonsense here and there\n";
        list.add_list(&mut Cursor::new(text)).expect("a text");
        let targets: Vec<_> = list.requests.iter().map(|request| (request.target.as_str(), request.listener)).collect();
        let all = [("/x", 1), ("/y", 0), ("/z", 0), ("/z", 0), ("/z", 1), ("/z", 2)];
        assert_eq!((targets, list.counts.unreadable), (all.to_vec(), 1));
    }
}
