//! `fancyindex` and its relatives. The built-in style sheets are not the same, and are left out of the comparison.

use super::{setup, taken_alike};
use crate::exchange::text_without_ports;
use crate::runner::{Report, line_difference, observe};
use crate::site::MTIME;
use freerun_testkit::{Site, TestServer};

const MODULE: &[&str] = &["ngx_http_fancyindex_module"];

/// A folder with sizes and times that are all different.
fn site() -> Site {
    let site = Site::new();
    site.dated("list/b.txt", "hello\n", MTIME)
        .dated("list/A.bin", "x".repeat(1500), MTIME - 1_000_000)
        .dated("list/big.bin", "y".repeat(2_000_000), MTIME + 500_000_000)
        .dated("list/we&ird <n>.txt", "abc", MTIME + 86_400 * 40)
        .dated("list/ünï.txt", "abcd", MTIME + 86_400 * 300)
        .dated("list/q?#%.txt", "a", 0)
        .dated(&format!("list/{}.txt", "x".repeat(70)), "abcdefgh", MTIME + 1)
        .dated("list/.hidden", "1234567890", MTIME + 2)
        .dated("list/sub/inside.txt", "1234567890", MTIME)
        .link("list/link", "b.txt")
        .dated("head.html", "<b>head</b>\n", MTIME)
        .dated("foot.html", "<b>foot</b>\n", MTIME);
    site
}

/// The pages of a server, without the style sheet and the times of folders, which are those of the test.
fn pages(server: &TestServer, targets: &[&str]) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for target in targets {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        let response = match client.try_response("GET") {
            Ok(response) => response,
            Err(why) => {
                out.push(vec![format!("{target}: {why}")]);
                continue;
            }
        };
        // Error pages have the name of the server.
        let page = if response.status == 200 { response.text() } else { String::new() };
        let rest = page.split_once("</style>").map_or(page.as_str(), |(_, rest)| rest);
        let mut shown = vec![format!("{target}: {} {:?}", response.line, response.header("Content-Type"))];
        for line in rest.lines() {
            let is_folder = line.contains("/</a></td><td class=\"size\">-</td>") && !line.contains("Parent directory");
            let told = line.split_once("<td class=\"date\">").filter(|_| is_folder).map_or(line, |(start, _)| start);
            shown.push(text_without_ports(told, &[server.port()]));
        }
        out.push(shown);
    }
    out
}

#[test]
fn pages_are_alike() {
    let lines = r#"
        location /list/ { fancyindex on; }
        location /fancy/ { alias @ROOT@/list/; fancyindex on; fancyindex_exact_size off; fancyindex_css_href /x.css;
            fancyindex_hide_parent_dir on; fancyindex_directories_first off; }
        location /ignoring/ { alias @ROOT@/list/; fancyindex on; fancyindex_ignore "^b" \\.bin; fancyindex_hide_symlinks on;
            fancyindex_default_sort size_desc; }
        location /between/ { alias @ROOT@/list/; fancyindex on; fancyindex_header /head.html; fancyindex_footer /foot.html; }
        location /pathless/ { alias @ROOT@/list/; fancyindex on; fancyindex_header /head.html; fancyindex_show_path off; }
        location /times/ { alias @ROOT@/list/; fancyindex on; fancyindex_time_format "%b %B %d %e %F"; }
        location /clocks/ { alias @ROOT@/list/; fancyindex on; fancyindex_time_format "%H %k %m %M %p %P %R %S %T %y %Y %%"; }
        location /short/ { alias @ROOT@/list/; fancyindex on; fancyindex_name_length 60; charset utf-8; }
        location /dates/ { alias @ROOT@/list/; fancyindex on; fancyindex_default_sort date; }
        location = / { root @ROOT@/list; fancyindex on; }
        location /off/ { alias @ROOT@/list/; }"#;
    let targets = [
        "/list/",
        "/list/?C=N&O=A",
        "/list/?C=N&O=D",
        "/list/?C=S&O=A",
        "/list/?C=S&O=D",
        "/list/?C=M&O=A",
        "/list/?C=M&O=D",
        "/list/?C=S",
        "/list/?C=N",
        "/list/?C=X&O=A",
        "/list/?O=D",
        "/list/?C=S&O=A&x=1",
        "/list/sub/",
        "/list/nothing/",
        "/fancy/",
        "/fancy/?C=S&O=D",
        "/ignoring/",
        "/ignoring/?C=N&O=A",
        "/between/",
        "/pathless/",
        "/times/",
        "/clocks/",
        "/short/",
        "/dates/",
        "/dates/?C=N&O=A",
        "/",
        "/off/",
    ];
    let site = site();
    let Some(setup) = setup(MODULE, &site, "", lines) else { return };
    let Some(pages) = observe(&setup, |server| pages(server, &targets)) else { return };
    let mut report = Report::default();
    for (target, (nginx, freerun)) in targets.iter().zip(pages.nginx.iter().zip(&pages.freerun)) {
        report.add(target, line_difference(nginx, freerun));
    }
    report.finish();
}

#[test]
fn lines_that_are_refused() {
    taken_alike(
        MODULE,
        &[
            "fancyindex on;",
            "fancyindex x;",
            "location / { fancyindex_default_sort date_desc; }",
            "fancyindex_default_sort x;",
            "fancyindex_header;",
            "fancyindex_header /a x;",
            "fancyindex_ignore;",
            "fancyindex_ignore (;",
            "fancyindex_name_length x;",
            "fancyindex_time_format;",
            "fancyindex_hide_parent_dir on; fancyindex_localtime on; fancyindex_show_dotfiles on;",
        ],
    );
}
