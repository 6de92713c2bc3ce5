//! Static files: methods, types, indexes, alias, try_files.

use crate::harness::{compare, get, head, raw, request};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn methods_and_kinds_of_files() {
    let site = site();
    let setup = Setup::server(&site, "");
    compare(
        &setup,
        vec![
            get("/a.txt"),
            head("/a.txt"),
            get("/empty.txt"),
            head("/empty.txt"),
            get("/big.bin"),
            head("/big.bin"),
            get("/"),
            head("/"),
            get("/none"),
            head("/none"),
            get("/dir"),
            head("/dir"),
            get("/dir?a=b"),
            get("/dir/"),
            get("/dir/sub%20dir"),
            get("/emptydir"),
            get("/emptydir/"),
            get("/a.txt/"),
            get("/a.txt/more"),
            get("/none/"),
            get("/link.txt"),
            get("/linkdir"),
            get("/linkdir/f.txt"),
            get("/broken"),
            get("/loop"),
            get("/secret/denied.txt"),
            get("/.hidden"),
            request("POST", "/a.txt").field("Content-Length: 0"),
            request("POST", "/none").field("Content-Length: 0"),
            request("POST", "/").field("Content-Length: 0"),
            request("POST", "/dir").field("Content-Length: 0"),
            request("PUT", "/a.txt").field("Content-Length: 3").body("abc"),
            request("DELETE", "/a.txt"),
            request("OPTIONS", "/a.txt"),
            request("OPTIONS", "*"),
            request("PATCH", "/a.txt").field("Content-Length: 0"),
            request("PROPFIND", "/a.txt"),
            request("MADEUP", "/a.txt"),
            request("TRACE", "/a.txt"),
            raw("GET /a.txt HTTP/1.0\r\n\r\n"),
            raw("HEAD /a.txt HTTP/1.0\r\n\r\n"),
            raw("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
            raw("GET /a.txt\r\n"),
            raw("GET /none\r\n"),
        ],
    );
}

#[test]
fn types() {
    let site = site();
    let lines = "
        types { text/html html; image/gif gif GIF; application/x-tar gz; text/x-dot d; image/x-jpg JPG; }
        default_type text/x-default;
        location /dir/ { types { } default_type application/x-none; }
        location /alias/ { types { text/x-alias txt; } }
    ";
    let setup = Setup::server(&site, lines);
    compare(
        &setup,
        vec![
            get("/page.html"),
            get("/pic.gif"),
            get("/pic.JPG"),
            get("/noext"),
            get("/dot."),
            get("/two.tar.gz"),
            get("/.hidden"),
            get("/a.txt"),
            get("/dir/f.txt"),
            get("/dir/"),
            get("/alias/target/x.txt"),
            get("/alias/target/"),
            get("/none.gif"),
        ],
    );
}

#[test]
fn the_default_types() {
    let site = site();
    compare(
        &Setup::server(&site, "").http("default_type text/plain;"),
        vec![get("/page.html"), get("/pic.gif"), get("/pic.JPG"), get("/two.tar.gz"), get("/noext")],
    );
}

#[test]
fn indexes() {
    let site = site();
    let lines = "
        location / { index none.html default.htm index.html; }
        location /other/ { index $arg_i.htm /a.txt; }
        location /dir/ { index nothing; }
        location /abs/ { index /a.txt; }
        location /alias/ { index missing /page.html; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/"),
            get("/other/"),
            get("/other/?i=default"),
            get("/dir/"),
            get("/dir/sub%20dir/"),
            get("/abs/"),
            get("/alias/target/"),
            get("/emptydir/"),
            head("/"),
            request("POST", "/").field("Content-Length: 0"),
        ],
    );
}

#[test]
fn aliases() {
    let site = site();
    let lines = "
        location /al/ { alias @ROOT@/alias/target/; }
        location /noslash { alias @ROOT@/alias/target; }
        location = /exact { alias @ROOT@/a.txt; }
        location ~ ^/re/(.+)$ { alias @ROOT@/alias/target/$1; }
        location ~ ^/named/(?<what>[a-z]+)\\.(?<ext>[a-z]+)$ { alias @ROOT@/alias/target/$what.$ext; }
        location /var/ { alias @ROOT@/$arg_d/; }
        location /outer/ { alias @ROOT@/alias/; location /outer/inner/ { alias @ROOT@/dir/; } }
        location ^~ /caret/ { alias @ROOT@/dir/; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/al/x.txt"),
            get("/al/"),
            get("/al"),
            get("/al/none"),
            get("/al/../a.txt"),
            get("/noslash/x.txt"),
            get("/noslash"),
            get("/noslashes"),
            get("/noslash/"),
            get("/exact"),
            get("/exact/"),
            get("/re/x.txt"),
            get("/re/none"),
            get("/re/index.html"),
            get("/named/x.txt"),
            get("/named/x.tx7"),
            get("/var/f.txt?d=dir"),
            get("/var/x.txt?d=alias/target"),
            get("/outer/target/x.txt"),
            get("/outer/inner/f.txt"),
            get("/outer/inner/none"),
            get("/caret/f.txt"),
        ],
    );
}

#[test]
fn try_files() {
    let site = site();
    let lines = "
        location / { try_files $uri $uri/ =404; }
        location /code/ { try_files /none =418; }
        location /503/ { try_files /none =503; }
        location /uri/ { try_files $uri /a.txt; }
        location /args/ { try_files $uri /dir/f.txt?x=$arg_x; }
        location /named/ { try_files $uri @fallback; }
        location /slash/ { try_files /dir/ =404; }
        location /slash2/ { try_files /none/ /dir/; }
        location /file-as-dir/ { try_files /a.txt/ =404; }
        location /loop/ { try_files /none /loop/none2; }
        location /al/ { alias @ROOT@/alias/target/; try_files $uri =404; }
        location /dirnoslash/ { try_files /dir /a.txt; }
        location /many/ { try_files /n1 /n2 /n3 /n4 /n5 /n6 /n7 /n8 /n9 /n10 /n11 /n12 /pic.gif =404; }
        location /html/ { try_files $uri.html $uri /page.html; }
        location @fallback { return 200 \"fallback $uri $args\\n\"; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/a.txt"),
            get("/dir/f.txt"),
            get("/dir"),
            get("/dir/"),
            get("/emptydir"),
            get("/emptydir/"),
            get("/none"),
            get("/code/x"),
            get("/503/x"),
            get("/uri/x"),
            get("/args/q?x=5"),
            get("/named/z?y=1"),
            head("/named/z"),
            request("POST", "/named/z").field("Content-Length: 3").body("abc"),
            get("/slash/"),
            get("/slash2/x"),
            get("/file-as-dir/"),
            get("/loop/x"),
            get("/al/x.txt"),
            get("/al/none"),
            get("/dirnoslash/"),
            get("/many/x"),
            get("/html/x"),
            get("/broken"),
            get("/secret/denied.txt"),
        ],
    );
}
