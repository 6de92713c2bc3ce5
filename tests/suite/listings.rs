//! `fancyindex`: what it has besides Debian's module.

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
    let server = Setup::server(&site, lines).freerun();
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
