//! `dav_ext_methods` and `dav_ext_lock`, by RFC 4918 and with a program that tries servers of WebDAV.

use freerun_testkit::{Response, Setup, Site, TempDir, TestServer, require};
use std::process::Command;

fn site() -> Site {
    let site = Site::new();
    site.file("a.txt", "hello").file("d/b.txt", "b").folder("d/sub");
    site
}

/// A server whose worker runs as the user of the test.
fn serving(site: &Site) -> TestServer {
    let http = "dav_ext_lock_zone zone=locks:1m timeout=5m;
        server { listen 127.0.0.1:@PORT@; root @ROOT@; client_max_body_size 0; dav_methods PUT DELETE MKCOL COPY MOVE;
                 dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK; dav_ext_lock zone=locks; }";
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    Setup::new().root(site).main(user).http(http).freerun()
}

fn ask(server: &TestServer, method: &str, target: &str, fields: &str, body: &str) -> Response {
    let mut client = server.connect();
    let length = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    ));
    client.response_to(method)
}

fn lock(server: &TestServer, target: &str, scope: &str, fields: &str) -> Result<String, u16> {
    let body = format!(
        "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype>\
         <D:owner>me &amp; you</D:owner></D:lockinfo>"
    );
    let response = ask(server, "LOCK", target, fields, &body);
    match response.header("Lock-Token") {
        Some(token) => Ok(token.trim_matches(['<', '>']).to_owned()),
        None => Err(response.status),
    }
}

#[test]
fn properties_that_there_are_not_are_told_as_such() {
    let site = site();
    let server = serving(&site);
    let body = "<D:propfind xmlns:D=\"DAV:\"><D:prop><D:getetag/><D:getcontenttype/><D:quota/><x:y xmlns:x=\"urn:a&amp;b\"/></D:prop></D:propfind>";
    let response = ask(&server, "PROPFIND", "/a.txt", "Depth: 0\r\n", body);
    let text = response.text();
    let etag = server.get("/a.txt").header("ETag").expect("a tag").replace('"', "&quot;");
    assert_eq!(response.status, 207);
    assert!(text.contains(&format!("<D:getetag>{etag}</D:getetag>")), "{text}");
    let (found, missing) = text.split_once("HTTP/1.1 200 OK").expect("two parts");
    assert!(found.contains("<D:getcontenttype>text/plain</D:getcontenttype>"), "{text}");
    assert!(missing.contains("<quota xmlns=\"DAV:\"/>") && missing.contains("<y xmlns=\"urn:a&amp;b\"/>"), "{text}");
    assert!(missing.contains("HTTP/1.1 404 Not Found"), "{text}");
    let deep = format!("<D:propfind xmlns:D=\"DAV:\">{}", "<a>".repeat(1000));
    assert_eq!(ask(&server, "PROPFIND", "/a.txt", "", &deep).status, 400);
}

#[test]
fn a_long_folder_is_told_whole() {
    let site = site();
    for number in 0..2000 {
        site.file(&format!("many/file-{number}"), "");
    }
    let server = serving(&site);
    let text = ask(&server, "PROPFIND", "/many/", "Depth: 1\r\n", "").text();
    assert_eq!(text.matches("<D:response>").count(), 2001);
    assert!(text.trim_end().ends_with("</D:multistatus>"));
}

#[test]
fn locks_are_respected_until_they_are_given_back() {
    let site = site();
    let server = serving(&site);
    let status = |method: &str, target: &str, fields: &str| ask(&server, method, target, fields, "").status;
    let put = |target: &str, fields: &str| ask(&server, "PUT", target, fields, "new").status;
    let token = lock(&server, "/a.txt", "exclusive", "Depth: 0\r\n").expect("a lock");
    assert_eq!(lock(&server, "/a.txt", "shared", ""), Err(423));
    assert_eq!((put("/a.txt", ""), put("/a.txt", &format!("If: (<{token}>)\r\n"))), (423, 204));
    assert_eq!(put("/a.txt", &format!("If: <http://localhost/a.txt> (<{token}>)\r\n")), 204);
    // A condition that does not hold, one that names no lock, and one that is no condition.
    assert_eq!(put("/a.txt", "If: (<urn:other>)\r\n"), 412);
    assert_eq!(put("/a.txt", "If: (Not <DAV:no-lock>)\r\n"), 423);
    assert_eq!(put("/a.txt", "If: ()\r\n"), 400);
    let etag = server.get("/a.txt").header("ETag").expect("a tag").to_owned();
    assert_eq!(put("/a.txt", &format!("If: (<{token}> [\"other\"])\r\n")), 412);
    assert_eq!(put("/a.txt", &format!("If: (<{token}> [{etag}])\r\n")), 204);
    assert_eq!(status("MOVE", "/a.txt", "Destination: /c.txt\r\n"), 423);
    assert_eq!(status("COPY", "/d/b.txt", "Destination: /a.txt\r\n"), 423);
    assert_eq!(status("DELETE", "/a.txt", ""), 423);
    let refreshed = ask(&server, "LOCK", "/a.txt", &format!("If: (<{token}>)\r\n"), "");
    assert_eq!(refreshed.status, 200);
    assert!(refreshed.text().contains("<D:owner>me &amp; you</D:owner>"), "{}", refreshed.text());
    assert_eq!(status("LOCK", "/a.txt", "If: (<urn:other>)\r\n"), 412);
    assert_eq!(status("UNLOCK", "/a.txt", ""), 400);
    assert_eq!(status("UNLOCK", "/a.txt", "Lock-Token: <urn:other>\r\n"), 409);
    assert_eq!(status("UNLOCK", "/d/b.txt", &format!("Lock-Token: <{token}>\r\n")), 409);
    assert_eq!(status("UNLOCK", "/a.txt", &format!("Lock-Token: <{token}>\r\n")), 204);
    assert_eq!(put("/a.txt", ""), 204);
    // What is deleted is locked no more.
    let token = lock(&server, "/a.txt", "exclusive", "").expect("a lock");
    assert_eq!(status("DELETE", "/a.txt", &format!("If: (<{token}>)\r\n")), 204);
    assert_eq!(put("/a.txt", ""), 201);
}

