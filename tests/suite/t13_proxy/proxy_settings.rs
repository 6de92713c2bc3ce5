//! What single directives do to a request that is passed on.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use freerun_testkit::{Kind, Setup, Site, TempDir, TestUpstream, check, ok, require};
use rustix::net::{getsockname, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

const GET: &str = "GET /a HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\n\r\n";

fn passing(address: &str, lines: &str) -> Setup {
    Setup::server(&Site::new(), &format!("location / {{ {lines} proxy_pass http://{address}; }}"))
}

#[test]
fn connections_are_made_from_the_address_that_is_bound() {
    let upstream = TestUpstream::new();
    let server = passing(&upstream.address(), "proxy_bind 127.0.0.7;").run();
    let mut client = server.connect();
    client.send(GET);
    let mut peer = upstream.accept();
    assert_eq!(peer.remote().map(|address| address.ip().to_string()).as_deref(), Some("127.0.0.7"));
    peer.request();
    peer.send(ok("x"));
    assert_eq!(client.response().text(), "x");
    // An address that is not ours is our fault, not the server's.
    let server = passing(&upstream.address(), "proxy_bind 192.0.2.1;").run();
    assert_eq!(server.get("/").status, 500);
    server.logs("bind(192.0.2.1:0) failed (99: Cannot assign requested address) while connecting to upstream");
}

#[test]
fn unix_sockets() {
    let dir = TempDir::new("upstream");
    let path = dir.path().join("s");
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("rights");
    let upstream = TestUpstream::unix(&path);
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("rights");
    let server = passing(&format!("unix:{}:", path.display()), "").freerun();
    let mut client = server.connect();
    client.send(GET);
    let mut peer = upstream.accept();
    peer.request();
    for round in ["one", "two"] {
        peer.send(ok(round));
        assert_eq!(client.response().text(), round);
        if round == "one" {
            client.send(GET);
            peer = upstream.accept();
            peer.request();
        }
    }
    drop((peer, upstream));
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(server.get("/").status, 502);
    server.logs(&format!(
        "connect() to unix:{} failed (2: No such file or directory) while connecting to upstream, client: 127.0.0.1, \
         server: localhost, request: \"GET / HTTP/1.1\", upstream: \"http://unix:{0}:/\", host: ",
        path.display()
    ));
}

#[test]
fn trailers_are_passed_on_where_that_is_asked_for() {
    let answer =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nContent-Length: 9\r\n\r\n";
    for (lines, trailers) in [("", "0\r\n\r\n"), ("proxy_pass_trailers on;", "0\r\nX-Sum: 1\r\n\r\n")] {
        let upstream = TestUpstream::answering(move |_| answer.into());
        let server = passing(upstream.address(), lines).freerun();
        let mut client = server.connect();
        client.send(GET.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        let (bytes, _) = client.rest();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.ends_with(&format!("3\r\nabc\r\n{trailers}")), "{text}");
    }
}

#[test]
fn a_limited_rate_delivers_everything() {
    let body = "0123456789".repeat(40_000);
    let answer = ok(&body);
    let upstream = TestUpstream::answering(move |_| answer.clone());
    let server = passing(upstream.address(), "proxy_limit_rate 300k;").freerun();
    assert!(server.get("/").text() == body);
}

/// HTTP/1.1 has no request without `Host`, and a client of HTTP/1.0 may have none.
#[test]
fn a_host_that_variables_do_not_know_is_that_of_the_server_behind() {
    let upstream = TestUpstream::answering(|request| ok(format!("[{}]", request.headers("host").join("|"))));
    let behind = upstream.address();
    for (lines, host, hosts) in [
        ("proxy_set_header Host $http_host;", behind, "h"),
        ("proxy_set_header Host $http_host; proxy_set_header host x;", "x", "h|x"),
        ("proxy_set_header Host $http_host; proxy_http_version 1.0;", "", "h"),
        ("proxy_set_header Host \"\";", "", ""),
        ("", behind, behind),
    ] {
        let server = passing(behind, lines).freerun();
        assert_eq!(server.send("GET / HTTP/1.0\r\n\r\n").text(), format!("[{host}]"), "{lines}");
        assert_eq!(server.send("GET / HTTP/1.0\r\nHost: h\r\n\r\n").text(), format!("[{hosts}]"), "{lines}");
    }
}

/// What a parameter's value says matters only where requests are passed on with it.
#[test]
fn parameters_that_are_not_used_may_name_unknown_variables() {
    if !require::freerun() {
        return;
    }
    let unknown = "unknown \"none_such\" variable";
    for member in ["fastcgi", "uwsgi", "scgi"] {
        let param = format!("{member}_param A $none_such;");
        let pass = format!("{member}_pass 127.0.0.1:1;");
        for (outer, location, problem) in [
            (&*param, format!("{member}_param B c; {pass}"), None),
            ("", param.clone(), None),
            (&param, pass.clone(), Some(unknown)),
            ("", format!("{param} {pass}"), Some(unknown)),
            ("", format!("{param} if ($uri) {{ {pass} }}"), Some(unknown)),
        ] {
            let text =
                format!("events {{ }} http {{ {outer} server {{ listen 127.0.0.1:1; location / {{ {location} }} }} }}");
            let checked = check(Kind::Freerun, &text).expect("it runs");
            let told = problem.is_none_or(|problem| checked.stderr.contains(problem));
            assert!(told && (checked.code == Some(0)) == problem.is_none(), "{text}\n{}", checked.stderr);
        }
    }
}

#[test]
fn a_limited_rate_may_be_what_the_head_says() {
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/bad" => "HTTP/1.1 200 OK\r\nX-Rate: bad\r\nContent-Length: 2\r\n\r\nok".into(),
        _ => "HTTP/1.1 200 OK\r\nX-Rate: 300k\r\nContent-Length: 2\r\n\r\nok".into(),
    });
    let server = passing(upstream.address(), "proxy_limit_rate $upstream_http_x_rate;").freerun();
    assert_eq!([server.get("/").text(), server.get("/bad").text()], ["ok", "ok"]);
    server.logs("invalid size \"bad\"");
    assert_eq!(server.error_log().matches("invalid size").count(), 1, "{}", server.error_log());
}

