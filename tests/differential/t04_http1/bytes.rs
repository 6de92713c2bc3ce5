//! Bytes that are not UTF-8, in requests, configurations and names of files: they go on as they are.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use crate::harness::{Case, compare, get, raw};
use crate::t15_cache::caching::{FRESH, Stories, ok, step};
use freerun_testkit::{Setup, Site};

/// The text in Latin-1, where `é` is the byte 0xE9.
fn latin1(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).expect("a letter of Latin-1")).collect()
}

/// Writes a file whose name is in Latin-1.
fn named(site: &Site, name: &str, content: &[u8]) {
    let path = site.path().join(OsStr::from_bytes(&latin1(name)));
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
    fs::write(path, content).expect("a file is written");
}

/// A configuration with these lines in Latin-1 for `http` and for the server; `@SITE@` in them is the site's folder.
///
/// There is an upstream `echo` that answers with what it was asked for, and one `fields` with the lines of `fields`.
fn setup(site: &Site, http: &str, server: &str, fields: &str) -> Setup {
    let folder = site.path().display().to_string();
    let included = |name: &str, lines: &str| {
        site.file(name, latin1(&lines.replace("@SITE@", &folder)));
        format!("include {};\n", site.at(name).display())
    };
    let upstreams = "upstream echo { server 127.0.0.1:@PORT2@; }\nupstream fields { server 127.0.0.1:@PORT3@; }\n\
        server { listen 127.0.0.1:@PORT2@; location / { return 200 \"$request_uri|$http_x|\"; } }\n";
    let fields = included("fields.conf", fields);
    let fields = format!("server {{ listen 127.0.0.1:@PORT3@;\n{fields}\n}}\n");
    let http = included("http.conf", http) + upstreams + &fields;
    let server = included("server.conf", server);
    Setup::new().http(&format!("{http}server {{ listen 127.0.0.1:@PORT@; root {folder};\n{server}\n}}\n"))
}

/// A request for a target in Latin-1.
fn asked(target: &str) -> Case {
    raw(latin1(&format!("GET {target} HTTP/1.1\r\nHost: a\r\nX: é\r\n\r\n")))
}

