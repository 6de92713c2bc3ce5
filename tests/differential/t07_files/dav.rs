//! `dav_methods`: what is answered, and what becomes of the files.

use crate::exchange::text_without_ports;
use crate::runner::{both, shows};
use crate::site::MTIME;
use freerun_testkit::{Kind, Response, Setup, Site};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A request; `@HOST@` in its fields is the server's name and port.
struct Ask(&'static str, &'static str, &'static str, &'static str);

/// A document root with the modes that every file has after each request.
fn site() -> Site {
    let site = Site::new();
    site.dated("a.txt", "aaaa", MTIME)
        .dated("b.txt", "bb", MTIME)
        .dated("tree/x", "x", MTIME)
        .dated("tree/y/z", "z", MTIME)
        .dated("tree/y/deeper/w", "w", MTIME)
        .folder("empty")
        .link("link", "a.txt")
        .link("linkdir", "tree")
        .mode("b.txt", 0o640);
    fs::set_permissions(site.path(), fs::Permissions::from_mode(0o777)).expect("the mode");
    own(site.path());
    site
}

/// Everything belongs to the user that workers run as.
fn own(path: &Path) {
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(path, Some(65534), Some(65534)).expect("the owner");
    }
    if path.is_dir() && !path.is_symlink() {
        for entry in fs::read_dir(path).expect("reading") {
            own(&entry.expect("an entry").path());
        }
    }
}

/// Every name below a folder, with its mode, size, text, and date where that is the old one.
fn tree(root: &Path, below: &str, out: &mut Vec<String>) {
    let mut names: Vec<String> = fs::read_dir(root.join(below))
        .expect("reading")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect();
    names.sort();
    for name in names {
        let path = format!("{below}{name}");
        let full = root.join(&path);
        let meta = full.symlink_metadata().expect("attributes");
        let mode = meta.permissions().mode() & 0o7777;
        if meta.is_dir() {
            out.push(format!("{path}/ {mode:o}"));
            tree(root, &format!("{path}/"), out);
        } else if meta.is_symlink() {
            out.push(format!("{path} -> {}", fs::read_link(&full).expect("a link").display()));
        } else {
            let text = fs::read_to_string(&full).expect("text");
            let shown = if text.len() > 40 { format!("{} bytes", text.len()) } else { text };
            let old = meta.modified().expect("a date").duration_since(std::time::UNIX_EPOCH).expect("a date");
            let dated = if old.as_secs() == MTIME { " dated" } else { "" };
            out.push(format!("{path} {mode:o} {shown:?}{dated}"));
        }
    }
}

fn told(response: &Response) -> String {
    let mut out = response.line.clone();
    for (name, value) in &response.headers {
        if ["Location", "Content-Length", "Connection", "Allow", "Content-Type"].contains(&name.as_str())
            && !(name == "Content-Length" && response.status >= 300)
        {
            out += &format!(" | {name}: {value}");
        }
    }
    out
}

fn answers(kind: Kind, lines: &str, asks: &[Ask]) -> Vec<String> {
    let site = site();
    let server = Setup::server(&site, lines).main("user nobody nogroup;").start(kind);
    let mut out = Vec::new();
    for Ask(method, target, fields, body) in asks {
        let mut before = Vec::new();
        tree(site.path(), "", &mut before);
        let host = format!("localhost:{}", server.port());
        let fields = fields.replace("@HOST@", &host);
        let mut client = server.connect();
        client.send(format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}"));
        let answer = match client.try_response(method) {
            Ok(response) if response.status == 100 => client.try_response(method),
            other => other,
        };
        let answer = answer.map_or_else(|why| why, |response| told(&response));
        out.push(text_without_ports(&format!("{method} {target} {}: {answer}", fields.trim_end()), &[server.port()]));
        let mut after = Vec::new();
        tree(site.path(), "", &mut after);
        out.extend(before.iter().filter(|line| !after.contains(line)).map(|line| format!("    - {line}")));
        out.extend(after.iter().filter(|line| !before.contains(line)).map(|line| format!("    + {line}")));
    }
    out
}

