//! uwsgi and SCGI.

use super::recorder::Protocol;
use super::{Ask, OK, TOLD_HOST, alike, answered, ask, ask_with};

const JOINED: &str = "fields of one name are joined since 1.23.0";

/// Both protocols, with the prefix of their directives.
const BOTH: [(Protocol, &str); 2] = [(Protocol::Uwsgi, "uwsgi"), (Protocol::Scgi, "scgi")];

#[test]
fn variables() {
    for (protocol, name) in BOTH {
        let lines = "
            location /all/ { NAME_pass @ADDRESS@; NAME_param A a; NAME_param EMPTY $arg_none; NAME_param LEFT $arg_none if_not_empty;
                NAME_param HTTP_X_OVER over; NAME_param HTTP_X_NONE $arg_none if_not_empty; NAME_param A again; }
            location /none/ { NAME_pass @ADDRESS@; }
            location /length/ { NAME_pass @ADDRESS@; NAME_param CONTENT_LENGTH $content_length; }
            location /nofields/ { NAME_pass @ADDRESS@; NAME_pass_request_headers off; NAME_param B b; NAME_param CONTENT_LENGTH $content_length; }
            location /inherit/ { NAME_pass @ADDRESS@; }
            NAME_param OUTER server;"
            .replace("NAME", name);
        let fields = "X-Over: o\r\nX-None: n\r\nCookie: a=1\r\nContent-Type: text/x\r\n";
        let asks = [
            ask_with("GET", "/all/x?a=b", fields, b""),
            ask_with("HEAD", "/all/x?a=b", fields, b""),
            ask("/none/"),
            ask("/inherit/"),
            ask("/all"),
            ask_with("GET", "/none/", "X-Twice: 1\r\nX-Twice: 2\r\n", b"")
                .told(JOINED, "HTTP_X_TWICE=1", "HTTP_X_TWICE=1, 2")
                .told(JOINED, "HTTP_X_TWICE=2", ""),
            ask_with("GET", "/none/", "Cookie: a=1\r\nCookie: b=2\r\n", b"")
                .told(JOINED, "HTTP_COOKIE=a=1", "HTTP_COOKIE=a=1; b=2")
                .told(JOINED, "HTTP_COOKIE=b=2", ""),
            ask_with("POST", "/length/", "Content-Length: 5\r\n", b"hello"),
            ask_with("POST", "/length/", "Content-Length: 0\r\n", b""),
            ask_with("POST", "/length/", "Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
            ask_with("POST", "/nofields/", "Content-Length: 5\r\n", b"hello").told(
                TOLD_HOST,
                "",
                "HTTP_HOST=localhost",
            ),
            ask_with("PUT", "/length/", "Content-Length: 100000\r\n", &[b'x'; 100_000]),
        ];
        alike(protocol, &lines, &asks);
    }
}

/// `HTTP_PROXY ""`, against what is known as httpoxy: all three protocols.
#[test]
fn fields_that_are_hidden() {
    for (protocol, name) in [(Protocol::FastCgi, "fastcgi"), BOTH[0], BOTH[1]] {
        let lines = "
            NAME_param HTTP_PROXY \"\"; NAME_param HTTP_A $arg_none; NAME_param HTTP_B \"\" if_not_empty; NAME_param C \"\";
            NAME_param HTTP_ \"\"; NAME_param http_d \"\"; NAME_param Http_E \"\"; NAME_param HTTP_F \"$arg_none\";
            NAME_param HTTP_G '';
            location / { NAME_pass @ADDRESS@; }
            location /own { NAME_pass @ADDRESS@; NAME_param HTTP_PROXY p; NAME_param HTTP_PROXY \"\"; }"
            .replace("NAME", name);
        let fields = "Proxy: evil\r\nA: a\r\nB: b\r\nC: c\r\nD: d\r\nE: e\r\nF: f\r\nG: g\r\nproxy: again\r\n";
        let asks = [ask_with("GET", "/", fields, b""), ask_with("GET", "/own", fields, b""), ask("/")];
        alike(protocol, &lines, &asks);
    }
}

/// Requests that are longer than what the protocol has room for: no server is asked.
#[test]
fn requests_that_cannot_be_said() {
    for (protocol, name) in [(Protocol::FastCgi, "fastcgi"), BOTH[0], BOTH[1]] {
        let lines = "
            large_client_header_buffers 4 200k;
            location / { NAME_pass @ADDRESS@; error_page 500 /page; }
            location /off { NAME_pass @ADDRESS@; NAME_pass_request_headers off; NAME_param A a; }
            location /page { return 200 \"$status $upstream_status $upstream_addr\"; }"
            .replace("NAME", name);
        let with = |target: &str, bytes: usize| ask_with("GET", target, &format!("X: {}\r\n", "v".repeat(bytes)), b"");
        let asks = [
            with("/", 60_000),
            with("/", 70_000),
            with("/", 150_000),
            with("/off", 70_000).told(TOLD_HOST, "", "HTTP_HOST=localhost"),
        ];
        alike(protocol, &lines, &asks);
    }
}

#[test]
fn modifiers() {
    let lines = "
        location / { uwsgi_pass @ADDRESS@; uwsgi_modifier1 5; uwsgi_modifier2 30; }
        location /scheme { uwsgi_pass uwsgi://@ADDRESS@; }
        uwsgi_modifier1 1;";
    alike(Protocol::Uwsgi, lines, &[ask("/"), ask("/scheme"), ask("/x")]);
}

#[test]
fn a_text_behind_the_variables() {
    let lines = "
        uwsgi_string \"the server's\";
        location / { uwsgi_pass @ADDRESS@; }
        location /own { uwsgi_pass @ADDRESS@; uwsgi_string \"of $uri\"; uwsgi_param A b; }
        location /none { uwsgi_pass @ADDRESS@; uwsgi_string \"\"; }
        location /alone { uwsgi_pass @ADDRESS@; uwsgi_string \"no variables\"; uwsgi_pass_request_headers off; }";
    alike(
        Protocol::Uwsgi,
        lines,
        &[ask("/"), ask("/own"), ask("/none"), ask("/alone").told(TOLD_HOST, "", "HTTP_HOST=localhost")],
    );
}

#[test]
fn heads_of_responses() {
    const STATUS: &str = "freerun sends no such status";
    const PHRASE: &str = "RFC 9112 section 4: the space after the status is there without a reason, too";
    const SHORT: &str = "the response is shorter than its head says";
    const CODINGS: &str = "a response in a transfer coding is refused";
    for (protocol, name) in BOTH {
        let lines = format!("location / {{ {name}_pass @ADDRESS@; location = /at {{ return 200 there; }} }}");
        let asks: Vec<Ask> = vec![
            answered(OK),
            answered("HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n\r\nbody"),
            answered("HTTP/1.0 404 Not Here\r\n\r\nbody"),
            answered("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"),
            answered("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbo").cut(SHORT),
            answered("HTTP/1.1 200 OK\r\nStatus: 404 No\r\n\r\nx"),
            answered("Status: 404 Not Found\r\nA: b\r\n\r\nx"),
            answered("Status: 404\r\n\r\nx").differs(PHRASE, "HTTP/1.1 404 "),
            answered("Status: 40\r\n\r\nx"),
            answered("Status: 099 x\r\n\r\nx").differs(STATUS, "HTTP/1.1 502 Bad Gateway"),
            answered("\r\nx"),
            answered("Location: http://example.com/\r\n\r\n"),
            answered("Location: /x\r\n\r\n"),
            answered("HTTP/1.1 204 None\r\n\r\n"),
            answered("HTTP/1.1 304 Same\r\nETag: \"x\"\r\n\r\n"),
            answered("Content-Length: 2\r\n\r\nok"),
            answered("Content-Length: 3\r\n\r\nok").cut(SHORT),
            answered("Content-Length: 2\r\nContent-Length: 2\r\n\r\nok")
                .differs("refused since 1.23.0", "HTTP/1.1 502 Bad Gateway"),
            answered("Transfer-Encoding: gzip\r\n\r\nok").differs(CODINGS, "HTTP/1.1 502 Bad Gateway"),
            answered("Connection: keep-alive\r\nKeep-Alive: 5\r\nX-Powered-By: me\r\n\r\nok"),
            answered("Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nA: 1\r\nA: 2\r\n\r\nok"),
            answered("X-Accel-Redirect: /at\r\n\r\n"),
            answered("Bad Name: x\r\n\r\nx"),
            answered("garbage\r\n\r\nx"),
            answered("garbage"),
            answered(""),
            answered([&b"A: "[..], &[b'x'; 5000], b"\r\n\r\n"].concat()),
            answered([OK, &[b'y'; 200_000]].concat()),
            ask_with("HEAD", "/", "", b"").answered("Content-Length: 5\r\n\r\n"),
            ask_with("HEAD", "/", "", b"").answered("A: b\r\n\r\nbody"),
        ];
        alike(protocol, &lines, &asks);
    }
}
