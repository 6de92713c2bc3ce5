//! Locations that are chosen by a variable, and `predicate`, which defines such variables. nginx has both since 1.31.5.

use freerun_testkit::{Kind, Setup, Site, check};

#[test]
fn a_variable_chooses_a_location() {
    let site = Site::new();
    site.file("a.txt", "a file").file("other.txt", "another file");
    let server = Setup::server(
        &site,
        "location / { return 200 \"prefix\"; }
         location $arg_first { return 200 first; }
         location = /exact { return 200 exact; }
         location ~ \\.php$ { return 200 php; }
         location ^~ /final/ { return 200 final; }
         location $mapped { alias @ROOT@/other.txt; location /in { return 200 \"in $arg_m\"; } }
         location /sub/ { location $arg_inner { return 200 \"inner $uri\"; } return 200 sub; }
         location /rewritten { rewrite ^ /x?first=1; }",
    )
    .http("map $arg_m $mapped { bar 1; qux 0; }")
    .freerun();
    for (target, wanted) in [
        ("/", "prefix"),
        ("/?first=1", "first"),
        ("/?first=0", "prefix"),
        ("/?first=", "prefix"),
        ("/?first=00", "first"),
        ("/exact?first=1", "exact"),
        ("/a.php?first=1", "php"),
        ("/final/x?first=1", "final"),
        ("/x?m=bar", "another file"),
        ("/in?m=bar", "in bar"),
        ("/?m=qux", "prefix"),
        ("/?m=bar&first=1", "first"),
        ("/sub/x?inner=1&first=1", "inner /sub/x"),
        ("/sub/x?first=1", "first"),
        ("/sub/x", "sub"),
        ("/rewritten", "first"),
    ] {
        assert_eq!(server.get(target).text(), wanted, "{target}");
    }
}

#[test]
fn a_predicate_holds_where_all_of_its_conditions_do() {
    let server = Setup::server(
        &Site::new(),
        "location / { return 200 none; }
         location $acme { return 200 acme; }
         location $reads { return 200 \"reads $1\"; }
         location $later { return 200 later; }",
    )
    .http(
        "predicate $acme { match $http_x_tenant = acme; match $request_method = POST; }
         predicate $reads { match $uri ~ ^/read/(.*)$; match $arg_no != 1; match $arg_x !~* ^NO; }
         predicate $later { match $acme_or_not; }
         map $http_x_tenant $acme_or_not { default 0; later 1; }",
    )
    .freerun();
    let ask = |method: &str, target: &str, tenant: &str| {
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: a\r\nX-Tenant: {tenant}\r\nContent-Length: 0\r\n\r\n");
        server.send(request).text()
    };
    for (method, target, tenant, wanted) in [
        ("POST", "/", "acme", "acme"),
        ("GET", "/", "acme", "none"),
        ("POST", "/", "globex", "none"),
        ("GET", "/read/this", "", "reads this"),
        ("GET", "/read/this?no=1", "", "none"),
        ("GET", "/read/this?x=nothing", "", "none"),
        ("GET", "/", "later", "later"),
    ] {
        assert_eq!(ask(method, target, tenant), wanted, "{method} {target} {tenant}");
    }
}

#[test]
fn what_is_no_predicate_is_refused() {
    let told = |http: &str| {
        let text = format!("events {{ }} http {{ {http} }}");
        check(Kind::Freerun, &text).expect("a check").stderr
    };
    for (http, wanted) in [
        ("predicate $a { }", "no \"match\" in predicate"),
        ("predicate a { match $b; }", "invalid variable name \"a\""),
        ("predicate $a { matches $b; }", "unknown directive \"matches\""),
        ("predicate $a { match b; }", "invalid condition \"b\""),
        ("predicate $a { match $b == c; }", "unexpected \"==\" in condition"),
        ("predicate $a { match $b = c d; }", "invalid condition \"$b\""),
        ("predicate $a { match $b ~ (; }", "pcre2_compile() failed"),
        ("predicate $uri { match $b; }", "the duplicate \"uri\" variable"),
        ("server { location $no_such_variable { } }", "unknown \"no_such_variable\" variable"),
        ("server { location $a-b { } }", "invalid variable name \"$a-b\""),
    ] {
        let line = told(http);
        assert!(line.contains(wanted), "{http}: {line}");
    }
}
