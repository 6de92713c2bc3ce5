//! FastCGI.

use super::recorder::{Protocol, output, record};
use super::{Ask, OK, TOLD_HOST, alike, answered, ask, ask_with};

const JOINED: &str = "fields of one name are joined since 1.23.0";

#[test]
fn parameters() {
    let lines = "
        location /all/ {
            fastcgi_pass @ADDRESS@;
            fastcgi_param A a;
            fastcgi_param EMPTY $arg_none;
            fastcgi_param LEFT_OUT $arg_none if_not_empty;
            fastcgi_param THERE $arg_a if_not_empty;
            fastcgi_param HTTP_X_OVER over;
            fastcgi_param HTTP_X_NONE $arg_none if_not_empty;
            fastcgi_param HTTP_X_EMPTY $arg_none;
            fastcgi_param A again;
            fastcgi_param lower \"with $request_method in it\";
        }
        location /none/ { fastcgi_pass @ADDRESS@; }
        location /nofields/ { fastcgi_pass @ADDRESS@; fastcgi_pass_request_headers off; fastcgi_param B b; }
        location /nobody/ { fastcgi_pass @ADDRESS@; fastcgi_pass_request_body off; fastcgi_param L $content_length; }
        location /keep/ { fastcgi_pass @ADDRESS@; fastcgi_keep_conn on; }
        location /rewritten/ { rewrite ^/rewritten/(.*) /to/$1?x=$1 break; fastcgi_pass @ADDRESS@;
            fastcgi_param U $uri; fastcgi_param R $request_uri; fastcgi_param S $fastcgi_script_name; fastcgi_param Q $query_string; }
        location /set/ { set $to @ADDRESS@; fastcgi_pass $to; fastcgi_param A b; }
        location /vars/ { fastcgi_pass $arg_to; fastcgi_param A b; }
        location /inherit/ { fastcgi_pass @ADDRESS@; }
        location /if/ { fastcgi_param IN location; if ($arg_a) { fastcgi_pass @ADDRESS@; } return 404; }
        fastcgi_param OUTER server;";
    let fields = "X-Over: o\r\nX-None: n\r\nX-Empty: e\r\nX-Other: 1\r\nUser-Agent: me/1 (x)\r\nCookie: a=1; b=2\r\n\
                  Content-Type: text/x\r\nProxy: evil\r\nAuthorization: Basic eA==\r\n";
    let long = format!("X-Long: {}\r\n", "v".repeat(300));
    let asks = [
        ask_with("GET", "/all/x?a=b", fields, b""),
        ask_with("HEAD", "/all/x?a=b", fields, b""),
        ask_with("GET", "/none/", fields, b""),
        ask_with("GET", "/none/", "", b""),
        ask_with("GET", "/none/", &long, b""),
        ask_with("GET", "/none/", "X-Twice: 1\r\nx-twice: 2\r\n", b"")
            .told(JOINED, "HTTP_X_TWICE=1", "HTTP_X_TWICE=1, 2")
            .told(JOINED, "HTTP_X_TWICE=2", ""),
        ask_with("GET", "/none/", "Cookie: a=1\r\nCookie: b=2\r\n", b"")
            .told(JOINED, "HTTP_COOKIE=a=1", "HTTP_COOKIE=a=1; b=2")
            .told(JOINED, "HTTP_COOKIE=b=2", ""),
        ask_with("GET", "/none/", "A_B: 1\r\nA.B: 2\r\nA-B: 3\r\n", b""),
        ask_with("GET", "/none/", "Empty:\r\nSpaces:   a  b  \r\nBytes: \u{e9}\r\n", b""),
        ask_with("GET", "/nofields/", fields, b"").told(TOLD_HOST, "", "HTTP_HOST=localhost"),
        ask_with("POST", "/all/", "Content-Length: 5\r\n", b"hello"),
        ask_with("POST", "/all/", "Content-Length: 0\r\n", b""),
        ask_with("POST", "/all/", "Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n"),
        ask_with("POST", "/nofields/", "Content-Length: 5\r\n", b"hello").told(TOLD_HOST, "", "HTTP_HOST=localhost"),
        ask_with("POST", "/nobody/", "Content-Length: 5\r\n", b"hello"),
        ask_with("PUT", "/all/", "Content-Length: 100000\r\n", &[b'x'; 100_000]),
        ask_with("DELETE", "/all/", "", b""),
        ask_with("OPTIONS", "/all/", "", b""),
        ask("/keep/"),
        ask("/rewritten/a%20b?y=z"),
        ask("/inherit/"),
        ask("/if/?a=1"),
        ask("/if/"),
        ask("/all"),
        ask("/all?a=b"),
        ask("/set/"),
        ask("/set"),
        ask("/vars/?to=no"),
    ];
    alike(Protocol::FastCgi, lines, &asks);
}

