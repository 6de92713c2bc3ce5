//! Upstream servers, responders and logs at Unix sockets whose folder is on a disk that hangs: whoever asks them waits, and nobody else.

use std::os::unix::net::UnixDatagram;

use freerun_testkit::fuse::{Mirror, Op};
use freerun_testkit::{
    Datagrams, PATIENCE, Setup, Site, TestClient, TestServer, TestUpstream, Tls, eventually, require,
};

/// A folder `hung` on a disk that can hang, and a server that listens there at `s.sock`.
struct Hung {
    // Fields are dropped in this order: the mount goes before the folder that it is in.
    disk: Mirror,
    site: Site,
}

impl Hung {
    fn new() -> Hung {
        let site = Site::new();
        site.file("fast", "fast file").folder("of").folder("hung").mode("of", 0o777);
        let disk = Mirror::mount(&site.at("of"), &site.at("hung")).expect("mounting");
        Hung { disk, site }
    }

    fn upstream(&self) -> TestUpstream {
        TestUpstream::unix(&self.site.at("hung/s.sock"))
    }

    /// A server with these lines for requests, and these for sessions on `@PORT2@`. `@SOCKET@` is the upstream server.
    fn server(&self, lines: &str, http: &str, stream: Option<&str>) -> TestServer {
        let socket = format!("unix:{}", self.site.at("hung/s.sock").display());
        let written = |lines: &str| lines.replace("@SOCKET@", &socket);
        let lines = format!("location = /text {{ return 200 text; }} {}", written(lines));
        let mut setup = Setup::server(&self.site, &lines).main("worker_processes 1; user root;").http(&written(http));
        if let Some(stream) = stream {
            setup = setup.stream(&written(stream));
        }
        setup.freerun()
    }

    /// Has the disk hang, has something begun that needs the socket, and sees that the rest goes on meanwhile.
    #[track_caller]
    fn holds_up_nobody<T>(&self, server: &TestServer, begin: impl FnOnce() -> T) -> T {
        self.disk.control().hang(Op::Lookup, "");
        let begun = begin();
        eventually("a lookup hangs", || self.disk.control().waiting() > 0);
        crate::goes_on(server);
        self.disk.control().clear();
        begun
    }
}

/// A request whose answer is not waited for.
fn asking(server: &TestServer, path: &str) -> TestClient {
    let mut client = server.connect();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client
}

#[test]
fn a_request_that_waits_for_the_path_of_a_socket_holds_up_no_other() {
    if !require::fuse() {
        return;
    }
    for pass in [
        "proxy_pass http://@SOCKET@;",
        "proxy_pass https://@SOCKET@;",
        "set $socket @SOCKET@:; proxy_pass http://$socket;",
        "proxy_pass http://group;",
        "fastcgi_pass @SOCKET@;",
        "uwsgi_pass @SOCKET@;",
        "scgi_pass @SOCKET@;",
        "memcached_pass @SOCKET@; set $memcached_key a;",
        "grpc_pass grpc://@SOCKET@;",
    ] {
        let hung = Hung::new();
        let upstream = hung.upstream();
        let group = "upstream group { server @SOCKET@; }";
        let server = hung.server(&format!("location /asks {{ {pass} }}"), group, None);
        let mut client = hung.holds_up_nobody(&server, || asking(&server, "/asks"));
        // The socket is connected to as soon as the disk answers.
        drop((upstream.accept(), upstream));
        assert_eq!(client.response().status, 502, "{pass}");
    }
}

#[test]
fn a_subrequest_and_a_mirror_that_wait_for_the_path_of_a_socket_hold_up_nobody() {
    if !require::fuse() {
        return;
    }
    let hung = Hung::new();
    let upstream = hung.upstream();
    let lines = "location /asks { auth_request /auth; root html; } location = /auth { proxy_pass http://@SOCKET@; }
        location /mirrored { mirror /auth; root html; }";
    let server = hung.server(lines, "", None);
    let (mut client, _mirrored) =
        hung.holds_up_nobody(&server, || (asking(&server, "/asks"), asking(&server, "/mirrored")));
    drop((upstream.accept(), upstream.accept()));
    assert_eq!(client.response().status, 500);
}

