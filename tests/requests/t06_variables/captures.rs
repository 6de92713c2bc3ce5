//! `$1` to `$9`: they are those of the rule or of the location, whatever maps a value contains.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site};

const MAPS: &str =
    "map $http_x_l $l { default none; ~^(d)(e)$ \"$2$1\"; } map $http_x_l $lang { default en; ~^(de) $1; }";

#[test]
fn captures_of_a_map_end_with_the_map() {
    let lines = "location /rw/ { rewrite ^/rw/(.*)$ /out/$1?q=$1&l=$l; }
         location /out/ { return 200 \"$uri $args\"; }
         location ~ ^/return/(.*)$ { return 200 \"$1-$l-$1\"; }
         location ~ ^/redirect/(.*)$ { return 302 /$l/$1; }
         location ~ ^/set/(.*)$ { set $x \"$l-$1\"; add_header X-A \"$l $1\"; return 200 \"$x $1\"; }
         location ~ ^/if/(.*)$ { if ($l ~ ^(e)) { return 200 \"$1 $l\"; } return 200 \"$1 $l\"; }
         location ~ ^/logged/(.*)$ { return 200 $l; }";
    let log = "log_format l '$l $lang'; access_log @DIR@/access.log l;";
    let server = Setup::server(&Site::new(), lines).http(&format!("{MAPS} {log}")).in_process();
    let get = |path: &str| server.get_with(path, "X-L: de\r\n");
    for (path, text) in [
        ("/rw/orig", "/out/orig q=orig&l=ed"),
        ("/return/orig", "orig-ed-orig"),
        ("/set/orig", "ed-orig orig"),
        // The expression of the `if` is one of the rule, and comes after the map.
        ("/if/orig", "e ed"),
        ("/logged/orig", "ed"),
    ] {
        assert_eq!(get(path).text(), text, "{path}");
    }
    assert_eq!(get("/set/orig").header("x-a"), Some("ed orig"));
    let location = get("/redirect/orig").header("location").map(str::to_owned).unwrap_or_default();
    assert!(location.ends_with("/ed/orig"), "{location}");
    assert!(server.access_lines(7).contains(&"ed de".to_owned()), "{}", server.access_log());
}

/// A named group of a map's expression is a variable, which stays.
#[test]
fn named_groups_of_a_map_stay() {
    let map = "map $http_x_l $m { ~^(?<first>.) $first; }";
    let server = Setup::server(&Site::new(), "location / { return 200 \"$m-$first\"; }").http(map).in_process();
    assert_eq!(server.get_with("/", "X-L: de\r\n").text(), "d-d");
}

/// Behind the root's name, a path without a slash in front would name something beside the root.
#[test]
fn a_path_without_a_slash_in_front_names_no_file() {
    let site = Site::new();
    site.file("www/index.html", "inside")
        .file("wwwde/index.html", "outside")
        .file("wwwx.txt", "outside")
        .file("404.html", "");
    let lines = "location /rewritten { rewrite ^/rewritten/(.*)$ $1/ break; }
         location ~ ^/tried(.*)$ { try_files $1 =404; }
         location /named { rewrite ^/named(.*)$ x.txt break; return 200 $request_filename; }
         location /packed { gzip_static on; rewrite ^ x.txt break; }
         location /list { autoindex on; rewrite ^ de/ break; }
         location /put { dav_methods PUT; rewrite ^ x.txt break; }";
    let block = format!("server {{ listen 127.0.0.1:@PORT@; root @ROOT@/www; {lines} }}");
    let server = Setup::new().root(&site).http(&block).in_process();
    for path in ["/rewritten/de", "/triedde/index.html", "/triedx.txt", "/packed", "/list"] {
        let response = server.get(path);
        assert!(matches!(response.status, 404 | 500), "{path}: {}", response.status);
        assert!(!response.text().contains("outside"), "{path}");
    }
    let put = server.send("PUT /put HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nnew");
    assert!(put.status >= 400, "{}", put.status);
    assert_eq!(std::fs::read_to_string(site.at("wwwx.txt")).expect("reading"), "outside");
    server.logs("does not begin with a slash, so it names no file");
}