#[test]
fn fields_with_odd_names() {
    let lines = "underscores_in_headers on; ignore_invalid_headers off;
        location / { fastcgi_pass @ADDRESS@; fastcgi_param HTTP_TAKEN t; }";
    let asks = [ask_with("GET", "/", "A_B: 1\r\nA.B: 2\r\nTaken: 3\r\nTaken_: 4\r\n~x: 5\r\n", b"")];
    alike(Protocol::FastCgi, lines, &asks);
}

#[test]
fn scripts_and_path_information() {
    let lines = "
        location /index/ { fastcgi_pass @ADDRESS@; fastcgi_index index.php; fastcgi_param S $fastcgi_script_name; fastcgi_param P $fastcgi_path_info; }
        location /noindex/ { fastcgi_pass @ADDRESS@; fastcgi_param S $fastcgi_script_name; fastcgi_param P $fastcgi_path_info; }
        location /odd/ { fastcgi_pass @ADDRESS@; fastcgi_index i.php; fastcgi_split_path_info ^(?:/odd/(a))?(.*)$;
            fastcgi_param S $fastcgi_script_name; fastcgi_param P $fastcgi_path_info; }
        location ~ ^/(cap)/ { fastcgi_pass @ADDRESS@; fastcgi_split_path_info ^(/cap)(.*)$;
            fastcgi_param S $fastcgi_script_name; fastcgi_param P $fastcgi_path_info; fastcgi_param C $1; }
        location /in/ { set $before $fastcgi_script_name; rewrite ^/in/(.*) /out/$1 break;
            fastcgi_pass @ADDRESS@; fastcgi_param S $fastcgi_script_name; fastcgi_param B $before; }
        location ~ \\.php {
            fastcgi_pass @ADDRESS@;
            fastcgi_index i.php;
            fastcgi_split_path_info ^(.+?\\.php)(.*)$;
            fastcgi_param S $fastcgi_script_name;
            fastcgi_param P $fastcgi_path_info;
            fastcgi_param T $document_root$fastcgi_script_name;
            root /srv;
        }";
    let targets = [
        "/index/",
        "/index/x",
        "/index/x/",
        "/index",
        "/noindex/",
        "/noindex/a%20b",
        "/odd/",
        "/odd/a",
        "/odd/b/",
        "/cap/x",
        "/cap/",
        "/in/a",
        "/in/",
        "/a.php",
        "/a.php/",
        "/a.php/pi%20x/y?q=1",
        "/x.phpy/",
        "/d/b.php/c.php/d",
        "/a%2ephp/x",
        "/a.php//x",
        "/a.php/../b.php/x",
    ];
    let asks: Vec<Ask> = targets.iter().map(|target| ask(target)).collect();
    alike(Protocol::FastCgi, lines, &asks);
}

const SIMPLE: &str =
    "location / { fastcgi_pass @ADDRESS@; location = /at { return 200 there; } } location @named { return 200 named; }";

