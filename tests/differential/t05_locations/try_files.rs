//! `try_files`: what is tried where, and what the last argument does.

use crate::harness::{Case, compare, get, raw};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn try_files_behind_the_alias_of_a_regular_expression() {
    let site = site();
    let lines = "
        location ~ ^/file { try_files /dir $uri /dir/f.txt =404; alias @ROOT@/; }
        location ~ ^/folder { try_files /dir/ =404; alias @ROOT@/; }
        location ~ ^/bare { try_files a.txt /none =404; alias @ROOT@/; }
        location ~ ^/joined { try_files /f.txt =404; alias @ROOT@/dir; }
        location ~ ^/emptydir { try_files /none $uri/ =404; alias @ROOT@; }
        location ~ ^/then { try_files /none /dir/ /file; alias @ROOT@/; index f.txt; }
    ";
    let targets = ["/file", "/folder", "/folder/", "/bare", "/joined", "/emptydir", "/emptydir/", "/then", "/then/"];
    compare(&Setup::server(&site, lines), targets.map(get).into());
}

#[test]
fn tries_in_a_location_with_an_alias() {
    let site = site();
    let lines = "
        location /a { alias @ROOT@/a.txt; try_files /dir/ $uri; }
        location /b { alias @ROOT@/a.txt; try_files /b =418; }
        location /c/ { alias @ROOT@/dir/; try_files /c/f.txt =418; }
        location /d/ { alias @ROOT@/dir/; try_files /d/$arg_x =418; }
        location /e/ { alias @ROOT@/dir/; try_files /none /e/$uri; }
        location /f/ { alias @ROOT@/dir/; try_files /none /f/f.txt; }
        location /g { alias @ROOT@/dir; try_files /none /g/to?x=$uri; }
        location /h { alias @ROOT@/dir; try_files /none $uri; }
        location /to { return 200 \"$uri $args\"; }
        location @n { return 200 named; }
    ";
    let targets = [
        "/a.txt",
        "/a",
        "/b",
        "/c/x",
        "/d/x",
        "/d/x?x=f.txt",
        "/e/to",
        "/e/f.txt",
        "/f/x",
        "/g/x",
        "/h@n",
        "/h/to",
        "/h",
    ];
    let mut cases: Vec<Case> = targets.map(get).into();
    cases.push(get("/h/to?x"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn tries_that_end_with_a_status() {
    const SILENT: &str = "nginx finishes such a request without an answer, and leaves the client waiting";
    const NEVER: &str =
        "nginx answers nothing and takes the next request; the client cannot know, so the connection is closed";
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for code in [1, 99, 100, 101, 150, 199, 200, 201, 202, 204, 205, 206, 299, 300, 301, 302, 303, 304, 305, 308, 399]
        .into_iter()
        .chain([400, 444, 494, 499, 500, 599, 600, 700, 999])
    {
        lines += &format!("location /t{code} {{ try_files /none ={code}; }}\n");
        let silent = matches!(code, 200 | 202 | 205..300);
        let answer = match code {
            200 => "HTTP/1.1 200 OK",
            202 => "HTTP/1.1 202 Accepted",
            205 => "HTTP/1.1 205 ",
            206 => "HTTP/1.1 206 Partial Content",
            _ => "HTTP/1.1 299 ",
        };
        for method in ["GET", "HEAD"] {
            let case = raw(format!("{method} /t{code} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"));
            cases.push(if silent { case.differs(SILENT, answer) } else { case });
        }
        let case = get(&format!("/t{code}"));
        cases.push(match code {
            ..200 => case.differs(NEVER, ""),
            _ if silent => case.differs(SILENT, answer),
            _ => case,
        });
    }
    compare(&Setup::server(&site, &lines), cases);
}
