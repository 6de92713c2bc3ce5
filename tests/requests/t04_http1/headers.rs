//! Fields and trailers: what nginx has only since 1.29.3, and what only a log shows.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site};

fn site() -> Site {
    let site = Site::new();
    site.file("a", "0123456789");
    site
}

fn added(response: &freerun_testkit::Response) -> Vec<&str> {
    let ours = response.headers.iter().filter(|(name, _)| name.starts_with("X-"));
    ours.map(|(name, _)| name.as_str()).collect()
}

#[test]
fn inheritance_can_be_off_or_merge() {
    let lines = "
        add_header X-Server 1;
        add_trailer X-Server-Trailer 1;
        location /on { add_header_inherit on; add_header X-On 1; return 200 x; }
        location /merge { add_header_inherit merge; add_header X-Merge 1; return 200 x;
            location /merge/in { add_header X-In 1; return 200 x; }
            location /merge/none { return 200 x; } }
        location /off { add_header_inherit off; return 200 x; }
        location /off/own { add_header_inherit off; add_header X-Off 1; return 200 x;
            location /off/own/in { return 200 x; }
            location /off/own/on { add_header_inherit on; return 200 x; } }
        location /trailers { add_trailer_inherit merge; add_trailer X-Own 1; return 200 x; }
        location /no-trailers { add_trailer_inherit off; return 200 x; }
    ";
    let site = site();
    let server = Setup::server(&site, lines).in_process();
    for (path, want) in [
        ("/a", &["X-Server"][..]),
        ("/on", &["X-On"]),
        ("/merge", &["X-Merge", "X-Server"]),
        ("/merge/in", &["X-In", "X-Merge", "X-Server"]),
        ("/merge/none", &["X-Merge", "X-Server"]),
        ("/off", &[]),
        ("/off/own", &["X-Off"]),
        ("/off/own/in", &[]),
        ("/off/own/on", &["X-Off"]),
    ] {
        assert_eq!(added(&server.get(path)), want, "{path}");
    }
    let trailers =
        |path: &str| -> Vec<String> { server.get(path).trailers.into_iter().map(|(name, _)| name).collect() };
    assert_eq!(trailers("/a"), ["X-Server-Trailer"]);
    assert_eq!(trailers("/trailers"), ["X-Own", "X-Server-Trailer"]);
    assert_eq!(trailers("/no-trailers"), [""; 0]);
}

#[test]
fn trailers_are_made_at_the_end_and_logged() {
    let http = "log_format t '$uri|$sent_trailer_x_bytes|$sent_trailer_x_none|$body_bytes_sent';
        access_log @DIR@/access.log t;";
    let server_block = "server { listen 127.0.0.1:@PORT@; root @ROOT@; add_trailer X-Bytes $body_bytes_sent; }";
    let site = site();
    let server = Setup::new().root(&site).http(http).http(server_block).in_process();
    let response = server.get("/a");
    assert_eq!(response.text(), "0123456789");
    let sent = response.trailers.iter().find(|(name, _)| name == "X-Bytes").map(|(_, value)| value.clone());
    let sent: u64 = sent.and_then(|sent| sent.parse().ok()).expect("a number");
    assert!(sent >= 10, "{sent}");
    let lines = server.access_lines(1);
    let fields: Vec<&str> = lines[0].split('|').collect();
    assert_eq!(fields[..3], ["/a", &sent.to_string(), "-"]);
}

#[test]
fn a_trailer_knows_those_before_it() {
    let lines = "add_trailer X-First $uri; add_trailer X-Second \"$sent_trailer_x_first|$sent_trailer_x_third\";
        add_trailer X-Third z; add_trailer X-First again; add_trailer X-Last $sent_trailer_x_first;";
    let site = site();
    let server = Setup::server(&site, lines).run_in_process();
    let trailers = server.get("/a").trailers;
    let trailers: Vec<String> = trailers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let wanted = ["X-First: /a", "X-Second: /a|", "X-Third: z", "X-First: again"];
    assert_eq!(trailers[..4], wanted);
    // nginx 1.22 does not join the fields of a name.
    assert!(["X-Last: /a", "X-Last: /a, again"].contains(&trailers[4].as_str()), "{}", trailers[4]);
}

/// As in nginx since 1.23: whoever looks at the media type sees that there are two.
#[test]
fn a_media_type_that_is_sent_twice_is_seen_twice() {
    let site = site();
    let server = Setup::server(&site, "location / { return 200 \"<$content_type>\"; }").in_process();
    let fields = "Content-Type: text/plain\r\nX: y\r\ncontent-type: image/gif\r\n";
    assert_eq!(server.get_with("/", fields).text(), "<text/plain, image/gif>");
    assert_eq!(server.get_with("/", "Content-Type: text/plain\r\n").text(), "<text/plain>");
    assert_eq!(server.get("/").text(), "<>");
}

#[test]
fn a_listing_has_no_hidden_names() {
    let site = site();
    site.file(".hidden", "").file("shown", "");
    let server = Setup::server(&site, "autoindex on; autoindex_format json;").in_process();
    let text = server.get("/").text();
    assert!(text.contains("\"shown\"") && !text.contains("hidden"), "{text}");
}
