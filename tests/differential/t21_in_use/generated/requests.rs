//! Requests, and connections that carry one or several of them.

use super::grammar::expand;
use super::random::Random;
use crate::site::MTIME;

/// A request; `@HOST@` in its texts stands for the name of the server it is meant for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub version: String,
    pub fields: Vec<String>,
    pub body: String,
}

impl Request {
    /// Whether its body comes in chunks.
    pub fn is_chunked(&self) -> bool {
        self.fields.iter().any(|field| field.starts_with("Transfer-Encoding:"))
    }

    fn text(&self) -> String {
        if self.version.is_empty() {
            return format!("{} {}\r\n", self.method, self.target);
        }
        let mut text = format!("{} {} HTTP/{}\r\n", self.method, self.target, self.version);
        for field in &self.fields {
            text += &format!("{field}\r\n");
        }
        text + "\r\n" + &self.body
    }
}

/// The bytes of a connection.
pub fn bytes(requests: &[Request], host: &str) -> Vec<u8> {
    let text: String = requests.iter().map(Request::text).collect();
    text.replace("@HOST@", host).into_bytes()
}

/// What a client says on one connection.
pub fn connection(random: &mut Random) -> Vec<Request> {
    let count = if random.chance(75) { 1 } else { 2 + random.below(3) };
    (0..count).map(|at| request(random, at + 1 == count)).collect()
}

fn request(random: &mut Random, last: bool) -> Request {
    let method = *random.pick(&[
        "GET", "GET", "GET", "GET", "GET", "GET", "GET", "GET", "HEAD", "HEAD", "POST", "POST", "PUT", "DELETE",
        "OPTIONS", "PATCH",
    ]);
    // nginx 1.22 does not know the only target that CONNECT has had since 1.29.3.
    let method =
        if random.chance(2) { random.pick(&["TRACE", "get", "MKCOL", "G-T", "TRACE", "PROPFIND"]) } else { method };
    let version = match random.below(40) {
        0..4 => "1.0",
        4 => *random.pick(&["1.2", "2.0", "0.9", "1.10", ""]),
        _ => "1.1",
    };
    let version = if version.is_empty() && (!last || method != "GET") { "1.1" } else { version };
    let mut fields = Vec::new();
    if version != "1.0" || random.chance(70) {
        let host = if random.chance(8) {
            *random.pick(&["a.@HOST@", "b.a.@HOST@", "@HOST@:8080", "@HOST@.", "www.@HOST@"])
        } else {
            "@HOST@"
        };
        fields.push(format!("Host: {host}"));
    }
    for _ in 0..random.below(4) {
        let field = field(random);
        let name = |field: &str| field.split(':').next().unwrap_or_default().to_ascii_lowercase();
        // How repeated ones are joined has changed since.
        if random.chance(60) && !fields.iter().any(|other: &String| name(other) == name(&field)) {
            fields.push(field);
        }
    }
    let mut body = String::new();
    if random.chance(if ["GET", "HEAD"].contains(&method) { 4 } else { 70 }) {
        // Some are longer than the buffer of the head.
        let content = "0123456789abcdefghij".repeat(if random.chance(10) { 80 } else { 1 + random.below(10) });
        if content.len() > 200 || random.chance(70) || version != "1.1" {
            fields.push(format!("Content-Length: {}", content.len()));
            body = content;
        } else {
            fields.push("Transfer-Encoding: chunked".to_owned());
            body = format!("{:x}\r\n{content}\r\n0\r\n\r\n", content.len());
        }
        if random.chance(8) {
            fields.push("Expect: 100-continue".to_owned());
        }
    }
    let target = target(random);
    Request { method: method.to_owned(), target, version: version.to_owned(), fields, body }
}