#[track_caller]
fn alike(lines: &str, asks: &[Ask]) {
    if let Some(answers) = both(|kind| answers(kind, lines, asks)) {
        if shows() {
            println!("{}", answers.nginx.join("\n"));
        }
        answers.assert_same_lines(lines);
    }
}

const ALL: &str = "dav_methods PUT DELETE MKCOL COPY MOVE;";
const FOUR: &str = "Content-Length: 4\r\n";
const EMPTY: &str = "Content-Length: 0\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

#[test]
fn put() {
    let asks = [
        Ask("PUT", "/new.txt", FOUR, "1234"),
        Ask("PUT", "/new.txt", FOUR, "5678"),
        Ask("PUT", "/b.txt", FOUR, "same"),
        Ask("PUT", "/a.txt", EMPTY, ""),
        Ask("PUT", "/none", "", ""),
        Ask("PUT", "/chunked", CHUNKED, "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"),
        Ask("PUT", "/chunked2", CHUNKED, "0\r\n\r\n"),
        Ask("PUT", "/bad", CHUNKED, "zz\r\n"),
        Ask("PUT", "/tree", FOUR, "1234"),
        Ask("PUT", "/tree/", FOUR, "1234"),
        Ask("PUT", "/nofolder/x", FOUR, "1234"),
        Ask("PUT", "/a.txt/x", FOUR, "1234"),
        Ask("PUT", "/", FOUR, "1234"),
        Ask("PUT", "/range", "Content-Length: 4\r\nContent-Range: bytes 0-3/4\r\n", "1234"),
        Ask("PUT", "/dated", "Content-Length: 4\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "1234"),
        Ask("PUT", "/dated2", "Content-Length: 4\r\nDate: yesterday\r\n", "1234"),
        Ask("PUT", "/link", FOUR, "1234"),
        Ask("PUT", "/linkdir/new", FOUR, "1234"),
        Ask("PUT", "/expect", "Content-Length: 4\r\nExpect: 100-continue\r\n", "1234"),
        Ask("PUT", "/args?x=y", FOUR, "1234"),
        Ask("PUT", "/with%20space", FOUR, "1234"),
        Ask("PUT", "/empty/%2e%2e/up", FOUR, "1234"),
        Ask("GET", "/new.txt", "", ""),
        Ask("POST", "/new.txt", FOUR, "1234"),
        Ask("OPTIONS", "/new.txt", "", ""),
        Ask("PROPFIND", "/new.txt", "", ""),
    ];
    alike(ALL, &asks);
}

#[test]
fn put_with_other_rights_and_folders() {
    let asks = [
        Ask("PUT", "/f/g/h", FOUR, "1234"),
        Ask("PUT", "/b.txt", FOUR, "1234"),
        Ask("PUT", "/f/k/", FOUR, "1234"),
        Ask("PUT", "/a.txt/x/y", FOUR, "1234"),
        Ask("MKCOL", "/m/", "", ""),
        Ask("MKCOL", "/q/r/", "", ""),
        Ask("COPY", "/a.txt", "Destination: /c/d/e\r\n", ""),
    ];
    // Where bodies are on another file system, nginx copies them, and the umask takes from `dav_access`.
    let lines = format!("{ALL} create_full_put_path on; client_body_temp_path @DIR@/body;");
    alike(&format!("{lines} dav_access user:rw group:r all:r;"), &asks);
    alike(&format!("{lines} dav_access group:rw;"), &asks[..2]);
    alike(&format!("{lines} dav_access all:rw;"), &asks[..2]);
}

/// What looks like a fragment belongs to the name: without it, another file would be replaced.
#[test]
fn destinations_with_a_hash() {
    let asks = [
        Ask("COPY", "/a.txt", "Destination: /b.txt#x\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: http://localhost/new#x\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /new2#x?y#z\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /new3?y#z\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /#\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /new#tree/\r\n", ""),
        Ask("MOVE", "/a.txt", "Destination: /moved%23#\r\n", ""),
    ];
    alike(ALL, &asks);
}

#[test]
fn large_bodies_and_limits() {
    let body: &'static str = Box::leak("0123456789".repeat(30_000).into_boxed_str());
    let length: &'static str = Box::leak(format!("Content-Length: {}\r\n", body.len()).into_boxed_str());
    let asks = [Ask("PUT", "/large", length, body), Ask("PUT", "/small", FOUR, "1234")];
    alike(ALL, &asks);
    alike(&format!("{ALL} client_body_in_file_only on;"), &asks);
    alike(&format!("{ALL} client_body_in_file_only clean;"), &asks);
    alike(&format!("{ALL} client_body_buffer_size 1k; client_max_body_size 2;"), &asks[1..]);
    alike(&format!("{ALL} client_body_buffer_size 1;"), &asks);
    alike(&format!("{ALL} client_body_in_single_buffer on;"), &asks);
}

#[test]
fn mkcol() {
    let asks = [
        Ask("MKCOL", "/new/", "", ""),
        Ask("MKCOL", "/new/", "", ""),
        Ask("MKCOL", "/noslash", "", ""),
        Ask("MKCOL", "/a/b/", "", ""),
        Ask("MKCOL", "/a.txt/", "", ""),
        Ask("MKCOL", "/a.txt/x/", "", ""),
        Ask("MKCOL", "/", "", ""),
        Ask("MKCOL", "/body/", FOUR, "1234"),
        Ask("MKCOL", "/empty-body/", EMPTY, ""),
        Ask("MKCOL", "/chunked/", CHUNKED, "0\r\n\r\n"),
        Ask("MKCOL", "/link/", "", ""),
        Ask("MKCOL", "/with%20space/", "", ""),
    ];
    alike(ALL, &asks);
}

#[test]
fn delete() {
    let asks = [
        Ask("DELETE", "/a.txt", "", ""),
        Ask("DELETE", "/a.txt", "", ""),
        Ask("DELETE", "/b.txt/", "", ""),
        Ask("DELETE", "/b.txt", "Depth: 0\r\n", ""),
        Ask("DELETE", "/tree", "", ""),
        Ask("DELETE", "/tree/x", "Depth: 1\r\n", ""),
        Ask("DELETE", "/tree/x", "Depth: infinity\r\n", ""),
        Ask("DELETE", "/tree/y/", "Depth: 0\r\n", ""),
        Ask("DELETE", "/tree/y/", "Depth: 1\r\n", ""),
        Ask("DELETE", "/tree/y/", "Depth: x\r\n", ""),
        Ask("DELETE", "/linkdir/", "", ""),
        Ask("DELETE", "/link", "", ""),
        Ask("DELETE", "/tree/y/", "Depth: infinity\r\n", ""),
        Ask("DELETE", "/linkdir", "", ""),
        Ask("DELETE", "/tree/", FOUR, "1234"),
        Ask("DELETE", "/tree/", EMPTY, ""),
        Ask("DELETE", "/none/", "", ""),
        Ask("DELETE", "/none/x", "", ""),
        Ask("DELETE", "/empty/", "", ""),
    ];
    alike(ALL, &asks);
    let deep = [
        Ask("DELETE", "/a.txt", "", ""),
        Ask("DELETE", "/tree/x", "", ""),
        Ask("DELETE", "/tree/", "", ""),
        Ask("DELETE", "/tree/y/", "", ""),
    ];
    alike(&format!("{ALL} min_delete_depth 2;"), &deep);
    alike(&format!("{ALL} min_delete_depth 1;"), &deep);
}

#[test]
fn copy() {
    let asks = [
        Ask("COPY", "/a.txt", "Destination: /copy.txt\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: http://@HOST@/copy2.txt\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: http://localhost/copy3.txt\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: https://localhost/copy4.txt\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: http://elsewhere/copy5.txt\r\n", ""),
        Ask("COPY", "/a.txt", "", ""),
        Ask("COPY", "/a.txt", "Destination: copy\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: http://localhost\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /copy.txt\r\n", ""),
        Ask("COPY", "/b.txt", "Destination: /copy.txt\r\nOverwrite: F\r\n", ""),
        Ask("COPY", "/tree/x", "Destination: /copy.txt\r\nOverwrite: T\r\n", ""),
        Ask("COPY", "/b.txt", "Destination: /copy6.txt\r\nOverwrite: F\r\n", ""),
        Ask("COPY", "/b.txt", "Destination: /copy7.txt\r\nOverwrite: x\r\n", ""),
        Ask("COPY", "/b.txt", "Destination: /copy8.txt\r\nDepth: 0\r\n", ""),
        Ask("COPY", "/b.txt", "Destination: /copy9.txt\r\nDepth: 1\r\n", ""),
        Ask("COPY", "/none", "Destination: /x\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /tree/\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /tree\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /nofolder/x\r\n", ""),
        Ask("COPY", "/tree", "Destination: /t2\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /t2\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /t2/\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /t2/\r\n", ""),
        Ask("COPY", "/empty/", "Destination: /t2/\r\nOverwrite: F\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /t3/\r\nDepth: 0\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /t4/\r\nDepth: infinity\r\n", ""),
        Ask("COPY", "/tree/y/", "Destination: /a/b/\r\n", ""),
        Ask("COPY", "/linkdir/", "Destination: /l3/\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /with%20space\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /empty/../../up\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /q?x=y\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /body\r\nContent-Length: 4\r\n", "1234"),
        Ask("COPY", "/a.txt", "Destination: /b2\r\nContent-Length: 0\r\n", ""),
        Ask("COPY", "/empty/", "Destination: /t2/\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: http://localhost:1/port\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: HTTP://localhost/scheme\r\n", ""),
        Ask("COPY", "/a.txt", "Destination: /l2\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /link/\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /a.txt\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /a.txt/\r\n", ""),
    ];
    alike(ALL, &asks);
}

#[test]
fn moving() {
    let asks = [
        Ask("MOVE", "/a.txt", "Destination: /moved.txt\r\n", ""),
        Ask("MOVE", "/a.txt", "Destination: /moved.txt\r\n", ""),
        Ask("MOVE", "/b.txt", "Destination: /moved.txt\r\nOverwrite: F\r\n", ""),
        Ask("MOVE", "/b.txt", "Destination: /moved.txt\r\n", ""),
        Ask("MOVE", "/moved.txt", "Destination: /m2\r\nDepth: 0\r\n", ""),
        Ask("MOVE", "/moved.txt", "Destination: /m2\r\nDepth: infinity\r\n", ""),
        Ask("MOVE", "/tree/", "Destination: /t2\r\n", ""),
        Ask("MOVE", "/tree/", "Destination: /t2/\r\nDepth: 0\r\n", ""),
        Ask("MOVE", "/tree/", "Destination: /t2/\r\n", ""),
        Ask("MOVE", "/t2/", "Destination: /empty/\r\n", ""),
        Ask("MOVE", "/empty/", "Destination: /nofolder/x/\r\n", ""),
        Ask("MOVE", "/empty/y/", "Destination: /y/\r\n", ""),
        Ask("MOVE", "/link", "Destination: /l2\r\n", ""),
        Ask("MOVE", "/linkdir/", "Destination: /l3/\r\n", ""),
        Ask("MOVE", "/linkdir", "Destination: /l4\r\n", ""),
        Ask("MOVE", "/none", "Destination: /x\r\n", ""),
        Ask("MOVE", "/m2", "Destination: /y\r\n", ""),
        Ask("MOVE", "/m2", "Destination: /y/\r\n", ""),
    ];
    alike(ALL, &asks);
}

#[test]
fn a_moved_file_gets_the_folders_that_are_missing() {
    let long: &'static str = Box::leak(format!("Destination: /{}\r\n", "n".repeat(300)).into_boxed_str());
    let asks = [
        Ask("MOVE", "/none", "Destination: /new0/x\r\n", ""),
        Ask("MOVE", "/a.txt", "Destination: /new/x\r\n", ""),
        Ask("MOVE", "/b.txt", "Destination: /new/deep/er/x\r\nOverwrite: F\r\n", ""),
        Ask("MOVE", "/tree/y/", "Destination: /new2/y/\r\n", ""),
        Ask("COPY", "/new/x", "Destination: /new3/x\r\n", ""),
        Ask("MOVE", "/new/x", "Destination: /new/deep/er/x/y\r\n", ""),
        Ask("COPY", "/new/x", "Destination: /new/deep/er/x/y\r\n", ""),
        Ask("COPY", "/tree/", "Destination: /new/x/y/\r\n", ""),
        Ask("MOVE", "/new/x", long, ""),
        Ask("COPY", "/new/x", long, ""),
    ];
    alike(ALL, &asks);
    alike(&format!("{ALL} dav_access user:rw group:r all:r;"), &asks);
    alike(&format!("{ALL} create_full_put_path on;"), &asks);
}

#[test]
fn some_methods_and_aliases() {
    let lines = "
        location /put/ { dav_methods PUT; alias @ROOT@/; }
        location /delete/ { dav_methods DELETE COPY; alias @ROOT@/; }
        location /off/ { dav_methods off; alias @ROOT@/; }
        location /several/ { dav_methods PUT; dav_methods off; dav_methods DELETE; alias @ROOT@/;
            location /several/one/ { dav_methods PUT; alias @ROOT@/; } }
        location /none/ { alias @ROOT@/; }
        location ~ ^/re/(.*)$ { dav_methods PUT COPY MOVE; alias @ROOT@/$1; }
        location = /exact { dav_methods PUT; alias @ROOT@/exact.txt; }
        location /page/ { dav_methods PUT DELETE; alias @ROOT@/; error_page 404 405 409 /a.txt; }
        location /return/ { dav_methods PUT; return 200 text; }
    ";
    let asks = [
        Ask("PUT", "/put/x", FOUR, "1234"),
        Ask("DELETE", "/put/x", "", ""),
        Ask("PUT", "/delete/x", FOUR, "1234"),
        Ask("DELETE", "/delete/x", "", ""),
        Ask("COPY", "/delete/a.txt", "Destination: /delete/c.txt\r\n", ""),
        Ask("COPY", "/delete/a.txt", "Destination: /c.txt\r\n", ""),
        Ask("COPY", "/delete/a.txt", "Destination: /delete\r\n", ""),
        Ask("MKCOL", "/delete/new/", "", ""),
        Ask("PUT", "/off/x", FOUR, "1234"),
        Ask("PUT", "/several/x", FOUR, "1234"),
        Ask("DELETE", "/several/x", "", ""),
        Ask("MKCOL", "/several/new/", "", ""),
        Ask("PUT", "/several/one/x", FOUR, "1234"),
        Ask("DELETE", "/several/one/x", "", ""),
        Ask("PUT", "/none/x", FOUR, "1234"),
        Ask("PUT", "/re/x", FOUR, "1234"),
        Ask("PUT", "/exact", FOUR, "1234"),
        Ask("DELETE", "/page/none", "", ""),
        Ask("PUT", "/page/no/folder", FOUR, "1234"),
        Ask("PUT", "/return/x", FOUR, "1234"),
        Ask("HEAD", "/put/a.txt", "", ""),
    ];
    alike(lines, &asks);
}
