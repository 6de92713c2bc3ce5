//! `autoindex`, `random_index`; and the modules that answer with something small: `empty_gif`, `stub_status`.

use crate::harness::{compare, get, head, raw, request};
use crate::site::{MTIME, site};
use freerun_testkit::{Setup, Site};

/// A folder with names of all lengths and bytes.
fn names() -> Site {
    let site = Site::new();
    for name in [
        "a.txt",
        "B.txt",
        ".hidden",
        "x&y<z>\"q'.txt",
        "per%cent#h?q.txt",
        "colon:name",
        "ünï.txt",
        "semi;colon",
        "back\\slash",
        "plus+eq=.txt",
        "tab\tname",
        "new\nline",
        "ret\rurn",
        "ctl\u{1}\u{1f}\u{7f}",
        "amp&amp;.html",
        "日本語のとても長い名前のファイルで五十文字を超えるものをここに置いてみることにするので見てください.txt",
    ] {
        site.dated(name, "hello", MTIME);
    }
    for length in [46, 47, 48, 49, 50, 51, 52, 60, 200] {
        site.dated(&"x".repeat(length), "hello", MTIME);
        site.dated(&format!("{}&&&", "y".repeat(length - 3)), "hello", MTIME);
        site.dated(&format!("d{}/empty", "z".repeat(length - 1)), "", MTIME);
    }
    site.dated("one/only.html", "only", MTIME).dated("nested/sub dir&/x", "x", MTIME);
    site.folder("empty").link("link.txt", "a.txt").link("linkdir", "one").link("alink", "nowhere").link("loop", "loop");
    site
}

/// The times of folders and links are those of the test's run: hours and minutes are left out of the comparison by giving
/// everything the same date.
fn settle(site: &Site) {
    let mut folders = vec![site.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is there").flatten() {
            let kind = entry.file_type().expect("the entry is there");
            if kind.is_dir() {
                folders.push(entry.path());
            }
            let time = rustix::fs::Timespec { tv_sec: MTIME.cast_signed(), tv_nsec: 0 };
            let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::utimensat(rustix::fs::CWD, entry.path(), &times, flags).expect("a time can be set");
        }
    }
}

#[test]
fn listings() {
    let site = names();
    settle(&site);
    // Of names in UTF-8 nginx does not say so by itself.
    let lines = "
        charset utf-8;
        autoindex on;
        location /rough/ { alias @ROOT@/; autoindex_exact_size off; autoindex_localtime on; }
        location /json/ { alias @ROOT@/; autoindex_format json; autoindex_localtime on; autoindex_exact_size off; }
        location /jsonp/ { alias @ROOT@/; autoindex_format jsonp; }
        location /xml/ { alias @ROOT@/; autoindex_format xml; }
        location /off/ { alias @ROOT@/; autoindex off; }
        location /added/ { alias @ROOT@/; add_header X y; expires 1h; }
    ";
    let mut cases = vec![
        get("/"),
        get("/rough/"),
        get("/json/"),
        get("/jsonp/"),
        get("/xml/"),
        get("/off/"),
        get("/added/"),
        get("/empty/"),
        get("/json/empty/"),
        get("/jsonp/empty/"),
        get("/xml/empty/"),
        get("/nested/"),
        get("/nested/sub%20dir%26/"),
        get("/nested"),
        get("/missing/"),
        get("/a.txt/"),
        get("/loop/"),
        get("/linkdir/"),
        get("/json/linkdir/"),
        get("/?x=y"),
        head("/"),
        head("/json/"),
        request("POST", "/"),
        request("DELETE", "/"),
        request("OPTIONS", "/empty/"),
        raw("GET /empty/ HTTP/1.0\r\n\r\n"),
        get("/empty/").field("Range: bytes=0-3"),
        get("/empty/").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"),
    ];
    for callback in [
        "foo",
        "a.b",
        "a_b1",
        "1a",
        "a$b",
        "a-b",
        "a%20b",
        "a[b]",
        "",
        "a(b",
        "%61",
        &"A".repeat(128),
        &"A".repeat(129),
    ] {
        cases.push(get(&format!("/jsonp/empty/?callback={callback}")));
    }
    cases.push(get("/jsonp/one/?x=1&callback=cb&callback=other"));
    cases.push(get("/json/empty/?callback=cb"));
    cases.push(get("/xml/empty/?callback=cb"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn sizes() {
    let site = Site::new();
    for size in [
        0u64,
        1,
        9999,
        10_000,
        10_751,
        10_752,
        10_753,
        1_047_552,
        1_048_575,
        1_048_576,
        1_572_863,
        1_572_864,
        1_073_741_823,
        1_073_741_824,
        1_610_612_735,
        1_610_612_736,
        5_000_000_000,
    ] {
        let file = std::fs::File::create(site.path().join(format!("s{size}"))).expect("a file can be made");
        file.set_len(size).expect("a file can have holes");
    }
    settle(&site);
    let lines = "autoindex on; location /rough/ { alias @ROOT@/; autoindex_exact_size off; }
        location /json/ { alias @ROOT@/; autoindex_format json; } location /xml/ { alias @ROOT@/; autoindex_format xml; }";
    compare(&Setup::server(&site, lines), vec![get("/"), get("/rough/"), get("/json/"), get("/xml/")]);
}

#[test]
fn many_entries() {
    let site = Site::new();
    for number in 0..2000 {
        site.dated(&format!("entry-{number:05}-with-a-rather-long-name-{}", "n".repeat(number % 70)), "", MTIME);
    }
    settle(&site);
    let lines = "autoindex on; location /json/ { alias @ROOT@/; autoindex_format json; }";
    compare(&Setup::server(&site, lines), vec![get("/"), get("/json/")]);
}

#[test]
fn a_file_by_chance() {
    let site = names();
    settle(&site);
    let lines = "
        location /r/ { alias @ROOT@/; random_index on; }
        location /both/ { alias @ROOT@/; random_index on; autoindex on; }
        location /off/ { alias @ROOT@/; random_index off; }
        location /dir/ { alias @ROOT@/; index only.html; random_index on; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/r/one/"),
            get("/r/one/?a=b"),
            head("/r/one/"),
            request("POST", "/r/one/"),
            request("DELETE", "/r/one/"),
            get("/r/one"),
            get("/r/empty/"),
            get("/r/nested/"),
            get("/r/missing/"),
            get("/r/one/only.html"),
            get("/both/empty/"),
            get("/off/one/"),
            get("/dir/one/"),
        ],
    );
}

#[test]
fn a_pixel_and_figures() {
    let site = site();
    let lines = "
        location /gif { empty_gif; }
        location /gif/expires { empty_gif; expires -1; add_header X y; }
        location /status { stub_status; }
        location /status/on { stub_status on; }
        location /figures { return 200 \"$connections_active $connections_reading $connections_writing $connections_waiting\"; }
    ";
    compare(
        &Setup::server(&site, lines),
        vec![
            get("/gif").in_order(),
            head("/gif"),
            request("POST", "/gif"),
            request("PUT", "/gif/x"),
            get("/gif").field("Range: bytes=0-3"),
            get("/gif").field("If-Modified-Since: Mon, 28 Sep 1970 06:00:00 GMT"),
            get("/gif").field("If-Modified-Since: Mon, 28 Sep 1970 06:00:01 GMT"),
            raw("GET /gif HTTP/1.0\r\n\r\n"),
            get("/gif/expires").in_order(),
            request("POST", "/status"),
            request("DELETE", "/status"),
            get("/figures"),
        ],
    );
}
