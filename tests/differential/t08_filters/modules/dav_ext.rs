//! `dav_ext_methods`, `dav_ext_lock`: what is answered as Debian's module does. Where freerun follows RFC 4918 more closely, a
//! test of the suite has it.

use super::{setup, taken_alike};
use crate::exchange::text_without_ports;
use crate::runner::{Both, both};
use crate::site::MTIME;
use freerun_testkit::{Kind, Site, TestServer};

const MODULE: &[&str] = &["ngx_http_dav_ext_module"];

fn site() -> Site {
    let site = Site::new();
    site.dated("a.txt", "hello\n", MTIME)
        .dated("d/we&ird <n>.txt", "x", MTIME)
        .dated("d/b.html", "hi\n", MTIME)
        .dated("d/.hidden", "h", MTIME)
        .folder("d/sub")
        .folder("e");
    open_to_all(site.path());
    site
}

/// Workers run as another user.
fn open_to_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = if path.is_dir() { 0o777 } else { 0o666 };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("the mode");
    if path.is_dir() {
        for entry in std::fs::read_dir(path).expect("reading") {
            open_to_all(&entry.expect("an entry").path());
        }
    }
}

/// The answer, without what differs on purpose: classes in `DAV`, tokens, the kinds of locks that are supported, the times of
/// folders, and the order of the entries.
fn told(server: &TestServer, method: &str, target: &str, fields: &str, body: &str) -> (String, Option<String>) {
    let mut client = server.connect();
    let length = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    ));
    let response = client.response_to(method);
    let token = response.header("Lock-Token").map(|token| token.trim_matches(['<', '>']).to_owned());
    let mut text = response.text().replace('\n', "");
    if let Some(token) = &token {
        text = text.replace(token, "TOKEN");
    }
    while let Some((before, rest)) = text.split_once("<D:supportedlock>") {
        let after = rest.split_once("</D:supportedlock>").map_or("", |(_, after)| after);
        text = format!("{before}SUPPORTED{after}");
    }
    // Folders are made by the test.
    let parts = text.split("<D:response>").map(|part| match part.split_once("<D:getlastmodified>") {
        Some((before, rest)) if part.contains("<D:collection/>") => {
            format!("{before}{}", rest.split_once("</D:getlastmodified>").map_or("", |(_, after)| after))
        }
        _ => part.to_owned(),
    });
    let mut parts: Vec<String> = parts.map(|part| part.replace("</D:multistatus>", "")).collect();
    parts.sort();
    let text = if response.status < 300 { parts.join("\n    ") } else { String::new() };
    let kept = ["Content-Type", "Allow", "Location"].map(|name| response.header(name).unwrap_or_default().to_owned());
    let kept = if response.status < 300 { kept.join("|") } else { String::new() };
    let shown = format!("{method} {target} {}: {} {kept}\n    {text}", fields.replace("\r\n", " "), response.status);
    (text_without_ports(&shown, &[server.port()]), token)
}

const LINES: &str = "location / { dav_methods PUT DELETE MKCOL COPY MOVE; dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK; dav_ext_lock zone=foo; }
    location /nolock/ { alias @ROOT@/; dav_methods PUT; dav_ext_methods PROPFIND OPTIONS; }
    location /none/ { alias @ROOT@/; dav_methods PUT; }";

fn prop(names: &str) -> String {
    format!("<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\">{names}</D:propfind>")
}

/// The answers of a server to all requests, without tokens: those are not the same.
fn answers(kind: Kind) -> Option<Vec<String>> {
    let site = site();
    let server = setup(MODULE, &site, "dav_ext_lock_zone zone=foo:1m timeout=5m;", LINES)?.start(kind);
    let mut out = Vec::new();
    let mut ask = |method: &str, target: &str, fields: &str, body: &str| {
        let (shown, token) = told(&server, method, target, fields, body);
        out.push(shown);
        token
    };
    // Where some of the methods are not allowed, the answer of nginx names them nevertheless.
    for target in ["/", "/a.txt", "/none/"] {
        ask("OPTIONS", target, "", "");
    }
    for target in ["/", "/a.txt", "/d/", "/d", "/nothing", "/nolock/d/", "/none/a.txt"] {
        for depth in ["", "Depth: 0\r\n", "Depth: 1\r\n", "Depth: infinity\r\n", "Depth: 2\r\n"] {
            ask("PROPFIND", target, depth, "");
        }
    }
    for body in [
        prop("<D:allprop/>"),
        prop("<D:propname/>"),
        prop("<D:prop><D:getcontentlength/><D:resourcetype/></D:prop>"),
        "garbage".to_owned(),
        "<a><b></a>".to_owned(),
    ] {
        ask("PROPFIND", "/a.txt", "Depth: 0\r\n", &body);
    }
    let exclusive = "<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
                     <D:locktype><D:write/></D:locktype></D:lockinfo>";
    let token = ask("LOCK", "/a.txt", "Timeout: Second-100\r\n", exclusive).expect("a lock");
    let with = format!("If: (<{token}>)\r\n");
    let refresh = with.as_str();
    ask("LOCK", "/a.txt", "", exclusive);
    ask("PUT", "/a.txt", "", "new");
    ask("PUT", "/a.txt", refresh, "new");
    for (method, target, fields) in [
        ("DELETE", "/a.txt", ""),
        ("MOVE", "/a.txt", "Destination: /b.txt\r\n"),
        ("COPY", "/a.txt", "Destination: /c.txt\r\n"),
        ("COPY", "/c.txt", "Destination: /a.txt\r\n"),
        ("MKCOL", "/f/", ""),
        ("LOCK", "/a.txt", refresh),
        ("UNLOCK", "/a.txt", &format!("Lock-Token: <{token}>\r\n")),
        ("DELETE", "/a.txt", ""),
    ] {
        ask(method, target, fields, "");
    }
    ask("LOCK", "/new.txt", "", exclusive);
    ask("LOCK", "/missing/x", "", exclusive);
    ask("LOCK", "/e/", "Depth: 1\r\n", exclusive);
    let token = ask("LOCK", "/d/", "Depth: infinity\r\n", exclusive).expect("a lock");
    ask("PUT", "/d/b.html", "", "x");
    ask("LOCK", "/d/b.html", "", exclusive);
    ask("PUT", "/d/b.html", &format!("If: (<{token}>)\r\n"), "x");
    ask("LOCK", "/nolock/a.txt", "", exclusive);
    Some(out.into_iter().map(|line| without_token(&line.replace(&token, "TOKEN"))).collect())
}

fn without_token(line: &str) -> String {
    let mut line = line.to_owned();
    for begin in ["If: (<", "Lock-Token: <"] {
        if let Some((before, rest)) = line.clone().split_once(begin) {
            line = format!("{before}{begin}{}", rest.split_once('>').map_or("", |(_, after)| after));
        }
    }
    line
}

#[test]
fn properties_and_locks() {
    let Some(Both { nginx: Some(nginx), freerun: Some(freerun) }) = both(answers) else { return };
    Both { nginx, freerun }.assert_same_cases(|number| format!("request {}", number + 1));
}

#[test]
fn lines_that_are_refused() {
    taken_alike(
        MODULE,
        &[
            "dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK;",
            "dav_ext_methods off;",
            "dav_ext_methods;",
            "dav_ext_methods x;",
            "dav_ext_lock;",
            "dav_ext_lock x;",
            "dav_ext_lock zone=none;",
            "dav_ext_lock_zone zone=a:1m;",
        ],
    );
}
