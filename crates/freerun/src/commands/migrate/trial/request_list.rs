//! The requests that are sent to both servers: from the lines of access logs, or from a list.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead};
use std::net::IpAddr;

use freerun_conf::text_of;
use freerun_serve::logs::access_log::LineFormat;
use freerun_serve::tls::upstream::without_port;
use serde::Serialize;

use super::logged_request::{ACCEPTED, LoggedRequest, logged, values};
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

    fn key(&self) -> RequestKey {
        (self.listener, self.method.clone(), self.authority.clone(), self.target.clone())
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
    /// Requests that were not taken, since the list was full or one line fits too many addresses.
    pub cut: u64,
    /// Whether there were more lines than are read.
    pub is_cut: bool,
}

/// A log, or a list, that requests come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RequestSource {
    /// The path, or `-` for standard input.
    pub path: String,
    /// Lines that were read.
    pub lines: u64,
    /// Requests that were taken.
    pub requests: usize,
    /// Requests that were not taken, since the list was full or one line fits too many addresses.
    pub cut: u64,
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

/// The parts of a request that make it a different one: the address, the method, the host and the target.
type RequestKey = (usize, String, String, String);

/// A list of different requests. Its sources get equal shares of it; what one does not need is left to the others.
///
/// Invariants: the keys that are known belong to the requests of all sources, at most `count` together.
pub struct RequestList<'s> {
    sites: &'s Sites,
    rules: ListRules,
    known: HashSet<RequestKey>,
    /// The sources with their requests; the last one is being read.
    sources: Vec<(RequestSource, Vec<ReplayedRequest>)>,
    /// The place at which the next line begins that fits too many addresses.
    turn: usize,
    /// Numbers of lines.
    pub counts: LineCounts,
}

