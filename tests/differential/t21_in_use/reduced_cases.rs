//! What generated cases found, each kept as it was made small.

use crate::harness::{Case, compare, get, head, raw, request};
use crate::site::{MTIME, site};
use freerun_testkit::Setup;

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
        .map(|date| get("/").field(&format!("If-Unmodified-Since: {date}")));
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
    let cases = ["/a.txt", "/named", "/200", "/201", "/404", "/dir/f.txt"]
        .map(|target| request("PUT", target).field("Content-Length: 3").field("Expect: 100-continue").body("abc"));
    let lines = "
        location / { error_page 405 = /errors/404.html; }
        location /errors { }
        location /named { error_page 405 = @named; }
        location @named { return 200 named; }
        location /200 { error_page 405 =200 /errors/404.html; }
        location /201 { error_page 405 =201 /errors/404.html; }
        location /404 { error_page 405 =404 @named; }
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
    cases.extend(
        ["-0", "-00", "-0,-0", "-0,1-", "1-", "5-"]
            .map(|range| get("/empty.txt").field(&format!("Range: bytes={range}"))),
    );
    // A charset is told of each part.
    cases.extend(
        ["0-0,1-1", "-3,-5", "0-1", "99-"].map(|range| get("/page.html").field(&format!("Range: bytes={range}"))),
    );
    compare(&Setup::server(&site, "charset utf-8;"), cases);
}

