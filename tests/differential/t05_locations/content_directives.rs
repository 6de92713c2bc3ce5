//! Which of several directives makes the content of a location.

use crate::harness::{Case, compare, get, request};
use crate::site::site;
use freerun_testkit::Setup;

/// Each with an address of its own, at which nobody answers.
const MAKERS: &[&str] = &[
    "proxy_pass http://127.0.0.1:1;",
    "fastcgi_pass 127.0.0.1:2;",
    "uwsgi_pass 127.0.0.1:3;",
    "scgi_pass 127.0.0.1:4;",
    "memcached_pass 127.0.0.1:5;",
    "empty_gif;",
    "stub_status;",
    "flv;",
    "mp4;",
];

/// Tells which one it was.
const TOLD: &str =
    "set $memcached_key key; add_header X-To $upstream_addr always; index none; error_page 502 =200 /a.txt;";

#[test]
fn the_last_directive_makes_it() {
    let site = site();
    site.file("x.flv", "0123456789");
    let (mut lines, mut cases) = (TOLD.to_owned(), Vec::new());
    for (one, first) in MAKERS.iter().enumerate() {
        for (two, last) in MAKERS.iter().enumerate().filter(|(two, _)| *two != one) {
            lines += &format!("location /{one}-{two}/ {{ alias @ROOT@/; {first} {last} }}\n");
            // The figures of the two servers are not the same.
            if !last.starts_with("stub_status") {
                cases.push(get(&format!("/{one}-{two}/x.flv?start=4")));
            }
            cases.push(request("DELETE", &format!("/{one}-{two}/none/")));
        }
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn what_conditions_and_other_methods_have_of_it() {
    let site = site();
    let contents: Vec<(String, bool)> = [
        ("@0@ @5@ if ($arg_x) { set $a 1; }", true),
        ("@5@ @0@ if ($arg_x) { set $a 1; }", true),
        ("if ($arg_x) { set $a 1; } @0@ @5@", true),
        ("if ($arg_x) { @1@ } @5@ @0@", true),
        ("@0@ @1@ if ($arg_x) { set $a 1; }", true),
        ("@4@ @1@ if ($arg_x) { @2@ @3@ }", true),
        ("@3@ @2@ if ($arg_x) { set $a 1; }", true),
        ("@0@ limit_except GET { allow all; }", false),
        ("@5@ limit_except GET { allow all; }", false),
        ("@6@ limit_except POST { allow all; }", false),
        ("@5@ limit_except GET { @0@ }", false),
        ("limit_except GET { @0@ } @5@", false),
        ("@0@ @5@ limit_except GET { allow all; }", false),
        ("@5@ @0@ limit_except GET { allow all; }", false),
        ("@0@ @1@ limit_except GET { allow all; }", false),
        ("@3@ @2@ limit_except GET { allow all; }", false),
        ("@4@ limit_except POST { allow all; }", false),
        ("@4@ @3@ limit_except GET { allow all; }", false),
        ("@0@ @5@ location ~ /inner { }", false),
        ("@5@ @0@ location ~ /inner { @1@ @5@ }", false),
    ]
    .iter()
    .map(|(text, condition)| {
        let named = |text: String, (at, maker): (usize, &&str)| text.replace(&format!("@{at}@"), maker);
        (MAKERS.iter().enumerate().fold((*text).to_owned(), named), *condition)
    })
    .collect();
    let (mut lines, mut cases) = (TOLD.to_owned(), Vec::<Case>::new());
    for (at, (content, condition)) in contents.iter().enumerate() {
        lines += &format!("location /{at}/ {{ alias @ROOT@/; {content} }}\n");
        let target = format!("/{at}/a.txt");
        if *condition {
            cases.extend([get(&target), get(&format!("{target}?x=1"))]);
        } else {
            let figures = content.contains("stub_status");
            cases.extend([get(&target), get(&format!("/{at}/inner"))].into_iter().filter(|_| !figures));
            cases.extend(["POST", "PUT"].map(|method| request(method, &target).field("Content-Length: 0")));
        }
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn what_is_beside_it_is_not_asked() {
    let site = site();
    let lines = "
        location /dav/ { alias @ROOT@/dir/; dav_methods PUT DELETE; empty_gif; }
        location /list/ { alias @ROOT@/dir/; autoindex on; index none; empty_gif; }
        location /flv/ { alias @ROOT@/dir/; autoindex on; index none; dav_methods PUT DELETE; flv; }
        location /mp4/ { alias @ROOT@/dir/; autoindex on; index none; dav_methods PUT DELETE; mp4; }
        stub_status;
        location /none/ { alias @ROOT@/dir/; }
    ";
    let mut cases = Vec::new();
    for name in ["dav", "list", "flv", "mp4"] {
        cases.extend(["", "f.txt", "nobody"].map(|path| get(&format!("/{name}/{path}"))));
        cases.extend(["", "nobody"].map(|path| request("DELETE", &format!("/{name}/{path}"))));
    }
    cases.extend([get("/none/f.txt"), request("DELETE", "/elsewhere")]);
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn a_path_is_another_file_where_its_root_says_so() {
    let site = site();
    for folder in ["one", "two"] {
        site.file(&format!("{folder}/f.txt"), format!("of {folder}"));
        site.file(&format!("{folder}/v/f.txt"), format!("v of {folder}"));
        site.file(&format!("{folder}/g.txt"), format!("g of {folder}"));
    }
    let lines = "
        location /v/ { root @ROOT@/$arg_d; }
        location /re/ { alias @ROOT@/one/; }
        location ~ ^/(?<d>one|two)/re/ { alias @ROOT@/$d/f.txt; }
        location /to/ { rewrite ^/to/(.*)$ /$1.txt break; root @ROOT@/one; }
        location /links/ { disable_symlinks on; alias @ROOT@/two/; }
    ";
    let one_then_another = [
        ("/v/f.txt?d=one", "/v/f.txt?d=two"),
        ("/re/f.txt", "/re/g.txt"),
        ("/one/re/x", "/two/re/x"),
        ("/to/f", "/to/g"),
        ("/links/f.txt", "/links/g.txt"),
    ];
    // What was found for the first is known by the third time.
    let cases = one_then_another.iter().flat_map(|(one, other)| [one, one, one, one, other, one]);
    compare(&Setup::server(&site, lines), cases.map(|target| get(target)).collect());
}
