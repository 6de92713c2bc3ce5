//! `autoindex` and `fancyindex`: what they have besides nginx's and Debian's modules.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site};

#[test]
fn a_page_of_a_folder_has_files_around_it() {
    let site = Site::new();
    site.file("list/b", "1")
        .file("list/A", "22")
        .file("list/.c", "333")
        .file("head", "<b>head</b>")
        .file("foot", "<b>foot</b>");
    let lines = "location /list/ { fancyindex on; fancyindex_header @ROOT@/head local; fancyindex_footer @ROOT@/foot local; }
        location /all/ { alias @ROOT@/list/; fancyindex on; fancyindex_show_dotfiles on; fancyindex_case_sensitive off; }
        location /none/ { alias @ROOT@/list/; fancyindex on; fancyindex_header @ROOT@/nothing local; }";
    let server = Setup::server(&site, lines).in_process();
    let names = |page: &str| -> Vec<String> {
        let rest = page.split(" title=\"").skip(1);
        rest.filter_map(|part| part.split_once('"').map(|(name, _)| name.to_owned())).collect()
    };
    let page = server.get("/list/").text();
    assert!(page.starts_with("<b>head</b>/list/</h1>\n<table") && page.ends_with("</table><b>foot</b>"), "{page}");
    assert_eq!(names(&page), ["A", "b"]);
    assert_eq!(names(&server.get("/all/").text()), [".c", "A", "b"]);
    assert_eq!(names(&server.get("/all/?C=S&O=D").text()), [".c", "A", "b"]);
    assert_eq!(names(&server.get("/list/?C=N&O=D").text()), ["b", "A"]);
    assert_eq!(server.get("/none/").status, 500);
}

#[test]
fn a_page_says_that_names_are_in_utf_8() {
    let site = Site::new();
    site.file("list/\u{e4}.txt", "1").file("plain/a.txt", "1").file("caf\u{e9}/a.txt", "1");
    let lines = "autoindex on;
        location /koi/ { alias @ROOT@/list/; charset koi8-r; }
        location /json/ { alias @ROOT@/list/; autoindex_format json; }";
    let server = Setup::server(&site, lines).in_process();
    let kind = |path: &str| {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}");
        answer.header("content-type").unwrap_or_default().to_owned()
    };
    assert_eq!(kind("/list/"), "text/html; charset=utf-8");
    assert_eq!(kind("/caf%C3%A9/"), "text/html; charset=utf-8", "the title has the folder's name");
    assert_eq!(kind("/plain/"), "text/html");
    assert_eq!(kind("/koi/"), "text/html; charset=koi8-r");
    assert_eq!(kind("/json/"), "application/json");
    // A name in another encoding: what the page is in, nobody knows.
    let latin = std::os::unix::ffi::OsStrExt::from_bytes(b"list/\xe4");
    let latin: &std::ffi::OsStr = latin;
    std::fs::write(site.path().join(latin), "1").expect("a file can be made");
    assert_eq!(kind("/list/"), "text/html");
}