#[test]
fn statuses_below_those_of_answers() {
    let site = site();
    let lines = "location /99 { return 99 text; } location /150 { return 150; } location /try/ { try_files /none =0; }";
    // Behind 101 a client expects another protocol, and behind 199 no text: when it sees the connection's end is left to chance.
    let targets = ["/99", "/150", "/try/", "/try/x"];
    let mut cases: Vec<Case> = targets[..2]
        .iter()
        .map(|target| raw(format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")))
        .collect();
    cases.extend(targets[2..].iter().map(|target| get(target)));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn where_a_redirect_leads() {
    let site = site();
    let lines = "location /plain { add_header X-L [$sent_http_location]; return 301 /a; }
        location /whole { add_header X-L [$sent_http_location]; return 302 http://a.example/b; }
        location /paged { error_page 301 /page; return 301 /a; }
        location /named { error_page 302 =200 @page; return 302 http://a.example/b; }
        location /file { error_page 302 = /a.txt; return 302 http://a.example/b; }
        location /page { add_header X-L [$sent_http_location]; return 200 \"to $sent_http_location\"; }
        location @page { return 200 \"to $sent_http_location\"; }";
    let mut cases: Vec<Case> = ["/plain", "/whole", "/paged", "/named", "/page", "/file"].map(get).into();
    cases.extend(["0-0", "99-"].map(|range| get("/file").field(&format!("Range: bytes={range}"))));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn pages_of_heads_that_are_wrong() {
    let site = site();
    for page in
        ["400 /dir", "400 = /dir", "400 =200 /dir/f.txt", "400 /dir/", "400 = @n", "400 /none", "400 /dir/?x=$uri"]
    {
        let lines = format!("error_page {page}; location @n {{ return 200 \"[$uri] [$request_method] [$request]\"; }}");
        let setup = Setup::server(&site, &lines)
            .http("log_format l '[$uri] [$request_method] [$request] [$args] [$status] [$server_protocol] [$request_filename] [$host]'; access_log @DIR@/l.log l;");
        compare(
            &setup,
            vec![
                get("/x%zz"),
                raw("GET dir/x HTTP/1.1\r\nHost: localhost\r\n\r\n"),
                raw("GET /a.txt HTTP/1.1\r\nX Y: 1\r\n\r\n"),
                raw("GET /a.txt HTTP/1.1\r\n\r\n"),
                raw("GET /a.txt HTTP/2.0\r\n\r\n"),
                raw("POST /a.txt?x HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"),
                raw("get /a.txt HTTP/1.1\r\nHost: a\r\n\r\n"),
            ],
        );
    }
}

#[test]
fn lists_of_folders_behind_the_alias_of_a_regular_expression() {
    let site = site();
    let lines = "
        location ~ ^/whole(.*)$ { alias @ROOT@/dir; autoindex on; }
        location ~ ^/slash(.*)$ { alias @ROOT@/dir/; autoindex on; }
        location ~ ^/file(.*)$ { alias @ROOT@/a.txt; autoindex on; }
        location ~ ^/joined(.*)$ { alias @ROOT@$1; autoindex on; }
        location ~ ^/empty { alias @ROOT@/$arg_x; autoindex on; }
        location ~ ^/none { alias @ROOT@/none/; autoindex on; }
        location ~ /$ { alias @ROOT@/emptydir/; autoindex on; }
    ";
    let targets = [
        "/whole/",
        "/whole",
        "/slash/",
        "/slash",
        "/slash/f.txt",
        "/file/",
        "/file",
        "/joined/dir/",
        "/joined/dir",
        "/joined/emptydir/",
        "/empty/?x=emptydir",
        "/empty/?x=emptydir/",
        "/none/",
        "/x/",
        "/",
        "/dir/",
    ];
    compare(&Setup::server(&site, lines), targets.map(get).into());
}

#[test]
fn internal_in_a_regular_expression() {
    let site = site();
    let lines = "
        location ~ ^/dir { internal; }
        location ~ \\.html$ { internal; error_page 404 /errors/404.html; }
        location ~ ^/one { internal; error_page 404 = /dir/f.txt; }
        location ~ ^/two { internal; return 200 x; }
        location ~ /$ { internal; }
        location = /exact { internal; }
        location /prefix { internal; }
    ";
    let mut cases: Vec<Case> =
        ["/dir/f.txt", "/dir/", "/page.html", "/one", "/two", "/x/", "/", "/exact", "/prefix"].map(get).into();
    cases.extend(
        ["/dir/f.txt", "/page.html", "/x/", "/prefix"]
            .map(|target| request("POST", target).field("Content-Length: 3").body("abc")),
    );
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn bodies_that_are_too_large_for_the_page_of_an_error() {
    let site = site();
    let lines = "
        location /small { client_max_body_size 5; return 200 small; }
        location /self { client_max_body_size 5; error_page 413 /small; }
        location /elsewhere { client_max_body_size 5; error_page 413 /large; }
        location /large { return 200 large; }
        location /denied { deny all; error_page 403 /small; }
        location /returned { error_page 404 = /small; return 404; }
        location /folder/ { alias @ROOT@/emptydir/; error_page 403 /small; }
        location /none { error_page 404 405 /small; }
        location /a.txt { error_page 404 405 /small; }
        location /two { error_page 404 /three; return 404; }
        location /three { rewrite ^ /small; }
        location /try { try_files /nope /small; }
        location /named { error_page 404 @small; return 404; }
        location @small { client_max_body_size 5; return 200 named; }
        location /asked { client_max_body_size 0; auth_request /small; }
        location /list/ { alias @ROOT@/none/; autoindex on; error_page 404 /small; }
    ";
    let targets = [
        "self",
        "elsewhere",
        "denied",
        "returned",
        "folder/",
        "none",
        "a.txt",
        "two",
        "try",
        "named",
        "list/",
        "asked",
    ];
    let mut cases = Vec::new();
    for target in targets {
        for method in ["GET", "POST"] {
            let case = request(method, &format!("/{target}")).field("Content-Length: 10").field("Connection: close");
            cases.push(case.body("0123456789"));
        }
    }
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn variables_that_nothing_has_set() {
    // Whether they are empty or not there is for the first directive to say.
    let site = site();
    let setup = Setup::new().root(&site).http(
        "log_format l '[$one] [$two]'; access_log @DIR@/l.log l;
        server { listen 127.0.0.1:@PORT@; server_name a.example;
            location /set { set $one x; return 200 \"[$one] [$two]\"; }
            location / { auth_request_set $one y; auth_request_set $two y; add_header X-One [$one]; add_header X-Two $two; return 200 t; }
            location /then { set $two z; return 200 \"[$one] [$two]\"; }
        }",
    );
    let cases = ["/", "/set", "/then"].map(|target| raw(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n")));
    compare(&setup, cases.into());
}

#[test]
fn redirects_with_a_charset() {
    let site = site();
    let recode = "source_charset koi8-r; charset utf-8;";
    let lines = format!(
        "location /301 {{ {recode} return 301 /x; }}
        location /302 {{ {recode} rewrite ^ /x redirect; }}
        location /303 {{ {recode} return 303 /x; }}
        location /404 {{ {recode} return 404; }}
        location /dir {{ {recode} }}
        location /paged {{ {recode} error_page 404 http://e.example/x; return 404; }}
        location /set {{ charset utf-8; return 301 /x; }}"
    );
    let setup = Setup::server(&site, &lines).http("charset_map koi8-r utf-8 { C1 D0B0; }");
    compare(&setup, ["/301", "/302", "/303", "/404", "/dir", "/paged", "/set"].map(get).into());
}

#[test]
fn named_locations_of_one_name() {
    let site = site();
    let lines =
        "location / { try_files /none @n; } location @n { return 200 first; } location @n { return 200 second; }";
    compare(&Setup::server(&site, lines), vec![get("/")]);
}

#[test]
fn a_location_that_is_added() {
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for (at, (adds, does)) in [
        ("add_header Location /x;", "return 200 [$sent_http_location];"),
        ("add_header Location /x; add_header X-L [$sent_http_location];", "return 200 t;"),
        ("add_header X-L [$sent_http_location]; add_header Location /x;", "return 200 t;"),
        ("add_header Location /x; add_header X-L [$sent_http_location];", "return 301 /y;"),
        ("add_header Location /x; add_header X-L [$sent_http_location];", "return 201 t;"),
        ("add_header Location /x; add_header Location /z; add_header X-L [$sent_http_location];", "return 200 t;"),
        ("add_header Location http://e/x always; add_header X-L [$sent_http_location] always;", "return 404;"),
        ("add_header Location '' always; add_header X-L [$sent_http_location] always;", "return 302 /y;"),
        ("add_header Location $arg_x; add_header X-L [$sent_http_location];", "root @ROOT@;"),
        ("add_header X-A 1; add_header X-L [$sent_http_x_a];", "return 200 t;"),
        ("add_header Link 1; add_header Link 2; add_header X-L [$sent_http_link];", "return 200 t;"),
        (
            "add_header Cache-Control a; add_header Cache-Control b; add_header X-L [$sent_http_cache_control];",
            "return 200 t;",
        ),
        ("add_header Content-Type a; add_header X-L [$sent_http_content_type];", "return 200 t;"),
        ("add_header Last-Modified x; add_header X-L [$sent_http_last_modified];", "return 200 t;"),
        ("add_header ETag x; add_header X-L [$sent_http_etag];", "return 200 t;"),
        ("expires 1h; add_header X-L [$sent_http_cache_control];", "return 200 t;"),
        ("expires 1h; add_header Cache-Control y; add_header X-L [$sent_http_cache_control];", "return 200 t;"),
    ]
    .iter()
    .enumerate()
    {
        lines += &format!("location /l{at}/ {{ {adds} {does} }}\n");
        cases.push(get(&format!("/l{at}/a.txt")).in_order());
    }
    let setup = Setup::server(&site, &lines)
        .http("log_format l '[$sent_http_location] [$sent_http_link]'; access_log @DIR@/l.log l;");
    compare(&setup, cases);
}

#[test]
fn the_real_path_of_no_folder() {
    let site = site();
    let lines = "
        location / { return 200 \"[$realpath_root]\"; }
        location /looked/for { root @ROOT@/none; }
        location /none { root @ROOT@/none; return 200 \"[$realpath_root]\"; }
        location /file { root @ROOT@/a.txt; return 200 \"[$realpath_root]\"; }
        location /variable { root @ROOT@/none/$arg_x; add_header X-R $realpath_root; return 200 x; }
    ";
    compare(&Setup::server(&site, lines), ["/", "/looked/for", "/none", "/file", "/variable"].map(get).into());
}

#[test]
fn dates_of_pages_with_another_status() {
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for status in [200, 201, 203, 206, 299, 301, 304, 404, 412, 416, 500] {
        lines += &format!("location /p{status} {{ error_page 404 ={status} /a.txt; return 404; }}\n");
        cases.push(get(&format!("/p{status}")));
        cases.push(get(&format!("/p{status}")).field("Range: bytes=1-2"));
    }
    lines += "location /r206 { return 206 text; } location /p { error_page 404 /a.txt; return 404; }";
    cases.extend(["/r206", "/p"].map(get));
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn bodies_of_heads_that_are_wrong() {
    let site = site();
    let lines = "client_max_body_size 5; error_page 400 = /dir/f.txt; location /dir/ { client_max_body_size 3; }";
    let body = "Host: h\r\nContent-Length: 10\r\nConnection: close\r\n\r\n0123456789";
    let cases = ["GET /../ HTTP/1.1\r\n", "POST /%zz HTTP/1.1\r\n", "POST /a.txt HTTP/1.1\r\nHost: a/b\r\n"];
    compare(&Setup::server(&site, lines), cases.map(|begin| raw(format!("{begin}{body}"))).into());
}

#[test]
fn a_server_without_keep_alive_and_redirects_inside() {
    let site = site();
    let lines = "
        keepalive_timeout 0;
        location / { keepalive_timeout 60; }
        location /tried { keepalive_timeout 60; try_files /none /a.txt; }
        location /error { keepalive_timeout 60; error_page 404 /a.txt; return 404; }
        location /named { keepalive_timeout 60; error_page 404 @n; return 404; }
        location @n { keepalive_timeout 60; return 200 named; }
        location /last { keepalive_timeout 60; rewrite ^ /a.txt last; }
    ";
    let paths = ["/a.txt", "/dir/", "/tried", "/error", "/named", "/last"];
    compare(&Setup::server(&site, lines), paths.map(get).into());
}

#[test]
fn folders_of_exact_locations_that_pass_requests_on() {
    let site = site();
    let dead = freerun_testkit::RefusingAddress::new();
    let pass = format!("proxy_pass http://{};", dead.address());
    let setup = Setup::server(
        &site,
        &format!(
            "location = /x/ {{ {pass} }} location = /y/ {{ {pass} }} location /y {{ return 200 y; }}
             location /z/ {{ return 200 z; location = /z/in/ {{ {pass} }} }}
             location ~ ^/r {{ return 200 r; }} location = /r/ {{ {pass} }}
             location ^~ /q {{ return 200 q; }} location = /q/ {{ {pass} }}"
        ),
    );
    compare(&setup, ["/x", "/x/", "/y", "/z/in", "/r", "/q", "/x?a=b"].map(get).into());
}

#[test]
fn what_a_failed_precondition_keeps_of_what_came_before() {
    let site = site();
    let lines = "
        location / { error_page 301 = /page.html; }
        location /kept { error_page 302 /page.html; return 302 /elsewhere; }
        location /again { recursive_error_pages on; error_page 302 = /again/page.html; return 302 /elsewhere; }
        location /again/page.html { alias @ROOT@/page.html; recursive_error_pages on; error_page 412 @named; }
        location @named { return 200 named; }
        location /up { add_header X-Accel-Redirect /a.txt; add_header Set-Cookie a=b; add_header Content-Disposition c;
            add_header Location /l; return 200; }
        location /passed { proxy_pass http://127.0.0.1:@PORT@/up; }
        location /passed/again { proxy_pass http://127.0.0.1:@PORT@/up/again; }
        location /up/again { add_header X-Accel-Redirect /again/page.html; add_header Set-Cookie a=b; return 200; }
    ";
    let conditions = [
        "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT",
        "If-Match: \"x\"",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "X: y",
    ];
    let mut cases = Vec::new();
    for path in ["/dir", "/kept", "/again", "/passed", "/passed/again"] {
        cases.extend(conditions.map(|condition| get(path).field(condition)));
    }
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn includes_that_are_made_in_the_order_of_the_page() {
    let site = site();
    let includes = |names: &[&str]| -> String {
        names.iter().map(|name| format!("<!--#include virtual=\"/{name}\" -->\n")).collect()
    };
    site.dated("three.html", includes(&["one", "two", "three"]), MTIME);
    site.dated("files.html", includes(&["a.txt", "one", "dir/", "two"]), MTIME);
    site.dated("nested.html", includes(&["one", "three.html", "two"]), MTIME);
    let lines = "
        ssi on;
        location = /one { set $order \"$order 1\"; return 200 $order; }
        location = /two { set $order \"$order 2\"; return 200 $order; }
        location = /three { set $order \"$order 3\"; return 200 $order; }
        location = /dir/index.html { set $order \"$order dir\"; }
    ";
    compare(&Setup::server(&site, lines), ["/three.html", "/files.html", "/nested.html"].map(get).into());
}
