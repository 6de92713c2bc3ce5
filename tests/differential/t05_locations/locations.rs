//! Which location a request gets.

use crate::harness::{compare, get};
use crate::site::site;
use freerun_testkit::Setup;

#[test]
fn choice_of_location() {
    let site = site();
    let lines = "
        location / { return 200 \"root\\n\"; }
        location = / { return 200 \"exact root\\n\"; }
        location = /exact { return 200 \"exact\\n\"; }
        location /exact { return 200 \"prefix exact\\n\"; }
        location /prefix { return 200 \"prefix\\n\"; }
        location /prefix/long { return 200 \"long\\n\"; }
        location ^~ /caret { return 200 \"caret\\n\"; }
        location /caret/inner { return 200 \"inner\\n\"; }
        location ~ \\.php$ { return 200 \"php\\n\"; }
        location ~* \\.(gif|png)$ { return 200 \"image $1\\n\"; }
        location ~ ^/prefix/re { return 200 \"re\\n\"; }
        location ~* ^/Insensitive { return 200 \"insensitive\\n\"; }
        location ~ /second { return 200 \"first regex\\n\"; }
        location ~ /second/x { return 200 \"second regex\\n\"; }
        location /nest { return 200 \"nest\\n\";
            location /nest/a { return 200 \"nest a\\n\"; }
            location = /nest/b { return 200 \"nest b\\n\"; }
            location ~ /nest/.*z$ { return 200 \"nest z\\n\"; }
        }
        location /with%20percent { return 200 \"literal percent\\n\"; }
        location \"/with space\" { return 200 \"space\\n\"; }
        location ~ ^/name/(?<first>[^/]+)/(?<second>.*)$ { return 200 \"$second $first $1\\n\"; }
        location ~ ^/opt(/x)?$ { return 200 \"opt [$1]\\n\"; }
        location ~ (*UTF8)^/\\xc3\\xbc { return 200 \"utf\\n\"; }
        location ~ ^/braces/\\d{2}$ { return 200 \"no\\n\"; }
    "
    .replace("location ~ ^/braces/\\d{2}$", "location ~ \"^/braces/\\d{2}$\"")
    .replace("location ~ (*UTF8)^/\\xc3\\xbc { return 200 \"utf\\n\"; }", "");
    let mut cases = Vec::new();
    for target in [
        "/",
        "/?a",
        "/x",
        "/exact",
        "/exact/",
        "/exactly",
        "/prefix",
        "/prefix/",
        "/prefixed",
        "/prefix/long",
        "/prefix/longer",
        "/prefix/lon",
        "/prefix/re",
        "/prefix/x.php",
        "/caret",
        "/caret/x.php",
        "/caret/inner/x.php",
        "/a.php",
        "/a.PHP",
        "/a.gif",
        "/a.GIF",
        "/a.png?x",
        "/insensitive",
        "/INSENSITIVE",
        "/second/x",
        "/nest",
        "/nest/a",
        "/nest/b",
        "/nest/bb",
        "/nest/q.z",
        "/nest/a.php",
        "/nest/a/xz",
        "/with%20percent",
        "/with%2520percent",
        "/with%20space",
        "/name/one/two/three",
        "/name/one/",
        "/opt",
        "/opt/x",
        "/opt/y",
        "/braces/12",
        "/braces/123",
        "//prefix",
        "/x/../prefix",
    ] {
        cases.push(get(target));
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn roots_and_inheritance() {
    let site = site();
    let lines = "
        location /dir/ { }
        location /target/ { root @ROOT@/alias; }
        location /nested/ { root @ROOT@/alias; location /nested/inner { root @ROOT@; } }
        location /v/ { root @ROOT@/$arg_r; }
        location /hosts { root @ROOT@/hosts/$host/; }
        location ~ ^/target/.*\\.re$ { root /nonexistent; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/dir/f.txt"),
            get("/target/x.txt"),
            get("/target"),
            get("/target/x.re"),
            get("/nested/inner"),
            get("/v/f.txt?r=dir/.."),
            get("/hosts/a"),
        ],
    );
}

#[test]
fn prefix_redirects_to_its_slash() {
    // Only for locations that end with a slash and pass requests on; static ones answer 404.
    let site = site();
    compare(&Setup::server(&site, "location /pre/ { return 200 pre; }"), vec![get("/pre"), get("/pre/"), get("/pr")]);
}

#[test]
fn what_nested_locations_inherit() {
    let site = site();
    let lines = "
        location / { location ^~ /dir/ { return 200 \"nested caret\\n\"; } }
        location ~ ^/dir/.*\\.txt$ { return 200 \"regex\\n\"; }
        location /al/ { alias @ROOT@/alias/target/;
            location ~ \\.txt$ { }
            location ~ \\.html$ { root @ROOT@; }
            location /al/in/ { alias @ROOT@/dir/; }
        }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/dir/f.txt"),
            get("/dir/f"),
            get("/al/x.txt"),
            get("/al/index.html"),
            get("/al/"),
            get("/al/in/f.txt"),
            get("/al/in/"),
            get("/al/none.txt"),
        ],
    );
}
