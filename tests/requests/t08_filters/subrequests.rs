//! Subrequests: how they are logged, and where they end.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site};

const PAGES: &str = "ssi on; types {} default_type text/html;";

#[test]
fn subrequests_are_logged_where_that_is_asked_for() {
    let site = Site::new();
    site.file("page", "<!--# include virtual=\"/logged/a\" --><!--# include virtual=\"/quiet/a\" -->")
        .file("logged/a", "logged")
        .file("quiet/a", "quiet");
    let http = "log_format lines '$uri|$status|$request|$request_method|$request_completion';
        access_log @DIR@/access.log lines;";
    let server = format!(
        "server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {PAGES}
            location /logged/ {{ log_subrequest on; }}
            location = /asks {{ auth_request /none; }}
            location = /none {{ log_subrequest on; }}
            location = /copies {{ mirror /logged/a; return 204; }} }}"
    );
    let server = Setup::new().root(&site).http(http).http(&server).in_process();
    assert_eq!(server.get("/page").text(), "loggedquiet");
    assert_eq!(server.get("/asks").status, 500);
    assert_eq!(
        server.access_lines(4),
        [
            "/logged/a|200|GET /page HTTP/1.1|GET|OK",
            "/page|200|GET /page HTTP/1.1|GET|OK",
            "/none|404|GET /asks HTTP/1.1|GET|OK",
            "/asks|500|GET /asks HTTP/1.1|GET|OK",
        ]
    );
    server.logs("request: \"GET /asks HTTP/1.1\", subrequest: \"/none\", host: ");
    server.logs("auth request unexpected status: 404, client: ");
}

/// Two copies of itself in each page: the depth alone would allow 2^50 of them.
#[test]
fn a_page_that_includes_itself_twice_comes_to_an_end() {
    let site = Site::new();
    site.file("twice", "<!--# include virtual=\"$uri\" -->x<!--# include virtual=\"$uri\" -->").file("other", "other");
    let server = Setup::server(&site, &format!("{PAGES} ssi_silent_errors on;")).in_process();
    let text = server.get("/twice").text();
    // The page itself, and 10,000 subrequests.
    assert_eq!(text.len(), 10_001);
    assert!(text.bytes().all(|byte| byte == b'x'));
    server.logs("request reference counter overflow while processing \"/twice\"");
    server.logs("subrequests cycle while processing \"/twice\"");
    assert_eq!(server.get("/other").text(), "other");
}

#[test]
fn hostile_pages_are_bounded() {
    let site = Site::new();
    let doubled = "<!--# set var=\"x\" value=\"$x$x$x$x\" -->".repeat(40);
    let many: String = (0..5000).map(|number| format!("<!--# set var=\"v{number}\" value=\"$v\" -->")).collect();
    let block = format!("<!--# block name=\"b\" -->{}<!--# endblock -->", "b".repeat(2 << 20));
    site.file("open", format!("a<!--# echo {}", " ".repeat(8 << 20)))
        .file("quote", format!("a<!--# echo var=\"{}", "v".repeat(8 << 20)))
        .file("double", format!("<!--# set var=\"x\" value=\"0123456789\" -->{doubled}[<!--# echo var=\"y\" -->]"))
        .file("many", format!("<!--# set var=\"v\" value=\"{}\" -->{many}.", "v".repeat(200)))
        .file("block", format!("{block}<!--# include virtual=\"/none\" stub=\"b\" -->."))
        .file("includes", "<!--# include virtual=\"/one\" -->".repeat(3000))
        .file("one", "1")
        .file(
            "slow",
            "<!--# if expr=\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = /^(a|aa)+[cd]/\" -->Y<!--# endif -->"
                .repeat(50),
        )
        .file("commands", "<!--# if expr=\"$uri = /(.+)+$x/\" --><!--# endif -->".repeat(2000));
    let server = Setup::server(&site, PAGES).in_process();
    let error = "[an error occurred while processing the directive]";
    assert_eq!(server.get("/open").text(), "a");
    assert_eq!(server.get("/quote").text(), "a");
    let text = server.get("/double").text();
    assert!(text.starts_with(error) && text.ends_with("[(none)]"), "{}", &text[..200.min(text.len())]);
    server.logs("too long value of ");
    let text = server.get("/many").text();
    assert!(text.starts_with(error) && text.ends_with(&format!("{error}.")));
    server.logs("variables and blocks of more than 1048576 bytes");
    assert_eq!(server.get("/block").text(), format!("{error}{error}."));
    server.logs("too large block \"b\"");
    assert_eq!(server.get("/includes").text(), "1".repeat(3000));
    assert_eq!(server.get("/commands").text(), "");
    assert!(server.get("/slow").text().starts_with(&format!("{error}Y{error}")));
    server.logs("pcre2_match() failed: ");
}

/// What came before a subrequest that closes the connection has been sent: the end says that it was not all.
#[test]
fn a_subrequest_that_closes_cuts_the_response_short() {
    let site = Site::new();
    site.file("page", "before<!--# include virtual=\"/444\" -->after").file("a", "text");
    let lines = format!(
        "{PAGES} postpone_output 0; location = /444 {{ return 444; }} location = /a {{ add_after_body /444; }}"
    );
    let server = Setup::server(&site, &lines).in_process();
    for (target, begin) in [("/page", "6\r\nbefore"), ("/a", "4\r\ntext")] {
        let mut client = server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let (bytes, _) = client.rest();
        assert!(bytes.ends_with(format!("\r\n\r\n{begin}").as_bytes()), "{}", bytes.escape_ascii());
    }
}