#[test]
fn a_named_location_may_be_where_a_response_sends_the_request() {
    let upstream = TestUpstream::answering(|request| match request.target() {
        "/first" => "HTTP/1.1 200 OK\r\nX-Accel-Redirect: @second\r\nContent-Length: 0\r\n\r\n".into(),
        target => ok(format!("at {target}")),
    });
    let http = format!(
        "log_format way '$upstream_addr|$upstream_status'; access_log @DIR@/access.log way;
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://{0}; }}
             location @second {{ proxy_pass http://{0}; proxy_method PUT; }} }}",
        upstream.address()
    );
    let server = Setup::new().http(&http).run();
    // It is asked for the same there.
    assert_eq!(server.get("/other").text(), "at /other");
    let looped = server.get("/first");
    assert_eq!(looped.status, 500);
    assert_eq!(server.access_lines(1)[0], format!("{}|200", upstream.address()));
    let line = server.access_lines(2).remove(1);
    let (addresses, statuses) = line.split_once('|').expect("two parts");
    assert!(addresses.starts_with(&format!("{0} : {0}", upstream.address())), "{line}");
    assert!(statuses.starts_with("200 : 200"), "{line}");
}

/// `…_socket_sndbuf` and `…_socket_rcvbuf` of every member, as the kernel has them.
#[test]
fn buffers_of_sockets_have_the_sizes_that_are_written() {
    if !require::root() || !require::freerun() {
        return;
    }
    for member in ["proxy", "fastcgi", "uwsgi", "scgi", "memcached", "tunnel"] {
        let upstream = TestUpstream::new();
        let scheme = if member == "proxy" { "http://" } else { "" };
        let lines = format!(
            "set $memcached_key k; location / {{ {member}_socket_sndbuf 20k; {member}_socket_rcvbuf 30k;
                 {member}_pass {scheme}{}; }}",
            upstream.address()
        );
        let server = Setup::server(&Site::new(), &lines).freerun();
        let mut client = server.connect();
        client.send(if member == "tunnel" { "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n" } else { GET });
        let peer = upstream.accept();
        let ours = socket_of(server.worker(), peer.remote().expect("an address"));
        let sizes = (sockopt::socket_send_buffer_size(&ours), sockopt::socket_recv_buffer_size(&ours));
        // The kernel takes twice of what is asked for.
        assert_eq!(sizes, (Ok(40 * 1024), Ok(60 * 1024)), "{member}");
    }
}

/// The socket of a process that has this local address.
fn socket_of(process: u32, local: SocketAddr) -> OwnedFd {
    let pid = Pid::from_raw(process.try_into().expect("a process")).expect("a process");
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("a process");
    let has_it = |fd: &OwnedFd| getsockname(fd).is_ok_and(|name| SocketAddr::try_from(name) == Ok(local));
    (0..4096)
        .filter_map(|fd| pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).ok())
        .find(has_it)
        .expect("the socket to the upstream")
}
