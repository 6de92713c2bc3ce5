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
    // Nor does the page of an error.
    let cases = ["/a.txt", "/none", "/dir/f.txt"]
        .map(|target| request("POST", target).field("Content-Length: 3").field("Expect: 100-continue").body("abc"));
    compare(&Setup::server(&site, "error_page 405 /errors/404.html; location /dir { }"), cases.into());
    let cases = ["/a.txt", "/named", "/200", "/dir/f.txt"]
        .map(|target| request("PUT", target).field("Content-Length: 3").field("Expect: 100-continue").body("abc"));
    let lines = "
        location / { error_page 405 = /errors/404.html; }
        location /errors { }
        location /named { error_page 405 = @named; }
        location @named { return 200 named; }
        location /200 { error_page 405 =200 /errors/404.html; }
        location /dir { error_page 405 /errors/404.html; }
    ";
    compare(&Setup::server(&site, lines), cases.into());
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

#[test]
fn what_counts_for_a_connection() {
    // A location without keep-alive has had its say, wherever the request goes on.
    let site = site();
    let lines = "
        location ~ /$ { keepalive_timeout 0; }
        location /named { keepalive_timeout 0; try_files /none @named; }
        location @named { return 200 named; }
        location /page { keepalive_requests 1; error_page 404 /dir/f.txt; return 404; }
        location /again { rewrite ^ /dir/f.txt last; keepalive_timeout 0; }
    ";
    compare(&Setup::server(&site, lines), ["/", "/dir/", "/named", "/page", "/again", "/dir/f.txt"].map(get).into());
}

#[test]
fn internal_is_inherited() {
    let site = site();
    let lines = "
        location /dir { internal; location /dir/f { } location ~ html { return 200 regex; } }
        location /to { rewrite ^ /dir/f.txt last; }
    ";
    compare(&Setup::server(&site, lines), ["/dir/f.txt", "/dir/index.html", "/dir/x", "/to"].map(get).into());
}

#[test]
fn texts_that_are_empty() {
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for code in [200, 204, 299, 300, 301, 304, 308, 404, 444, 494, 500, 503, 599] {
        lines += &format!(
            "location /literal{code} {{ return {code} \"\"; }} location /variable{code} {{ return {code} $arg_x; }}\n"
        );
        // With a variable 444 is sent, as any text is.
        cases.push(get(&format!("/literal{code}")));
        cases.push(get(&format!("/variable{code}")));
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn the_root_as_it_is_written() {
    let site = site();
    let lines = "
        location /one { root @ROOT@/; return 200 \"$document_root $request_filename\"; }
        location /two { root @ROOT@//; return 200 \"$document_root $request_filename\"; }
        location /variable { root @ROOT@/$arg_x; return 200 \"$document_root $request_filename\"; }
        location /dir { root @ROOT@/; }
        location /index { root @ROOT@/$arg_x; }
    ";
    let targets =
        ["/one", "/two/x", "/variable", "/variable?x=a/", "/dir/f.txt", "/dir/", "/index.html", "/index.html?x=/"];
    compare(&Setup::server(&site, lines), targets.map(get).into());
}

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
fn a_charset_that_has_a_variable_inside() {
    let site = site();
    let lines = "location / { charset x$arg_a; } location /dir { charset $arg_a; }";
    compare(&Setup::server(&site, lines), vec![get("/index.html?a=b"), get("/dir/index.html?a=koi8-r")]);
}

#[test]
fn the_status_in_what_is_put_in_the_place_of_text() {
    let site = site();
    let lines = "types { text/html html; } location / { sub_filter p [$status]; } location /errors { sub_filter custom $status; error_page 404 /errors/404.html; }";
    compare(&Setup::server(&site, lines), vec![get("/page.html"), get("/errors/none"), get("/errors/404.html")]);
}

#[test]
fn dots_at_the_beginning_of_a_name() {
    let site = site();
    let targets = [
        "/.gif",
        "/..gif",
        "/...gif",
        "/....gif",
        "/a..gif",
        "/..x.gif",
        "/a%2f.gif",
        "/a//.gif",
        "/.a.gif",
        "/.g.if/..html",
        "/%2e.gif",
        "/.%67if",
        "/a.gif/",
        "/a./b",
    ];
    let lines = "types { image/gif gif; text/html html; } location / { return 200 $uri; }";
    compare(&Setup::server(&site, lines), targets.map(get).into());
}

#[test]
fn ranges() {
    let site = site();
    let mut cases: Vec<Case> = ["0-3,", "0-3,x", "1-3,0-1,", "-1,x", "1-3,", "1-3,x", "0-x", "0-3 x", "-,x"]
        .map(|range| get("/empty.txt").field(&format!("Range: bytes={range}")))
        .into();
    // A charset is told of each part.
    cases.extend(
        ["0-0,1-1", "-3,-5", "0-1", "99-"].map(|range| get("/page.html").field(&format!("Range: bytes={range}"))),
    );
    compare(&Setup::server(&site, "charset utf-8;"), cases);
}

#[test]
fn words_that_are_wrong() {
    crate::checks::same_verdicts(&[
        "keepalive_disable msie6 msie6;",
        "keepalive_disable msie6; keepalive_disable safari;",
        "keepalive_disable none; keepalive_disable msie6; keepalive_disable msie6;",
        "keepalive_disable safari x msie6;",
        "location \"\" /x { }",
        "if (!-e /x) if { }",
        "if ($arg_x = a { }",
        "types { gif; image/gif gif; }",
        "error_page =201 /x;",
        "error_page = /x;",
        "try_files /x =0;",
    ]);
}

#[test]
fn statuses_below_those_of_answers() {
    let site = site();
    let lines = "location /99 { return 99 text; } location /150 { return 150; }
        location /199 { return 199 text; } location /try/ { try_files /none =0; }";
    // Behind 101 a client expects another protocol, and sees the connection's end sooner or later.
    let targets = ["/99", "/150", "/199", "/try/", "/try/x"];
    let mut cases: Vec<Case> = targets[..3]
        .iter()
        .map(|target| raw(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")))
        .collect();
    cases.extend(targets[3..].iter().map(|target| get(target)));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn where_a_redirect_leads() {
    let site = site();
    let lines = "location /plain { add_header X-L [$sent_http_location]; return 301 /a; }
        location /whole { add_header X-L [$sent_http_location]; return 302 http://a.example/b; }
        location /paged { error_page 301 /page; return 301 /a; }
        location /named { error_page 302 =200 @page; return 302 http://a.example/b; }
        location /page { add_header X-L [$sent_http_location]; return 200 \"to $sent_http_location\"; }
        location @page { return 200 \"to $sent_http_location\"; }";
    compare(&Setup::server(&site, lines), ["/plain", "/whole", "/paged", "/named", "/page"].map(get).into());
}
