//! The defaults of nginx's directives, written out: a server that has all of them at once answers as one that has none of them.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::net::{Shutdown, TcpListener};
use std::sync::mpsc::{Receiver, channel};

use freerun_testkit::{Setup, Site, TestClient, TestServer, Tls, TlsVersion, require};

/// Name, block and default of each directive that nginx documents with a default and freerun has.
const TABLE: &str = include_str!("../../../crates/freerun/src/nginx_defaults.tsv");

/// Directives that are not written, each with the reason.
const LEFT_OUT: [(&str, &str); 26] = [
    ("access_log", "the default path is the one compiled in"),
    ("acme_shared_zone", "the documentation shows a description"),
    ("aio", "it differs, and says so"),
    ("challenge", "it stands in a block of its own"),
    ("client_body_temp_path", "the default path is the one compiled in"),
    ("common_name_in_csr", "it stands in a block of its own"),
    ("daemon", "the harness has it on the command line"),
    ("error_log", "the harness has it on the command line"),
    ("fastcgi_temp_path", "the default path is the one compiled in"),
    ("grpc_ssl_name", "the documentation shows a description"),
    ("listen", "the documentation shows two"),
    ("lock_file", "the default path is the one compiled in"),
    ("log_format", "the documentation shows a description"),
    ("open_file_cache", "it differs, and says so"),
    ("pid", "the harness has it on the command line"),
    ("proxy_redirect", "it needs a proxy_pass beside it"),
    ("proxy_ssl_name", "the documentation shows a description"),
    ("proxy_temp_path", "the default path is the one compiled in"),
    ("scgi_temp_path", "the default path is the one compiled in"),
    ("ssl_verify", "it stands in a block of its own"),
    ("state_path", "it stands in a block of its own"),
    ("types", "the table is built in, with more than the documentation shows"),
    ("user", "the user is the one compiled in"),
    ("userid_service", "the documentation shows a description"),
    ("uwsgi_ssl_name", "the documentation shows a description"),
    ("uwsgi_temp_path", "the default path is the one compiled in"),
];

/// More bytes than a body has that is read whole.
const MANY: usize = 21_000;

/// The directives of a block of the table, with their defaults, and how many they are.
fn written(block: &str, count: &mut usize) -> String {
    let mut lines = String::new();
    for line in TABLE.lines() {
        let [name, within, default] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if within != block || LEFT_OUT.iter().any(|(left_out, _)| *left_out == name) {
            continue;
        }
        // Of two values that depend on the platform, the last one.
        let value = match default.rsplit_once(' ') {
            Some((first, last)) if last.contains('|') => format!("{first} {}", last.rsplit('|').next().unwrap_or(last)),
            _ => default.rsplit('|').next().unwrap_or(default).trim().to_owned(),
        };
        lines += &format!("{name} {value};\n");
        *count += 1;
    }
    lines
}

/// Listens where applications are passed to, and gives the first bytes of each connection.
fn application() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let address = listener.local_addr().expect("an address").to_string();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut bytes = vec![0; 64 << 10];
            let count = stream.and_then(|mut stream| stream.read(&mut bytes)).unwrap_or(0);
            bytes.truncate(count);
            if sender.send(bytes).is_err() {
                return;
            }
        }
    });
    (address, receiver)
}

