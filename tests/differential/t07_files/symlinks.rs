//! `disable_symlinks`.

use crate::harness::{compare, get, head};
use crate::site::site;
use freerun_testkit::{Setup, require};

const PATHS: [&str; 14] = [
    "/a.txt",
    "/dir/f.txt",
    "/dir/",
    "/dir",
    "/link.txt",
    "/linkdir/f.txt",
    "/linkdir/",
    "/linkdir",
    "/broken",
    "/loop",
    "/none",
    "/dir/none",
    "/linkdir/none",
    "/a.txt/x",
];

#[test]
fn no_links_or_only_those_of_the_owner() {
    let site = site();
    for rule in ["off", "on", "if_not_owner"] {
        let mut cases: Vec<_> = PATHS.iter().map(|path| get(path)).collect();
        cases.push(head("/link.txt"));
        compare(&Setup::server(&site, &format!("disable_symlinks {rule}; open_file_cache off;")), cases);
    }
}

#[test]
fn a_part_of_the_path_is_trusted() {
    let site = site();
    let lines = "
        disable_symlinks on from=$document_root;
        location /part/ { disable_symlinks on from=@ROOT@/linkdir; alias @ROOT@/; }
        location /slash/ { disable_symlinks on from=@ROOT@/linkdir/; alias @ROOT@/; }
        location /whole/ { disable_symlinks on from=@ROOT@/link.txt; alias @ROOT@/; }
        location /other/ { disable_symlinks on from=/somewhere/else; alias @ROOT@/; }
        location /empty/ { disable_symlinks on from=; alias @ROOT@/; }
        location /root/ { disable_symlinks on from=/; alias @ROOT@/; }
        location /off/ { disable_symlinks off; alias @ROOT@/; }
        location /try/ { try_files $uri $uri/ /a.txt; }
        location /owner/ { disable_symlinks if_not_owner from=$document_root; alias @ROOT@/; }
    ";
    let mut cases: Vec<_> = PATHS.iter().map(|path| get(path)).collect();
    for place in ["part", "slash", "whole", "other", "empty", "root", "off", "owner"] {
        for path in ["a.txt", "link.txt", "linkdir/f.txt", "linkdir/", "dir/"] {
            cases.push(get(&format!("/{place}/{path}")));
        }
    }
    cases.extend([get("/try/a.txt"), get("/try/link.txt"), get("/try/linkdir/")]);
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn a_link_of_somebody_else() {
    if !require::root() {
        return;
    }
    let site = site();
    for name in ["link.txt", "linkdir"] {
        std::os::unix::fs::lchown(site.path().join(name), Some(65534), Some(65534)).expect("changing the owner");
    }
    let cases = PATHS.iter().map(|path| get(path)).collect();
    compare(&Setup::server(&site, "disable_symlinks if_not_owner; open_file_cache max=100;"), cases);
}

#[test]
fn kept_files_do_not_get_around_it() {
    let site = site();
    let lines = "
        open_file_cache max=100 inactive=60s;
        location /on/ { disable_symlinks on; alias @ROOT@/; }
        location /off/ { alias @ROOT@/; }
    ";
    let mut cases = Vec::new();
    for _ in 0..2 {
        for path in
            ["/off/link.txt", "/on/link.txt", "/off/linkdir/f.txt", "/on/linkdir/f.txt", "/on/a.txt", "/off/a.txt"]
        {
            cases.push(get(path));
        }
    }
    compare(&Setup::server(&site, lines), cases);
}
