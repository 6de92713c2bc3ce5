//! What generated cases found, each kept as it was made small.

use crate::harness::{Case, compare, get, head, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

const KEEPS: &str = "a 412 that says keep-alive keeps the connection";

#[test]
fn heads_that_are_wrong() {
    let site = site();
    let msie = "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1)";
    compare(
        &Setup::server(&site, "error_page 400 /dir/f.txt;")
            .http("server { listen 127.0.0.1:@PORT@; server_name other.example; }"),
        vec![
            // The method is known by then.
            raw("HEAD dir/x HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            // The fields, and with them the server, are not.
            get("/x%zz").field(msie),
            raw(format!("GET /x%zz HTTP/1.1\r\nHost: other.example\r\n{msie}\r\n\r\n")),
            raw("GET /a.txt HTTP/1.1\r\nHost: other.example\r\nX Y: 1\r\n\r\n"),
            raw("GET /a.txt HTTP/1.1\r\nX Y: 1\r\nHost: other.example\r\n\r\n"),
            raw("GET http://other.example/a.txt HTTP/1.1\r\n\r\n"),
        ],
    );
}

#[test]
fn names_for_a_domain_and_all_under_it() {
    // Taken whole or not at all.
    let site = site();
    let server = |names: &str, text: &str| {
        format!("server {{ listen 127.0.0.1:@PORT@; server_name {names}; return 200 {text}; }}\n")
    };
    let setup = Setup::new().root(&site).http(
        &(server("default", "default")
            + &server("a.example", "exact")
            + &server(".a.example", "lost")
            + &server("*.b.example", "wildcard")
            + &server(".b.example", "lost")
            + &server(".c.example", "both")
            + &server("c.example", "lost")),
    );
    let cases = ["a.example", "x.a.example", "b.example", "x.b.example", "c.example", "x.c.example"]
        .map(|host| raw(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")));
    compare(&setup, cases.into());
}

#[test]
fn unmodified_since_without_a_date() {
    let site = site();
    let cases = ["Sun, 06 Nov 1994 08:49:37 GMT", "nonsense"]
        .map(|date| get("/").field(&format!("If-Unmodified-Since: {date}")).stays_open(KEEPS));
    compare(&Setup::server(&site, "location / { return 200 text; }"), cases.into());
}

#[test]
fn escapes_in_the_path_of_a_redirect() {
    let site = site();
    let lines = "
        location / { rewrite ^(.*)$ /z$query_string redirect; }
        location /literal { rewrite ^(.*)$ \"/z%2f%41$1?b=%2f%41\" redirect; }
        location /absolute/ { rewrite ^(.*)$ http://h/$1$query_string? permanent; }
        location /inside { rewrite ^(.*)$ /z$query_string; return 200 $uri; }
    ";
    let mut cases: Vec<Case> = [
        "/a?%2f%41%25%3f%7f%e9%20%22%00%5c%61?%62%2f",
        "/a%20b?%21%22%23%24%25%26%27%28%3f%41",
        "/a?%41?%41",
        "/a?%7e%7f%80",
        "/a?%4%41",
        "/a?%%41",
        "/a?%4?%41",
        "/a?%?%41",
        "/a?%zz%2f%4g%41",
        "/a?%2f%",
        "/literal%20%41%2f",
        "/absolute/%20%252f?%25%21%2",
        "/inside?%2f%41",
    ]
    .map(get)
    .into();
    // Such a redirect does not ask for the body, an answer does.
    for target in ["/a", "/inside"] {
        let case = request("POST", target).field("Content-Length: 3").field("Expect: 100-continue").body("abc");
        cases.push(case);
    }
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn an_index_behind_the_alias_of_a_regular_expression() {
    let site = site();
    let lines = "
        location ~ ^/whole(.*)$ { alias @ROOT@/dir; index /index.html f.txt; }
        location ~ ^/slash(.*)$ { alias @ROOT@/dir/; index f.txt; }
        location ~ ^/file(.*)$ { alias @ROOT@/a.txt; }
        location /prefix/ { alias @ROOT@/dir/; index f.txt; }
    ";
    let targets = ["/whole/", "/whole", "/slash/", "/slash", "/slash/f.txt", "/file/", "/file", "/prefix/"];
    compare(&Setup::server(&site, lines), targets.map(get).into_iter().chain([head("/slash/")]).collect());
}