/// A server with the defaults written out, or without them.
fn server(site: &Site, application: &str, is_written: bool, count: &mut usize) -> TestServer {
    let mut block = |name: &str| if is_written { written(name, count) } else { String::new() };
    let (main, events, http, own, location) =
        (block("main"), block("events"), block("http"), block("server"), block("location"));
    let (group, stream, session) = (block("upstream"), block("stream"), block("server in stream"));
    let session_group = block("upstream in stream");
    let pair = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";
    let told = "$request $server_protocol host=$http_host connection=$http_connection accept=$http_accept_encoding \
        own=$http_x_own low=$http_x_y length=$content_length transfer=$http_transfer_encoding \
        forwarded=$http_x_forwarded_for $content_type";
    let secure = "$ssl_protocol $ssl_cipher $ssl_curve name=$ssl_server_name alpn=$ssl_alpn_protocol \
        reused=$ssl_session_reused verify=$ssl_client_verify early=$ssl_early_data";
    Setup::new()
        .root(site)
        .main(&main)
        .events(&events)
        .http(&format!(
            "{http}
             upstream group {{ server 127.0.0.1:@PORT2@; {group} }}
             server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {own}
                 location / {{ {location} }}
                 location /proxy {{ proxy_pass http://group; }}
                 location /secure {{ proxy_pass https://127.0.0.1:@PORT3@; }}
                 location /call {{ grpc_pass grpc://127.0.0.1:@PORT4@; }}
                 location /secure-call {{ grpc_pass grpcs://127.0.0.1:@PORT5@; }}
                 location /fastcgi {{ fastcgi_pass {application}; }}
                 location /scgi {{ scgi_pass {application}; }}
                 location /uwsgi {{ uwsgi_pass {application}; }}
                 location /memcached {{ set $memcached_key key; memcached_pass {application}; }}
                 location /list/ {{ autoindex on; }}
                 location /gzip/ {{ gzip on; }}
                 location /ssi/ {{ ssi on; }}
                 location /sub/ {{ sub_filter text TEXT; }}
                 location /charset/ {{ charset utf-8; }}
                 location /expires/ {{ expires 1h; add_header X-Own own; }}
                 location /error {{ error_page 404 /a.txt; }} }}
             server {{ listen 127.0.0.1:@PORT2@; location / {{ return 200 '{told}'; }}
                 location /proxy/moved {{ return 302 /elsewhere; }}
                 location /proxy/failed {{ return 503; }} }}
             server {{ listen 127.0.0.1:@PORT3@ ssl; {pair} return 200 '{secure} {told}'; }}
             server {{ listen 127.0.0.1:@PORT4@; http2 on; return 200 '{told}'; }}
             server {{ listen 127.0.0.1:@PORT5@ ssl; http2 on; {pair} return 200 '{secure} {told}'; }}"
        ))
        .stream(&format!(
            "{stream}
             upstream group {{ server 127.0.0.1:@PORT2@; {session_group} }}
             server {{ listen 127.0.0.1:@PORT6@; {session} return '$protocol $status'; }}
             server {{ listen 127.0.0.1:@PORT7@; proxy_pass group; }}
             server {{ listen 127.0.0.1:@PORT8@ ssl; {pair} return '$ssl_protocol $ssl_cipher $ssl_curve'; }}"
        ))
        .freerun()
}

/// What the server says to each client: every byte, but for the time and the numbers of its ports.
fn answers(server: &TestServer, application: &Receiver<Vec<u8>>) -> Vec<String> {
    let ports: Vec<String> = (1..=8).map(|number| server.address_number(number).port().to_string()).collect();
    let plain = |bytes: &[u8]| {
        let mut text = bytes.escape_ascii().to_string().replace("\\r\\n", "\n");
        for (number, port) in ports.iter().enumerate() {
            text = text.replace(port, &format!("PORT{}", number + 1));
        }
        let lines = text.split('\n').filter(|line| !line.starts_with("Date: "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut answers = Vec::new();
    let mut ask = |mut client: TestClient, request: &str| {
        // A server that refuses a request may not read all of it.
        let _ = client.try_send(request);
        if request.len() > MANY {
            // It waits for the rest otherwise, to let the client read its answer.
            let _ = client.socket().shutdown(Shutdown::Write);
        }
        let answer = plain(&client.rest().0);
        let request: String = request.chars().take(100).collect();
        answers.push(format!("{request:?}\n{answer}"));
    };
    let fields = "Host: a.example\r\nConnection: close\r\nAccept-Encoding: gzip\r\nX-Own: own\r\nX_Y: low\r\n";
    for target in [
        "/a.txt",
        "//a.txt",
        "/none",
        "/dir",
        "/dir/",
        "/empty/",
        "/unknown.xyz",
        "/list/",
        "/gzip/a.txt",
        "/gzip/page.html",
        "/ssi/page.html",
        "/sub/page.html",
        "/charset/a.txt",
        "/error/none",
        "/proxy?a=b",
        "/proxy/moved",
        "/proxy/failed",
        "/secure",
        "/call",
        "/secure-call",
    ] {
        for method in ["GET", "HEAD"] {
            ask(server.connect(), &format!("{method} {target} HTTP/1.1\r\n{fields}\r\n"));
        }
        ask(server.connect(), &format!("GET {target} HTTP/1.0\r\n\r\n"));
    }
    for more in [
        "Range: bytes=0-3\r\n",
        "Range: bytes=0-1,3-4\r\n",
        "If-Modified-Since: Thu, 01 Jan 2037 00:00:00 GMT\r\n",
        "If-None-Match: *\r\n",
        "bad name: x\r\n",
        "User-Agent: Mozilla/4.0 (compatible; MSIE 6.0)\r\n",
        "X-Real-IP: 192.0.2.1\r\n",
        &format!("X-Long: {}\r\n", "x".repeat(7000)),
        &format!("X-Long: {}\r\n", "x".repeat(9000)),
    ] {
        for target in ["/a.txt", "/proxy"] {
            ask(server.connect(), &format!("GET {target} HTTP/1.1\r\n{fields}{more}\r\n"));
        }
    }
    for (method, length) in [("POST", 10), ("PUT", 20_000), ("POST", 2_000_000)] {
        for target in ["/a.txt", "/proxy", "/call"] {
            let body = "x".repeat(length.min(MANY));
            ask(
                server.connect(),
                &format!("{method} {target} HTTP/1.1\r\n{fields}Content-Length: {length}\r\n\r\n{body}"),
            );
        }
    }
    ask(server.connect(), &format!("TRACE / HTTP/1.1\r\n{fields}\r\n"));
    ask(server.connect(), &format!("DELETE /a.txt HTTP/1.1\r\n{fields}\r\n"));
    for version in TlsVersion::ALL {
        let tls = Tls::new().only(version);
        let client = |number| TestClient::connect(server.address_number(number)).tls(&tls);
        ask(client(3), &format!("GET / HTTP/1.1\r\n{fields}\r\n"));
        ask(client(8), "");
    }
    ask(TestClient::connect(server.address_number(3)), &format!("GET / HTTP/1.1\r\n{fields}\r\n"));
    ask(TestClient::connect(server.address_number(6)), "");
    ask(TestClient::connect(server.address_number(7)), &format!("GET /passed HTTP/1.1\r\n{fields}\r\n"));
    let mut asked = Vec::new();
    for family in ["fastcgi", "scgi", "uwsgi", "memcached"] {
        ask(server.connect(), &format!("GET /{family}?a=b HTTP/1.1\r\n{fields}\r\n"));
        asked.push(format!("{family}\n{}", plain(&application.recv().expect("it is asked"))));
    }
    answers.append(&mut asked);
    answers
}

#[test]
fn defaults_do_what_they_do_when_they_are_written() {
    if !require::freerun() {
        return;
    }
    let names: BTreeSet<&str> = TABLE.lines().filter_map(|line| line.split('\t').next()).collect();
    for (name, _) in LEFT_OUT {
        assert!(names.contains(name), "{name} has no default");
    }
    let site = Site::new();
    site.dated("a.txt", "some text of a file", 1_500_000_000)
        .dated("dir/index.html", "index", 1_500_000_000)
        .dated("unknown.xyz", "unknown", 1_500_000_000)
        .folder("empty")
        .dated("list/a.txt", "listed", 1_500_000_000);
    for folder in ["gzip", "ssi", "sub", "charset"] {
        site.dated(&format!("{folder}/a.txt"), "some text of a file ".repeat(20), 1_500_000_000);
        let page = "text <!--# echo var=\"uri\" --> text".repeat(20);
        site.dated(&format!("{folder}/page.html"), page, 1_500_000_000);
    }
    let (address, asked) = application();
    let mut count = 0;
    let untouched = answers(&server(&site, &address, false, &mut count), &asked);
    let all = answers(&server(&site, &address, true, &mut count), &asked);
    let is_left_out = |line: &&str| LEFT_OUT.iter().any(|(name, _)| line.split('\t').next() == Some(name));
    let left_out = TABLE.lines().filter(is_left_out).count();
    assert_eq!(count + left_out, TABLE.lines().count(), "every directive of the table is written or left out");
    let wrong: Vec<_> = untouched.iter().zip(&all).filter(|(without, with)| without != with).collect();
    assert!(wrong.is_empty(), "{}", wrong.iter().map(|(a, b)| format!("{a}\n--- written:\n{b}\n")).collect::<String>());
}