impl<'s> RequestList<'s> {
    /// An empty list.
    pub fn new(sites: &'s Sites, rules: ListRules) -> RequestList<'s> {
        let (known, sources, turn, counts) = Default::default();
        RequestList { sites, rules, known, sources, turn, counts }
    }

    /// Adds the requests of an access log, whose lines have one of these formats. Of servers that write this log, those are
    /// asked that may have got the request.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn add_log(
        &mut self,
        path: &str,
        log: &mut dyn BufRead,
        formats: &[LineFormat],
        writers: &[usize],
    ) -> io::Result<()> {
        self.each_line(path, log, |list, line| {
            let Some(values) = values(formats, line) else {
                list.counts.unreadable += 1;
                return;
            };
            let knows = |name: &str| formats.iter().any(|format| format.names().any(|known| known == name));
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
    pub fn add_list(&mut self, path: &str, lines: &mut dyn BufRead) -> io::Result<()> {
        self.each_line(path, lines, |list, line| {
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

    /// Reads the lines of a source to their end: those behind a full list are counted.
    fn each_line(
        &mut self,
        path: &str,
        lines: &mut dyn BufRead,
        mut take: impl FnMut(&mut Self, &[u8]),
    ) -> io::Result<()> {
        self.sources.push((RequestSource { path: path.to_owned(), ..RequestSource::default() }, Vec::new()));
        let before = self.counts.lines;
        let mut line = Vec::new();
        while read_line(lines, &mut line)? {
            if self.counts.lines >= MAX_LINES {
                self.counts.is_cut = true;
                break;
            }
            self.counts.lines += 1;
            if line.len() > MAX_LINE {
                self.counts.unreadable += 1;
            } else {
                take(self, &line);
            }
        }
        if let Some((source, _)) = self.sources.last_mut() {
            source.lines = self.counts.lines - before;
        }
        Ok(())
    }

    /// Adds a request, once for each address that may have got it.
    fn add(&mut self, logged: LoggedRequest, writers: &[usize]) {
        if !self.rules.all_methods && !is_safe(&logged.method) {
            let methods = &mut self.counts.unsafe_methods;
            let is_known = methods.contains_key(&logged.method) || methods.len() < MAX_METHODS;
            let name = if is_known { logged.method } else { "others".to_owned() };
            *methods.entry(name).or_default() += 1;
            return;
        }
        let mut places = self.places(&logged, writers);
        if places.is_empty() {
            self.counts.without_address += 1;
        }
        if places.len() > MAX_PLACES {
            // Lines take turns, so that each address is asked.
            let begin = self.turn % places.len();
            places.rotate_left(begin);
            self.turn = begin + MAX_PLACES;
            self.cut(places.len() - MAX_PLACES);
            places.truncate(MAX_PLACES);
        }
        for (listener, authority) in places {
            let LoggedRequest { method, target, fields, .. } = &logged;
            let (method, target, mut fields) = (method.clone(), target.clone(), fields.clone());
            if !fields.iter().any(|(name, _)| name == ACCEPTED.0) {
                fields.push((ACCEPTED.0.to_owned(), ACCEPTED.1.into()));
            }
            self.take(ReplayedRequest { method, target, authority, listener, fields });
        }
    }

    /// Takes a request of the last source if it is a different one, and if there is room or another source has more than its
    /// share.
    fn take(&mut self, request: ReplayedRequest) {
        let key = request.key();
        if self.known.contains(&key) {
            self.counts.repeated += 1;
            return;
        }
        let is_full = self.known.len() >= self.rules.count;
        if is_full && !self.make_room() {
            return self.cut(1);
        }
        let Some((_, requests)) = self.sources.last_mut() else { return };
        requests.push(request);
        self.known.insert(key);
        debug_assert!(self.known.len() <= self.rules.count, "{} requests were taken", self.known.len());
    }

    /// Gives up the last request of the source with the most, if it has more than its share beside the last one.
    fn make_room(&mut self) -> bool {
        let Some(((_, own), others)) = self.sources.split_last_mut() else { return false };
        let Some((source, requests)) = others.iter_mut().max_by_key(|(_, requests)| requests.len()) else {
            return false;
        };
        if requests.len() <= own.len() + 1 {
            return false;
        }
        let Some(given_up) = requests.pop() else { return false };
        self.known.remove(&given_up.key());
        source.cut += 1;
        self.counts.cut += 1;
        true
    }

    /// Counts requests of the last source that are not taken.
    fn cut(&mut self, count: usize) {
        self.counts.cut += count as u64;
        if let Some((source, _)) = self.sources.last_mut() {
            source.cut += count as u64;
        }
    }

    /// The requests, of one source after the other by turns, with the numbers of lines and the sources.
    pub fn finish(self) -> (Vec<ReplayedRequest>, LineCounts, Vec<RequestSource>) {
        let longest = self.sources.iter().map(|(_, requests)| requests.len()).max().unwrap_or_default();
        let (mut sources, mut rest) = (Vec::new(), Vec::new());
        for (source, requests) in self.sources {
            sources.push(RequestSource { requests: requests.len(), ..source });
            rest.push(requests.into_iter());
        }
        let mut all = Vec::with_capacity(self.known.len());
        for _ in 0..longest {
            all.extend(rest.iter_mut().filter_map(Iterator::next));
        }
        (all, self.counts, sources)
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
        list.add_log("x", &mut Cursor::new(lines), &[format], writers).expect("a text");
        let (requests, counts, _) = list.finish();
        let port = |request: &ReplayedRequest| sites.listeners[request.listener].written.port();
        let shown = |request: &ReplayedRequest| {
            format!("{} {}{} at {}", request.method, request.authority, request.target, port(request))
        };
        (requests.iter().map(shown).collect(), counts)
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
        assert_eq!((requests.len(), counts.lines, counts.cut, counts.is_cut), (100, 1000, 900, false));
        let long = format!("\"GET /{} HTTP/1.1\" 200\n\"GET / HTTP/1.1\" 200\n", "a".repeat(10 * MAX_LINE));
        let (requests, counts) = replayed(PLAIN, &[0], &long, rules());
        assert_eq!((requests.len(), counts.unreadable), (1, 1));
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
        list.add_list("x", &mut Cursor::new(text)).expect("a text");
        let (requests, counts, _) = list.finish();
        let targets: Vec<_> = requests.iter().map(|request| (request.target.as_str(), request.listener)).collect();
        let all = [("/x", 1), ("/y", 0), ("/z", 0), ("/z", 0), ("/z", 1), ("/z", 2)];
        assert_eq!((targets, counts.unreadable), (all.to_vec(), 1));
    }

    /// The requests that each of these logs, with so many lines, gets of a list of this length, and those that are cut.
    fn shares(count: usize, logs: &[usize]) -> Vec<(usize, u64)> {
        let sites = sites();
        let mut list = RequestList::new(&sites, ListRules { count, ..rules() });
        let format = [LineFormat::new(Escape::Default, PLAIN)];
        for (log, lines) in logs.iter().enumerate() {
            let text: String = (0..*lines).map(|line| format!("\"GET /{log}/{line} HTTP/1.1\" 200\n")).collect();
            list.add_log(&log.to_string(), &mut Cursor::new(text), &format, &[0]).expect("a text");
        }
        let (requests, counts, sources) = list.finish();
        assert_eq!(requests.len(), sources.iter().map(|source| source.requests).sum::<usize>());
        assert_eq!(counts.cut, sources.iter().map(|source| source.cut).sum::<u64>());
        // The sources take turns.
        let first = |target: &str| target.split('/').nth(1).map(str::to_owned);
        let turns: HashSet<_> = requests.iter().take(logs.len()).map(|request| first(&request.target)).collect();
        assert_eq!(turns.len(), sources.iter().filter(|source| source.requests > 0).count().min(count));
        sources.iter().map(|source| (source.requests, source.cut)).collect()
    }

    #[test]
    fn each_log_has_its_share_of_the_list() {
        assert_eq!(shares(10, &[100, 100]), [(5, 95), (5, 95)]);
        assert_eq!(shares(10, &[100, 2, 100]), [(4, 96), (2, 0), (4, 96)]);
        assert_eq!(shares(10, &[2, 100]), [(2, 0), (8, 92)]);
        assert_eq!(shares(10, &[100, 0]), [(10, 90), (0, 0)]);
        assert_eq!(shares(10, &[3, 3]), [(3, 0), (3, 0)]);
        assert_eq!(shares(2, &[5, 5, 5]), [(1, 4), (1, 4), (0, 5)]);
    }

    #[test]
    fn lines_that_fit_many_addresses_take_turns() {
        let servers: String =
            (0..40).map(|number| format!("server {{ listen 80; server_name s{number}; }} ")).collect();
        let text = format!("http {{ {servers} }}");
        let tree = freerun_conf::parse("x", None, "", &mut OneText(&text));
        let mut addresses = TrialAddresses::default();
        change(&tree, &RecordedTexts::default(), ("/t", "/"), &mut addresses).expect("free ports");
        let sites = Sites::of(&tree, &addresses, "/");
        let mut list = RequestList::new(&sites, rules());
        list.add_list("x", &mut Cursor::new("/1\n/2\n/3\n")).expect("a text");
        let (requests, counts, _) = list.finish();
        let hosts: HashSet<_> = requests.iter().map(|request| request.authority.as_str()).collect();
        assert_eq!((hosts.len(), requests.len(), counts.cut), (40, 3 * MAX_PLACES, 3 * (40 - MAX_PLACES as u64)));
    }

    #[test]
    fn a_log_may_have_lines_of_several_formats() {
        let sites = sites();
        let mut list = RequestList::new(&sites, rules());
        let formats = [PLAIN, "$host $request_uri"].map(|text| LineFormat::new(Escape::Default, text));
        let lines = "\"GET /1 HTTP/1.1\" 200\na.example /2\n";
        list.add_log("x", &mut Cursor::new(lines), &formats, &[0]).expect("a text");
        let (requests, counts, _) = list.finish();
        let targets: Vec<_> = requests.iter().map(|request| request.target.as_str()).collect();
        assert_eq!((targets, counts.unreadable), (vec!["/1", "/2"], 0));
    }
}