fn target(random: &mut Random) -> String {
    let rule = if random.chance(85) { "<path>" } else { "<prefix>" };
    let mut path = expand(random, rule);
    if random.chance(20) {
        let at = random.below(path.len() + 1);
        let (before, after) = path.split_at(at);
        let between = *random.pick(&[
            "/", "//", "/./", "/../", "/x/..", "%2f", "%20", "x", ".", "%2e", "\\", "+", "%00", "%zz", "%", "\"", "..",
            "%3f", "%2E%2E/", "%25",
        ]);
        path = format!("{before}{between}{after}");
        if !path.starts_with('/') {
            path.insert(0, '/');
        }
    }
    if random.chance(6) {
        // One byte in its other form.
        let at = random.below(path.len());
        let byte = path.as_bytes()[at];
        if byte.is_ascii_alphanumeric() {
            path.replace_range(at..=at, &format!("%{byte:02X}"));
        }
    }
    if random.chance(35) {
        path += *random.pick(&[
            "?a=b",
            "?a=1&b=2",
            "?",
            "?a",
            "?r=/dir",
            "?a=b#f",
            "?x=%20&a=%2F",
            "??",
            "?A=b",
            "?a=b&a=c",
            "?a=f.txt",
            "?b=a=c",
        ]);
    }
    match random.below(60) {
        0 => format!("http://@HOST@{path}"),
        1 => "*".to_owned(),
        2 => path + "#frag",
        3 => path.trim_start_matches('/').to_owned() + "x",
        4 => format!("HTTP://@HOST@:80{path}"),
        _ => path,
    }
}

fn field(random: &mut Random) -> String {
    let size = *random.pick(&[16, 4000, 0, 8]);
    let etag = format!("\"{MTIME:x}-{size:x}\"");
    let date = *random.pick(&[
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:36 GMT",
        "Mon, 07 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "nonsense",
    ]);
    let tag = random
        .pick(&[etag.clone(), format!("W/{etag}"), "*".into(), "\"x\"".into(), format!("\"x\", {etag}"), "x".into()])
        .clone();
    match random.below(25) {
        0..4 => {
            let range = *random.pick(&[
                "0-3",
                "4-",
                "-5",
                "0-0,2-3",
                "0-,0-",
                "100-",
                "3-1",
                "-0",
                "0-99999999999999999999",
                "a-b",
                "0-3,",
                " 0-3 , 5-6",
                "-3,-5",
                "0-1,3-4,6-7",
                "15-15",
                "16-16",
                "0-15,0-15",
            ]);
            format!("Range: {}{range}", random.pick(&["bytes=", "bytes=", "bytes=", "Bytes=", "bytes = ", "chars="]))
        }
        4 | 5 => format!("If-Modified-Since: {date}"),
        6 | 7 => format!("If-None-Match: {tag}"),
        8 => format!("If-Range: {}", if random.chance(50) { tag } else { date.to_owned() }),
        9 => format!("If-Match: {tag}"),
        10 => format!("If-Unmodified-Since: {date}"),
        11 | 12 => format!("Connection: {}", random.pick(&["close", "keep-alive", "x"])),
        13 | 14 => format!(
            "Authorization: {}",
            random.pick(&[
                "Basic dXNlcjpwdw==",
                "Basic dXNlcjp4",
                "Basic Zm9vOnB3",
                "Bearer x",
                "Basic",
                "basic dXNlcjpwdw=="
            ])
        ),
        15 => format!("Cookie: {}", random.pick(&["c=1", "b=2; c=3", "c", "c=\"q\"", "C=4"])),
        16 => format!("X-Y: {}", random.pick(&["1", "a b", ""])),
        17 => random.pick(&["X_Y: 2", "X Y: 3", "X.Y: 4", ": 5", "X-Y : 6", "X\u{e9}: 7", "X@Y: 8"]).to_string(),
        18 => format!("Content-Type: {}", random.pick(&["text/plain", "application/x-www-form-urlencoded", "x"])),
        19 => format!(
            "User-Agent: {}",
            random.pick(&[
                "Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)",
                "Mozilla/5.0 (Macintosh; U) AppleWebKit/125.2 (KHTML, like Gecko) Safari/125.8",
                "curl/8"
            ])
        ),
        20 => format!("Referer: {}", random.pick(&["http://e.example/", "http://@HOST@/x", "x"])),
        21 => format!("X-Long: {}", "l".repeat(random.below(500))),
        22 | 24 => "Accept-Encoding: gzip".to_owned(),
        _ => format!("X-Forwarded-For: {}", random.pick(&["10.1.2.3", "10.1.2.3, 127.0.0.1", "x"])),
    }
}