#[test]
fn a_configuration_is_bytes() {
    let site = Site::new();
    named(&site, "hé/root/f.txt", b"in the root");
    named(&site, "hé/f.txt", b"plain");
    named(&site, "hé/users", b"user:{PLAIN}word\n");
    named(&site, "hé/auth/a.txt", b"for users");
    named(&site, "hé/dir/ïndex.html", b"index");
    named(&site, "hé/é.txt", b"named so");
    named(&site, "dé/x.conf", b"location = /included { return 200 included; }\n");
    let http = r#"
        map $arg_a $mapped { "é" one; "~^[ö-ù]$" two; default "ü"; }
        map $uri $by_uri { "/uri-é" yes; default no; }
        geo $arg_ip $geo { default "à"; 192.0.2.0/24 "é"; }
        split_clients $arg_a $split { 100% "é"; }
    "#;
    let lines = r#"
        include @SITE@/dé/*.conf;
        location /root/ { root "@SITE@/hé"; }
        location ~ ^/alias/(.*)$ { alias "@SITE@/hé/$1"; }
        location /al-é/ { alias "@SITE@/hé/"; }
        location /auth/ { root @SITE@/hé; auth_basic "rÿalm"; auth_basic_user_file @SITE@/hé/users; }
        location /dir/ { root @SITE@/hé; index ïndex.html; }
        location = /return { return 200 "café"; }
        location = /error { return 404 "é"; }
        location = /redirect { return 302 /é; }
        location = /field { add_header X-A "é$arg_a"; return 204; }
        location = /type { types { } default_type "text/é"; return 200 x; }
        location = /map { return 200 "$mapped"; }
        location = /geo { return 200 "$geo$split"; }
        location = /uri-é { return 200 "$by_uri"; }
        location ~ ^/re/[à-ï]$ { return 200 "class"; }
        location ~ ^/re/(?<rest>ð.*)$ { return 200 "$rest"; }
        location ~ "^/re/\ø$" { return 200 "escaped"; }
        location /é/ { return 200 "$uri"; }
        location = /exact-é { return 200 "exact"; }
        location /try/ { try_files /none /hé$uri /hé/é.txt =404; }
        location /named/ { try_files /none @é; }
        location @é { return 200 "named"; }
        location /page/ { error_page 404 /é/page; return 404; }
        location /named-page/ { error_page 404 = @é; return 404; }
        location /set { set $x "é"; if ($x = "é") { return 200 "same $x"; } return 200 other; }
        location /if { if ($arg_a = "é") { return 200 "$arg_a"; } return 200 other; }
        rewrite ^/rewritten/(.*)$ /é/$1?é=$arg_a;
        rewrite ^/away/é$ http://a.example/é/ permanent;
    "#;
    let mut cases: Vec<Case> = [
        "/included",
        "/root/f.txt",
        "/root/none",
        "/alias/f.txt",
        "/alias/%E9.txt",
        "/al-%E9/f.txt",
        "/al-%E9/%E9.txt",
        "/al-%C3%A9/f.txt",
        "/auth/a.txt",
        "/dir/",
        "/return",
        "/error",
        "/redirect",
        "/field",
        "/type",
        "/map",
        "/geo?ip=192.0.2.1",
        "/geo?ip=192.0.3.1",
        "/uri-%E9",
        "/re/%E9",
        "/re/%E0",
        "/re/%F0x",
        "/re/%F8",
        "/re/%C3%A9",
        "/%E9/x",
        "/%E9",
        "/%C3%A9/x",
        "/exact-%E9",
        "/try/x",
        "/named/x",
        "/page/x",
        "/named-page/x",
        "/set",
        "/rewritten/%E9",
        "/away/%E9",
    ]
    .map(get)
    .into();
    // user:word
    cases.push(get("/auth/a.txt").field("Authorization: Basic dXNlcjp3b3Jk"));
    for target in ["/field?a=é", "/map?a=é", "/map?a=ö", "/map?a=Ã", "/if?a=é", "/rewritten/é?a=ÿ", "/é/x", "/re/é"]
    {
        cases.push(asked(target));
    }
    compare(&setup(&site, http, lines, ""), cases);
}

#[test]
fn requests_go_on_as_the_bytes_they_are() {
    let site = Site::new();
    let lines = r#"
        location ~ ^/capture/(.*)$ { proxy_pass http://echo/x/$1; }
        location /uri/ { proxy_pass http://echo$request_uri; }
        location /args { proxy_pass http://echo/q?$args; }
        location /argument { proxy_pass http://echo/$arg_a/é; }
        location /header { proxy_pass http://echo/$http_x; }
        location /set { proxy_set_header X "é$arg_a"; proxy_pass http://echo/; }
        location /fixed/ { proxy_pass http://echo/é/; }
        location /location-é/ { proxy_pass http://echo/n/; }
        location /both/ { rewrite ^/both/(.*)$ /$1/é break; proxy_pass http://echo; }
        location = /accel { proxy_pass http://fields/accel; }
        location = /accel-uri { proxy_pass http://fields/accel-uri; }
        location @é { return 200 "named"; }
        location /é { return 200 "$uri|$args"; }
        location = /location { proxy_pass http://fields/location; proxy_redirect http://é/ /ö/; }
        location = /cookie { proxy_pass http://fields/cookie; proxy_cookie_path /é /ö; }
    "#;
    let fields = r#"
        location = /accel { add_header X-Accel-Redirect "@é"; return 204; }
        location = /accel-uri { add_header X-Accel-Redirect "/é%FF?é"; return 204; }
        location = /location { add_header Location "http://é/é"; return 204; }
        location = /cookie { add_header Set-Cookie "a=é; path=/é/é"; return 204; }
    "#;
    let mut cases: Vec<Case> = [
        "/capture/%E9",
        "/capture/%FE%ff/%C3%A9",
        "/uri/%E9",
        "/fixed/%E9",
        "/location-%E9/x",
        "/location-%E9/%E9?%E9",
        "/both/%E9",
        "/accel",
        "/accel-uri",
        "/location",
        "/cookie",
    ]
    .map(get)
    .into();
    for target in [
        "/capture/é",
        "/uri/é?é",
        "/args?a=é&b=ÿþ",
        "/argument?a=é",
        "/header",
        "/set?a=é",
        "/fixed/é?é",
        "/location-é/é?é",
        "/both/é",
    ] {
        cases.push(asked(target));
    }
    compare(&setup(&site, "", lines, fields), cases);
}

#[test]
fn keys_of_caches_are_the_bytes() {
    // The origin has a name, so that its port is in no key, and the names of the files can be compared.
    let mut stories = Stories::new(
        "proxy_cache z; upstream origin { server @UP@; }",
        "location ~ ^/m/(.*)$ { proxy_pass http://origin/$1; }
         location /args { proxy_pass http://origin/q?$args; }
         location / { proxy_pass http://origin$request_uri; }",
    )
    .names();
    let fresh = |case| step(case, ok(&[FRESH]));
    stories.tell("", |_| {
        let decoded = ["/m/%FE", "/m/%FF", "/m/%FE", "/m/%EF%BF%BD", "/m/%FF"];
        let raw = ["/þ", "/ÿ", "/þ", "/ï¿½", "/ÿ", "/args?a=þ", "/args?a=ÿ", "/args?a=þ"];
        let decoded = decoded.into_iter().map(get);
        decoded.chain(raw.into_iter().map(asked)).map(fresh).collect()
    });
    stories.compare();
}

#[test]
fn calls_of_grpc_go_on_as_the_bytes_they_are() {
    let site = Site::new();
    let lines = r#"
        location /same/ { grpc_set_header X "é$arg_a"; grpc_pass grpc://calls; }
        location /é { grpc_pass grpc://calls; }
        location ~ ^/rewritten/(.*)$ { rewrite ^/rewritten/(.*)$ /é/$1?é break; grpc_pass grpc://calls; }
    "#;
    let mut cases: Vec<Case> = ["/same/%E9?%E9", "/%E9/%FF?%E9", "/rewritten/%E9%C3%A9"].map(get).into();
    cases.extend(["/same/é?a=é&þ", "/é/ÿ?é", "/rewritten/éÿ?é"].map(asked));
    let calls = "upstream calls { server 127.0.0.1:@PORT4@; }
        server { listen 127.0.0.1:@PORT4@ http2; location / { return 200 \"$request_uri|$http_x|\"; } }";
    compare(&setup(&site, "", lines, "").http(calls), cases);
}