#[test]
fn heads_of_responses() {
    const STATUS: &str = "freerun sends no such status";
    const PHRASE: &str = "RFC 9112 section 4: the space after the status is there without a reason, too";
    let asks = [
        answered("Content-Type: a/b\r\n\r\nbody"),
        answered("Content-Type: a/b; charset=utf-8\r\n\r\nbody"),
        answered("\r\nbody"),
        answered("\nbody"),
        answered("A: b\n\nbody"),
        answered("Content-Length: 4\r\n\r\nbody"),
        answered("Content-Length: 0\r\n\r\n"),
        answered("Content-Length: 2\r\n\r\nbody"),
        answered("Status: 404\r\n\r\nx").differs(PHRASE, "HTTP/1.1 404 "),
        answered("Status: 404 Not Found\r\n\r\nx"),
        answered("Status: 404 Foo Bar\r\nA: b\r\n\r\nx"),
        answered("Status: 500 Oops\r\n\r\nx"),
        answered("Status: 204 None\r\n\r\n"),
        answered("Status: 304 Same\r\nETag: \"x\"\r\n\r\n"),
        answered("Status: 999 High\r\n\r\nx"),
        answered("Status: 40\r\n\r\nx"),
        answered("Status:\r\n\r\nx"),
        answered("Status: abc\r\n\r\nx"),
        answered("Status: 099 x\r\n\r\nx").differs(STATUS, "HTTP/1.1 502 Bad Gateway"),
        answered("Status: 2000 x\r\n\r\nx").differs(STATUS, "HTTP/1.1 502 Bad Gateway"),
        answered("Status: 401.1 No\r\n\r\nx").differs(STATUS, "HTTP/1.1 401 No"),
        answered("Status: 404, Not\r\n\r\nx").differs(STATUS, "HTTP/1.1 404 Not"),
        answered("X(: 1\r\nX\u{e9}y: 2\r\nX@[]{}/\"': 3\r\n\r\nx"),
        answered("Status: 100 x\r\n\r\nx").differs(STATUS, "HTTP/1.1 502 Bad Gateway"),
        answered("HTTP/1.1 404 No\r\n\r\nx"),
        answered("Location: http://example.com/x\r\n\r\n"),
        answered("Location: /x\r\n\r\n"),
        answered("Location: /x\r\nStatus: 201 Created\r\n\r\nx"),
        answered("Status: 303 See\r\nLocation: http://example.com/\r\n\r\n"),
        answered("A: 1\r\nA: 2\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\r\nx"),
        answered("Connection: close\r\nKeep-Alive: 5\r\nTrailer: a\r\nUpgrade: x\r\n\r\nx"),
        answered("X-Powered-By: PHP\r\nX-Accel-Expires: 5\r\nX-Accel-Foo: 1\r\nX-Pad: a\r\n\r\nx"),
        answered(
            "Cache-Control: no-store\r\nExpires: Thu, 01 Jan 1970 00:00:00 GMT\r\nPragma: no-cache\r\nVary: Cookie\r\n\r\nx",
        ),
        answered("Last-Modified: Tue, 14 Nov 2023 22:13:20 GMT\r\nETag: \"x\"\r\nAccept-Ranges: bytes\r\n\r\nx"),
        answered("WWW-Authenticate: Basic realm=x\r\nStatus: 401 No\r\n\r\nx"),
        answered("Content-Disposition: attachment\r\nContent-Encoding: gzip\r\n\r\nnot packed"),
        answered("Refresh: 5; url=/x\r\nLink: </a>; rel=preload\r\n\r\nx"),
        answered("X-Empty:\r\nX-Spaces:   a  b\r\n\r\nx"),
        answered("Bad Name: x\r\n\r\nx"),
        answered("A : x\r\n\r\nx"),
        answered(": x\r\n\r\nx"),
        answered(" A: x\r\n\r\nx"),
        answered("A: b\rc\r\n\r\nx"),
        answered("A: b\0c\r\n\r\nx"),
        answered("A: b\r\n folded\r\n\r\nx"),
        answered("X-Accel-Redirect: /at\r\nSet-Cookie: a=b\r\n\r\n"),
        answered("X-Accel-Redirect: @named\r\n\r\n"),
        answered("X-Accel-Limit-Rate: 100000\r\nX-Accel-Buffering: no\r\nContent-Type: text/html\r\n\r\nx"),
        answered([&b"A: "[..], &[b'x'; 5000], b"\r\n\r\n"].concat()),
        answered([OK, &[b'y'; 200_000]].concat()),
        ask_with("HEAD", "/", "", b"").answered("Content-Length: 5\r\n\r\n"),
        ask_with("HEAD", "/", "", b"").answered("Content-Length: 5\r\n\r\nhello"),
        ask_with("HEAD", "/", "", b"").answered("A: b\r\n\r\nhello"),
        answered("A\r\n\r\nx"),
        answered("A: \x01\x7f\r\n\r\nx"),
    ];
    alike(Protocol::FastCgi, SIMPLE, &asks);
}

