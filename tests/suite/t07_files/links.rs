//! `disable_symlinks` where nginx ignores it (in listings, and for what `dav` changes), and what becomes of files that are kept open.

use freerun_testkit::{Setup, Site};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const DAV: &str =
    "dav_methods PUT DELETE MKCOL COPY MOVE; create_full_put_path on; disable_symlinks on from=$document_root;";

fn site() -> Site {
    let site = Site::new();
    site.file("dir/f.txt", "inside").file("outside/f.txt", "outside").file("outside/sub/g.txt", "deep");
    for (target, name) in [("../outside", "dir/way"), ("../outside/f.txt", "dir/link.txt")] {
        symlink(target, site.at(name)).expect("a link");
    }
    for folder in ["", "dir", "outside", "outside/sub"] {
        // The worker has no rights of its own.
        fs::set_permissions(site.at(folder), fs::Permissions::from_mode(0o777)).expect("the mode");
    }
    site
}

#[test]
fn listings_leave_out_what_is_not_followed() {
    let site = site();
    let lines = "autoindex on; autoindex_format json; disable_symlinks on from=$document_root;
        location /owner/ { disable_symlinks if_not_owner; alias @ROOT@/dir/; }
        location /off/ { disable_symlinks off; alias @ROOT@/dir/; }
        location /random/ { random_index on; alias @ROOT@/dir/; }";
    let server = Setup::server(&site, lines).run();
    let names = |target: &str| {
        let text = server.get(target).text();
        let names = text.split("\"name\":\"").skip(1).map(|rest| rest.split('"').next().unwrap_or_default().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names("/dir/"), ["f.txt"]);
    for target in ["/owner/", "/off/"] {
        assert_eq!(names(target), ["way", "f.txt", "link.txt"], "{target}");
    }
    assert_eq!(server.get("/dir/way/").status, 404, "there is no index file");
    for _ in 0..20 {
        assert_eq!(server.get("/random/").text(), "inside", "the only one that may be sent");
    }
}

#[test]
fn nothing_is_changed_beyond_a_link() {
    let site = site();
    let server = Setup::server(&site, DAV).run();
    let ask = |method: &str, target: &str, fields: &str| {
        server.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).status
    };
    let put =
        |target: &str| server.send(format!("PUT {target} HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")).status;
    let refused = |status: u16| matches!(status, 403 | 404 | 409 | 500);
    for target in ["/dir/way/f.txt", "/dir/way/new", "/dir/way/a/b/new", "/dir/link.txt"] {
        assert!(refused(put(target)), "PUT {target}");
    }
    for target in ["/dir/way/f.txt", "/dir/way/sub/", "/dir/way/", "/dir/link.txt"] {
        assert!(refused(ask("DELETE", target, "")), "DELETE {target}");
    }
    assert!(refused(ask("MKCOL", "/dir/way/new/", "")));
    for method in ["COPY", "MOVE"] {
        for (from, to) in [
            ("/dir/link.txt", "/dir/taken"),
            ("/dir/way/f.txt", "/dir/taken"),
            ("/dir/f.txt", "/dir/way/new"),
            ("/dir/f.txt", "/dir/link.txt"),
            ("/dir/way/sub/", "/dir/taken/"),
            ("/dir/way/", "/dir/taken/"),
        ] {
            assert!(refused(ask(method, from, &format!("Destination: {to}\r\n"))), "{method} {from} {to}");
        }
    }
    let text = |name: &str| fs::read_to_string(site.at(name)).expect("it is there");
    assert_eq!((text("outside/f.txt"), text("outside/sub/g.txt")), ("outside".to_owned(), "deep".to_owned()));
    assert_eq!(fs::read_dir(site.at("outside")).expect("a folder").count(), 2);
    assert_eq!(fs::read_dir(site.at("dir")).expect("a folder").count(), 3);
    // Where no link is in the way, all is as ever.
    assert_eq!(put("/new/deep/file"), 201);
    assert_eq!(put("/new/deep/file"), 204);
    assert_eq!(ask("MKCOL", "/made/", ""), 201);
    assert_eq!(ask("COPY", "/new/", "Destination: /made/new/\r\n"), 201);
    assert_eq!(ask("MOVE", "/made/new/deep/file", "Destination: /made/file\r\n"), 204);
    assert_eq!(text("made/file"), "x");
    assert_eq!(ask("MOVE", "/made/file", "Destination: /made/up/there/file\r\n"), 204);
    assert_eq!(text("made/up/there/file"), "x");
    assert!(refused(ask("MOVE", "/made/up/there/file", "Destination: /dir/way/made/file\r\n")));
    assert!(!site.at("outside/made").exists());
    assert_eq!(ask("COPY", "/dir/", "Destination: /copy/\r\n"), 201);
    assert!(
        site.at("copy/way").is_symlink() && !site.at("copy/link.txt").join("x").exists(),
        "links are copied as links"
    );
    assert_eq!(ask("DELETE", "/copy/", ""), 204);
    assert_eq!(ask("DELETE", "/made/", ""), 204);
    assert_eq!(text("outside/f.txt"), "outside");
    server.logs("/dir/way/f.txt\" failed (40: Too many levels of symbolic links)");
    let log = server.error_log();
    assert!(!log.contains("/proc/self/fd"), "the log speaks of what was asked for: {log}");
}

#[test]
fn what_dav_changes_is_not_in_the_cache_of_open_files() {
    let site = site();
    let lines = "open_file_cache max=100; open_file_cache_valid 1h; open_file_cache_errors on;
        location /in/ { dav_methods PUT DELETE MOVE; alias @ROOT@/dir/; }";
    let server = Setup::server(&site, lines).run();
    let ask = |method: &str, target: &str, more: &str| {
        server.send(format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{more}")).status
    };
    let put = |text: &str| ask("PUT", "/in/new", &format!("Content-Length: {}\r\n\r\n{text}", text.len()));
    assert_eq!(server.get("/dir/new").status, 404);
    assert_eq!(put("one"), 201);
    assert_eq!(server.get("/dir/new").text(), "one");
    assert_eq!(put("second"), 204);
    assert_eq!(server.get("/dir/new").text(), "second");
    assert_eq!(server.get("/dir/moved").status, 404);
    assert_eq!(ask("MOVE", "/in/new", "Destination: /in/moved\r\n\r\n"), 204);
    assert_eq!((server.get("/dir/new").status, server.get("/dir/moved").text()), (404, "second".to_owned()));
    assert_eq!(ask("DELETE", "/in/moved", "\r\n"), 204);
    assert_eq!(server.get("/dir/moved").status, 404);
}