#[test]
fn health_checks_of_a_socket_hold_up_nobody() {
    if !require::fuse() {
        return;
    }
    let group = "upstream group { zone group 64k; server @SOCKET@; }";
    let hung = Hung::new();
    let upstream = hung.upstream();
    let checked = "location /asks { proxy_pass http://group; health_check interval=100ms; }";
    let server = hung.server(checked, group, None);
    drop(upstream.accept());
    hung.holds_up_nobody(&server, || ());
    drop(upstream.accept());

    let hung = Hung::new();
    let upstream = hung.upstream();
    let checked =
        format!("{group} server {{ listen 127.0.0.1:@PORT2@; proxy_pass group; health_check interval=100ms; }}");
    let server = hung.server("", "", Some(&checked));
    drop(upstream.accept());
    hung.holds_up_nobody(&server, || ());
    drop(upstream.accept());
}

#[test]
fn a_responder_of_ocsp_at_a_socket_holds_up_nobody_but_those_who_need_it() {
    if !require::fuse() {
        return;
    }
    let pair = "ssl_certificate @CERTS@/ec.crt; ssl_certificate_key @CERTS@/ec.key;";
    let stapling = "ssl_stapling on; ssl_trusted_certificate @CERTS@/ca.crt; ssl_stapling_responder http://@SOCKET@:/;";
    let asking = "ssl_verify_client on; ssl_client_certificate @CERTS@/ca.crt; ssl_ocsp leaf;
         ssl_ocsp_responder http://@SOCKET@:/;";
    // Without an answer nothing is stapled, and nobody's certificate is good.
    for (lines, status) in [(stapling, 200), (asking, 400)] {
        let hung = Hung::new();
        let upstream = hung.upstream();
        let secure = format!("server {{ listen 127.0.0.1:@PORT2@ ssl; {pair} {lines} return 200 secure; }}");
        let server = hung.server("", &secure, None);
        let address = server.address_number(2);
        let visit = hung.holds_up_nobody(&server, || {
            let visit = move || TestClient::connect(address).tls(&Tls::new().certificate("client")).get("/").status;
            std::thread::spawn(visit)
        });
        // The responder is asked as soon as the disk answers.
        drop(upstream.accept());
        assert_eq!(visit.join().expect("the client is answered"), status, "{lines}");
    }
}

#[test]
fn a_log_at_a_socket_that_is_waited_for_holds_up_nobody() {
    if !require::fuse() {
        return;
    }
    let hung = Hung::new();
    let server = hung.server("", "access_log syslog:server=@SOCKET@;", None);
    // Nobody has listened there so far: the next line looks again.
    let socket = UnixDatagram::bind(hung.site.at("hung/s.sock")).expect("a socket");
    hung.holds_up_nobody(&server, || assert_eq!(server.get("/text").text(), "text"));
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut buffer = [0; 256];
    let len = socket.recv(&mut buffer).expect("a line");
    assert!(buffer[..len].windows(9).any(|part| part == b"GET /text"), "{}", buffer[..len].escape_ascii());
}

#[test]
fn a_session_that_waits_for_the_path_of_a_socket_holds_up_nobody() {
    if !require::fuse() {
        return;
    }
    for lines in ["proxy_pass @SOCKET@;", "set $socket @SOCKET@; proxy_pass $socket;"] {
        let hung = Hung::new();
        let upstream = hung.upstream();
        let server = hung.server("", "", Some(&format!("server {{ listen 127.0.0.1:@PORT2@; {lines} }}")));
        let mut client = hung.holds_up_nobody(&server, || {
            let mut client = TestClient::connect(server.address_number(2));
            client.send("hello");
            client
        });
        let mut peer = upstream.accept();
        assert_eq!(peer.bytes(5), b"hello");
        peer.send("answer");
        assert_eq!(client.at_least(6), b"answer");
    }
}

#[test]
fn datagrams_that_wait_for_the_path_of_a_socket_hold_up_nobody() {
    if !require::fuse() {
        return;
    }
    let hung = Hung::new();
    let upstream = UnixDatagram::bind(hung.site.at("hung/s.sock")).expect("a socket");
    let server = hung.server("", "", Some("server { listen 127.0.0.1:@PORT2@ udp; proxy_pass @SOCKET@; }"));
    let _client = hung.holds_up_nobody(&server, || {
        let client = Datagrams::new();
        client.send("hello", server.address_number(2));
        client
    });
    let mut buffer = [0; 16];
    let len = upstream.recv(&mut buffer).expect("the datagram");
    assert_eq!(&buffer[..len], b"hello");
}