#[test]
fn ambiguous_lengths() {
    const SINCE: &str = "refused since 1.23.0";
    const REFUSED: &str = "HTTP/1.1 502 Bad Gateway";
    let asks = [
        answered("Content-Length: 2\r\nContent-Length: 2\r\n\r\nok").differs(SINCE, REFUSED),
        answered("Content-Length: 2\r\nContent-Length: 3\r\n\r\nok").differs(SINCE, REFUSED),
        answered("Content-Length: 2, 2\r\n\r\nok").differs(SINCE, REFUSED),
        answered("Content-Length: -1\r\n\r\nok").differs(SINCE, REFUSED),
        answered("Content-Length: x\r\n\r\nok").differs(SINCE, REFUSED),
        answered("Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok").differs(SINCE, REFUSED),
    ];
    alike(Protocol::FastCgi, SIMPLE, &asks);
}

#[test]
fn records() {
    let out = |text: &[u8]| record(6, text);
    let err = |text: &[u8]| record(7, text);
    let end = record(3, &[0; 8]);
    let all = |pieces: &[Vec<u8>]| answered(pieces.concat());
    const SHORT: &str = "the response is shorter than its head says";
    const CUT: &str = "a response without its end is cut; nginx sends it as if it were whole";
    let mut other_id = out(OK);
    other_id[3] = 2;
    let mut other_version = out(OK);
    other_version[0] = 2;
    let padded = [&b"\x01\x06\0\x01\0\x04\x03\0A: b"[..], b"ppp", &out(b"\r\n\r\nok"), &end].concat();
    let asks = [
        answered(output(OK)),
        all(&[out(b"A: b\r\n\r\nok"), end.clone()]),
        all(&[out(b"A: b\r\n\r\nok"), out(b"")]),
        all(&[out(b"A: b\r"), out(b"\n\r\no"), out(b"k"), end.clone()]),
        answered(padded),
        all(&[err(b"PHP oops\n"), out(OK), end.clone()]),
        all(&[err(b"first. \n\n"), err(b"second"), out(OK), end.clone()]),
        all(&[out(OK), err(b"late\r\n"), end.clone()]),
        all(&[out(b"Content-Length: 2\r\n\r\nok"), err(b"late, too"), end.clone()]),
        all(&[err(b"only this"), end.clone()]).log_differs("nginx does not say what was wrong"),
        answered(&end),
        all(&[out(b""), end.clone()]),
        all(&[out(b"A: b\r\n"), out(b""), end.clone()]),
        all(&[out(b"A: b\r\n"), end.clone()]).log_differs("the two say it in other words"),
        all(&[out(b"Content-Length: 5\r\n\r\nok"), out(b""), end.clone()]).cut(SHORT),
        all(&[out(b"Content-Length: 2\r\n\r\nok")]),
        all(&[out(b"A: b\r\n\r\nok")]).cut(CUT),
        answered(other_id),
        answered(other_version),
        all(&[record(5, b"x")]),
        all(&[record(11, &[0; 8])]),
        answered("garbage garbage"),
        answered(""),
        answered(b"\x01\x06"),
    ];
    alike(Protocol::Records, SIMPLE, &asks);
}