#[test]
fn a_lock_of_a_folder_is_one_of_what_is_in_it() {
    let site = site();
    let server = serving(&site);
    let status = |method: &str, target: &str, fields: &str| ask(&server, method, target, fields, "").status;
    let put = |target: &str, fields: &str| ask(&server, "PUT", target, fields, "new").status;
    let deep = lock(&server, "/d/", "exclusive", "Depth: infinity\r\n").expect("a lock");
    let with = format!("If: </d/> (<{deep}>)\r\n");
    assert_eq!((put("/d/b.txt", ""), put("/d/new.txt", ""), put("/d/new.txt", &with)), (423, 423, 201));
    assert_eq!(lock(&server, "/d/b.txt", "exclusive", ""), Err(423));
    assert_eq!(status("UNLOCK", "/d/b.txt", &format!("Lock-Token: <{deep}>\r\n")), 204);
    // A lock of the folder alone: what is in it may change, but nothing may come or go.
    let flat = lock(&server, "/d/", "exclusive", "Depth: 0\r\n").expect("a lock");
    let with = format!("If: </d/> (<{flat}>)\r\n");
    assert_eq!((put("/d/b.txt", ""), put("/d/newer.txt", ""), put("/d/newer.txt", &with)), (204, 423, 201));
    assert_eq!((status("MKCOL", "/d/m/", ""), status("DELETE", "/d/b.txt", "")), (423, 423));
    assert_eq!(lock(&server, "/d/unknown", "exclusive", ""), Err(423));
    assert_eq!(status("UNLOCK", "/d/", &format!("Lock-Token: <{flat}>\r\n")), 204);
    // Several may share a lock; each of them may write.
    let first = lock(&server, "/d/b.txt", "shared", "").expect("a lock");
    let second = lock(&server, "/d/b.txt", "shared", "").expect("a second one");
    assert!(first != second);
    assert_eq!(lock(&server, "/d/b.txt", "exclusive", ""), Err(423));
    assert_eq!((put("/d/b.txt", ""), put("/d/b.txt", &format!("If: (<{second}>)\r\n"))), (423, 204));
    assert_eq!(status("DELETE", "/d/", ""), 423);
    // A lock where nothing is makes an empty file.
    let made = lock(&server, "/d/made", "exclusive", "").expect("a lock");
    assert_eq!(server.get("/d/made").text(), "");
    assert_eq!((put("/d/made", ""), put("/d/made", &format!("If: (<{made}>)\r\n"))), (423, 204));
}

#[test]
fn litmus_finds_nothing_but_what_is_known() {
    let Some(litmus) = require::program("litmus") else { return };
    let site = site();
    let server = serving(&site);
    let folder = TempDir::new("litmus");
    let url = format!("http://127.0.0.1:{}/", server.port());
    let run = Command::new(litmus).args(["-k", &url]).current_dir(folder.path()).output().expect("litmus");
    let text = String::from_utf8_lossy(&run.stdout).replace('\r', "\n");
    // PROPPATCH there is none; COPY and MOVE onto something of another kind are refused, as with nginx.
    let known = |line: &str| {
        ["PROPPATCH on", "overwrites collection", "over non-collection", "No value given for property"]
            .iter()
            .any(|known| line.contains(known))
    };
    let wrong: Vec<&str> = text.lines().filter(|line| line.contains("FAIL") && !known(line)).collect();
    assert!(wrong.is_empty() && text.contains("<- summary for `locks'"), "{wrong:?}\n{text}");
}

/// OPTIONS names the methods that would be answered: those of both modules, as far as `limit_except` lets the client in.
#[test]
fn allow_has_what_is_allowed() {
    let all = "GET,HEAD,PUT,DELETE,MKCOL,COPY,MOVE,PROPFIND,OPTIONS,LOCK,UNLOCK";
    let every = "dav_methods PUT DELETE MKCOL COPY MOVE; dav_ext_methods PROPFIND OPTIONS LOCK UNLOCK;";
    for (lines, allow) in [
        (every.to_owned(), all),
        ("dav_methods PUT; dav_ext_methods OPTIONS;".to_owned(), "GET,HEAD,PUT,OPTIONS"),
        (format!("{every} limit_except GET PROPFIND OPTIONS {{ deny all; }}"), "GET,HEAD,PROPFIND,OPTIONS"),
        (format!("{every} limit_except GET OPTIONS {{ allow 127.0.0.1; deny all; }}"), all),
        (
            format!(
                "{every} satisfy any; limit_except GET OPTIONS {{ deny all; auth_basic x; auth_basic_user_file users; }}"
            ),
            all,
        ),
    ] {
        let server = Setup::server(&site(), &format!("location / {{ {lines} }}")).freerun();
        let response = ask(&server, "OPTIONS", "/a.txt", "", "");
        assert_eq!((response.status, response.header("Allow")), (200, Some(allow)), "{lines}");
    }
}