#[test]
fn error_output_without_a_body() {
    const LOST: &str = "nginx does not look at what comes behind the head";
    let head = || ask_with("HEAD", "/", "", b"");
    let ok = output(OK);
    let end = record(3, &[0; 8]);
    let asks = [
        head().answered([record(7, b"before\n"), ok.clone()].concat()),
        ask("/").answered([record(6, b"Status: 204 No\r\n\r\n"), record(7, b"with 204\n"), end.clone()].concat()),
        ask("/").answered([record(6, b"Content-Length: 0\r\n\r\n"), record(7, b"empty\n"), end.clone()].concat()),
        // Last: their lines come when the client has its answer, and might be taken for those of the next request.
        head().answered([record(6, OK), record(7, b"behind\n"), end.clone()].concat()).log_differs(LOST),
        head()
            .answered(
                [record(6, b"A: b\r\n\r\n"), record(7, b"behind the head\n"), record(6, b"ok"), end.clone()].concat(),
            )
            .log_differs(LOST),
    ];
    alike(Protocol::Records, SIMPLE, &asks);
}

#[test]
fn caught_error_output() {
    let lines = "location / { fastcgi_pass @ADDRESS@; fastcgi_catch_stderr \"catch me\"; }";
    let asks = [
        answered([record(7, b"do catch me\n"), output(OK)].concat()).log_differs("nginx says nothing more"),
        answered([record(7, b"another\n"), output(OK)].concat()),
        answered([record(7, &[&[b'x'; 4094][..], b"catch me"].concat()), output(OK)].concat())
            .log_differs("nginx logs a record in pieces, we the beginning of it"),
        answered([record(6, OK), record(7, b"do catch me\n"), record(3, &[0; 8])].concat()),
    ];
    alike(Protocol::Records, lines, &asks);
}

#[test]
fn settings_of_responses() {
    let lines = "
        location /hide { fastcgi_pass @ADDRESS@; fastcgi_hide_header X-A; fastcgi_pass_header X-Accel-Expires; }
        location /ignore { fastcgi_pass @ADDRESS@; fastcgi_ignore_headers X-Accel-Redirect X-Accel-Charset; }
        location /intercept { fastcgi_pass @ADDRESS@; fastcgi_intercept_errors on; error_page 404 /page; }
        location /intercept2 { fastcgi_pass @ADDRESS@; fastcgi_intercept_errors on; error_page 404 =200 @named; }
        location /page { return 200 \"a page\"; }
        location @named { return 200 named; }
        location /unbuffered { fastcgi_pass @ADDRESS@; fastcgi_buffering off; }
        location /ranges { fastcgi_pass @ADDRESS@; fastcgi_force_ranges on; }
        location /small { fastcgi_pass @ADDRESS@; fastcgi_buffer_size 1k; }
        location /add { fastcgi_pass @ADDRESS@; add_header X-Added a; expires 1h; }
        location /ssi { fastcgi_pass @ADDRESS@; ssi on; ssi_types *; }
        location /sub { fastcgi_pass @ADDRESS@; sub_filter ok OK; sub_filter_types *; }";
    let asks = [
        ask("/hide").answered("X-A: 1\r\nX-B: 2\r\nX-Accel-Expires: 5\r\n\r\nx"),
        ask("/ignore")
            .answered("X-Accel-Redirect: /page\r\nX-Accel-Charset: utf-8\r\nContent-Type: text/html\r\n\r\nx"),
        ask("/intercept").answered("Status: 404 No\r\nX-A: b\r\n\r\nx"),
        ask("/intercept").answered("Status: 403 No\r\n\r\nx"),
        ask("/intercept2").answered("Status: 404 No\r\n\r\nx"),
        ask("/unbuffered").answered([OK, &[b'y'; 100_000]].concat()),
        ask("/unbuffered").answered("Content-Length: 3\r\n\r\nyes"),
        ask_with("GET", "/ranges", "Range: bytes=1-2\r\n", b"").answered("Content-Length: 5\r\n\r\nhello"),
        ask_with("GET", "/ranges", "Range: bytes=1-2\r\n", b"").answered("A: b\r\n\r\nhello"),
        ask("/small").answered([&b"A: "[..], &[b'x'; 2000], b"\r\n\r\nx"].concat()),
        ask("/add").answered(OK),
        ask("/add").answered("Status: 404 No\r\n\r\nx"),
        ask("/ssi").answered("Content-Type: text/html\r\n\r\n<!--#echo var=\"uri\" -->"),
        ask("/sub").answered(OK),
    ];
    alike(Protocol::FastCgi, lines, &asks);
}
