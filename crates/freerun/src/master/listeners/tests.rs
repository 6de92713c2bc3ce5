use std::net::{SocketAddr, TcpListener, TcpStream};

use super::*;

fn spec(ip: SocketAddr) -> ListenSpec {
    ListenSpec::new(SERVICE, Some(ip), ip.to_string())
}

fn unix(path: &str) -> ListenSpec {
    ListenSpec::new(SERVICE, None, format!("unix:{path}"))
}

/// An address that was free a moment ago.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn ids(listeners: &Listeners, spec: &ListenSpec) -> Vec<*const Socket> {
    listeners.0[&spec.key()].sockets.iter().map(Arc::as_ptr).collect()
}

#[test]
fn sockets_are_kept_over_a_reload_and_removed_ones_close() {
    let log = ErrorLog::none();
    let (a, b) = (spec(free()), spec(free()));
    let old = Listeners::default().extend(&[a.clone(), b.clone()], 2, &log).unwrap();
    let new = old.extend(std::slice::from_ref(&a), 2, &log).unwrap();
    assert_eq!(ids(&old, &a), ids(&new, &a));
    drop(old);
    TcpStream::connect(a.ip.unwrap()).unwrap();
    assert!(TcpStream::connect(b.ip.unwrap()).is_err());
}

#[test]
fn reuseport_makes_a_socket_for_each_loop_and_can_be_turned_on_later() {
    let log = ErrorLog::none();
    let mut a = spec(free());
    let shared = Listeners::default().extend(std::slice::from_ref(&a), 3, &log).unwrap();
    assert_eq!(ids(&shared, &a).len(), 1);
    a.reuseport = true;
    let sharded = shared.extend(std::slice::from_ref(&a), 3, &log).unwrap();
    assert_eq!(ids(&sharded, &a).len(), 3);
    assert_eq!(ids(&sharded, &a)[0], ids(&shared, &a)[0]);
    // Connections may wait in any of them.
    let fewer = sharded.extend(std::slice::from_ref(&a), 2, &log).unwrap();
    assert_eq!(ids(&fewer, &a), ids(&sharded, &a));
    a.reuseport = false;
    let one = fewer.extend(std::slice::from_ref(&a), 2, &log).unwrap();
    assert_eq!(ids(&one, &a), ids(&sharded, &a)[..1]);
}

#[test]
fn a_busy_address_is_told_as_nginx_tells_it() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = spec(holder.local_addr().unwrap());
    // Binding is tried once: the pauses of `extend` are left out.
    let error = Listeners::default().bind(&busy, 1, &ErrorLog::none()).unwrap_err();
    assert_eq!(error.to_string(), format!("bind() to {} failed (98: Address already in use)", busy.name));
}

#[test]
fn options_reach_the_socket() {
    let mut a = spec(free());
    a.so_keepalive = Some(Keepalive::On(Some(33), None, Some(4)));
    a.rcvbuf = Some(8192);
    let bound = Listeners::default().extend(std::slice::from_ref(&a), 1, &ErrorLog::none()).unwrap();
    let socket = &bound.0[&a.key()].sockets[0];
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(33));
    assert_eq!(socket.recv_buffer_size().unwrap(), 16_384, "the kernel doubles it, socket(7)");
    assert!(socket.nonblocking().unwrap());
}

#[test]
fn multipath_is_a_protocol_of_its_own_and_tcp_where_the_kernel_lacks_it() {
    let mut a = spec(free());
    a.multipath = true;
    let bound = Listeners::default().extend(std::slice::from_ref(&a), 1, &ErrorLog::none()).unwrap();
    let socket = &bound.0[&a.key()].sockets[0];
    let has = match Socket::new(Domain::IPV4, Type::STREAM, Some(socket2::Protocol::MPTCP)) {
        Ok(_) => socket2::Protocol::MPTCP,
        Err(error) => {
            assert!(lacks_protocol(&error), "{error}");
            socket2::Protocol::TCP
        }
    };
    assert_eq!(socket.protocol().unwrap(), Some(has));
    // A client that knows nothing of it is served.
    TcpStream::connect(a.ip.unwrap()).unwrap();
    socket.accept().unwrap();
    // Without it the socket stays.
    let plain = spec(a.ip.unwrap());
    let kept = bound.extend(std::slice::from_ref(&plain), 1, &ErrorLog::none()).unwrap();
    assert_eq!(ids(&kept, &plain), ids(&bound, &a));
}

#[test]
fn unix_sockets_replace_dead_ones_and_are_removed() {
    let log = ErrorLog::none();
    let path = std::env::temp_dir().join(format!("freerun-listen-{}.sock", std::process::id()));
    let path = path.to_str().unwrap();
    let a = unix(path);
    // This leaves the file without a listener.
    drop(std::os::unix::net::UnixListener::bind(path).unwrap());
    let bound = Listeners::default().extend(std::slice::from_ref(&a), 1, &log).unwrap();
    UnixStream::connect(path).unwrap();
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o666);
    // A socket file with a listener stays.
    let error = Listeners::default().bind(&a, 1, &log).unwrap_err();
    assert_eq!(error.to_string(), format!("bind() to unix:{path} failed (98: Address already in use)"));
    bound.unlink(Some(&bound), OtherBinaries::default(), &log);
    assert!(std::fs::metadata(path).is_ok());
    bound.unlink(None, OtherBinaries::default(), &log);
    assert!(std::fs::metadata(path).is_err());
}

#[test]
fn who_comes_to_a_loopback_address_is_served_with_its_congestion_control() {
    let log = ErrorLog::none();
    let a = spec(free());
    let listeners = Listeners::default().extend(std::slice::from_ref(&a), 1, &log).unwrap();
    let _client = TcpStream::connect(a.ip.unwrap()).unwrap();
    let accepted = listeners.0[&a.key()].sockets[0].accept().unwrap().0;
    assert_eq!(rustix::net::sockopt::tcp_congestion(&accepted).unwrap(), "reno");
}

#[test]
fn a_test_of_the_configuration_binds_and_leaves_nothing_behind() {
    let path = std::env::temp_dir().join(format!("freerun-try-{}.sock", std::process::id()));
    let (free, socket) = (spec(free()), unix(path.to_str().unwrap()));
    try_bind(&[free.clone(), socket.clone()]).unwrap();
    assert!(!path.exists());
    // An address in use stays as it is, whichever process has it.
    let log = ErrorLog::none();
    let running = Listeners::default().extend(&[free.clone(), socket.clone()], 1, &log).unwrap();
    try_bind(&[free.clone(), socket.clone()]).unwrap();
    TcpStream::connect(free.ip.unwrap()).unwrap();
    UnixStream::connect(&path).unwrap();
    drop(running);
    // An address that this machine does not have: RFC 5737.
    let foreign = spec(SocketAddr::from(([192, 0, 2, 1], 80)));
    let error = try_bind(&[free, foreign]).unwrap_err();
    assert_eq!(error.to_string(), "bind() to 192.0.2.1:80 failed (99: Cannot assign requested address)");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn tcp_and_udp_of_one_address_are_two_sockets() {
    let log = ErrorLog::none();
    let tcp = spec(free());
    let udp = ListenSpec { protocol: Protocol::Datagram, ..tcp.clone() };
    let both = Listeners::default().extend(&[tcp.clone(), udp.clone()], 1, &log).unwrap();
    assert_eq!(both.0[&tcp.key()].sockets[0].r#type().unwrap(), Type::STREAM);
    assert_eq!(both.0[&udp.key()].sockets[0].r#type().unwrap(), Type::DGRAM);
    let one = both.extend(std::slice::from_ref(&udp), 1, &log).unwrap();
    assert_eq!(ids(&one, &udp), ids(&both, &udp));
    drop(both);
    assert!(TcpStream::connect(tcp.ip.unwrap()).is_err());
}

/// Datagrams may come before a loop has the socket.
#[test]
fn the_address_that_an_early_datagram_was_sent_to_is_known() {
    use freerun_runtime::loops;
    use freerun_runtime::net::udp::Datagrams;
    use std::future::poll_fn;
    use std::net::UdpSocket;
    let port = UdpSocket::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port();
    let udp = ListenSpec { protocol: Protocol::Datagram, ..spec(SocketAddr::from(([0, 0, 0, 0], port))) };
    let bound = Listeners::default().extend(std::slice::from_ref(&udp), 1, &ErrorLog::none()).unwrap();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", ("127.0.0.9", port)).unwrap();
    let socket = bound.0[&udp.key()].sockets[0].try_clone().unwrap();
    loops::block_on(async {
        let socket = Datagrams::new(Arc::new(socket.into()));
        let to =
            poll_fn(|context| socket.poll_receive(context, 1, |all| all.iter().next().and_then(|one| one.to))).await;
        assert_eq!(to.unwrap(), Some("127.0.0.9".parse().unwrap()));
    })
    .unwrap();
}

#[test]
fn each_loop_has_a_socket_for_datagrams_and_another_server_has_none() {
    use std::net::UdpSocket;
    let log = ErrorLog::none();
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut udp = ListenSpec { protocol: Protocol::Datagram, ..spec(address) };
    let bound = Listeners::default().extend(std::slice::from_ref(&udp), 3, &log).unwrap();
    let sockets = &bound.0[&udp.key()].sockets;
    assert_eq!(sockets.len(), 3);
    // The kernel spreads clients over them, and all that one client sends comes to one of them.
    for _ in 0..60 {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..2 {
            client.send_to(b"x", address).unwrap();
        }
    }
    let got = sockets.iter().map(|socket| {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 8];
        std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count()
    });
    let got: Vec<_> = got.collect();
    assert_eq!(got.iter().sum::<usize>(), 120);
    assert!(got.iter().all(|count| *count < 120 && count % 2 == 0), "{got:?}");
    let error = Listeners::default().bind(&udp, 3, &log).unwrap_err();
    assert_eq!(error.to_string(), format!("bind() to {address} failed (98: Address already in use)"));
    // A reload with more loops, or for another reason, keeps the sockets that there are.
    let more = bound.extend(std::slice::from_ref(&udp), 4, &log).unwrap();
    assert_eq!(ids(&more, &udp)[..3], ids(&bound, &udp));
    assert_eq!(ids(&more, &udp).len(), 4);
    udp.in_range = true;
    assert_eq!(ids(&bound.extend(std::slice::from_ref(&udp), 4, &log).unwrap(), &udp), ids(&bound, &udp)[..1]);
}

#[test]
fn packets_of_quic_come_to_the_socket_of_their_connection_also_after_a_reload() {
    use std::net::UdpSocket;
    let log = ErrorLog::none();
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut quic = ListenSpec { protocol: Protocol::Datagram, quic: true, ..spec(address) };
    /// Sends packets with connection IDs that begin with every byte, and returns which bytes each socket got.
    fn got(bound: &Listeners, spec: &ListenSpec) -> Vec<Vec<u8>> {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut got = vec![Vec::new(); bound.0[&spec.key()].sockets.len()];
        for id in 0..=u8::MAX {
            // A short header in one half of the packets, and a long one in the other.
            let short = [0x40, id, 1, 2, 3, 4, 5, 6];
            let long = [0xc0, 0, 0, 0, 1, 8, id, 1, 2, 3];
            client.send_to(if id % 2 == 0 { &short } else { &long }, spec.ip.unwrap()).unwrap();
            for (socket, got) in bound.0[&spec.key()].sockets.iter().zip(&mut got) {
                let mut buffer = [std::mem::MaybeUninit::uninit(); 8];
                got.extend(std::iter::from_fn(|| socket.recv(&mut buffer).ok()).map(|_| id));
            }
        }
        got
    }
    let wanted = |sockets: u8| -> Vec<Vec<u8>> {
        (0..sockets).map(|number| (0..=u8::MAX).filter(|id| id % sockets == number).collect()).collect()
    };
    let bound = Listeners::default().extend(std::slice::from_ref(&quic), 3, &log).unwrap();
    assert_eq!(got(&bound, &quic), wanted(3));
    let more = bound.extend(std::slice::from_ref(&quic), 5, &log).unwrap();
    assert_eq!(ids(&more, &quic)[..3], ids(&bound, &quic));
    drop(bound);
    assert_eq!(got(&more, &quic), wanted(5));
    // Packets may wait in any of them.
    let fewer = more.extend(std::slice::from_ref(&quic), 2, &log).unwrap();
    drop(more);
    assert_eq!(got(&fewer, &quic), wanted(5));
    // Sessions of stream have the address now: all that one client sends comes to one socket.
    quic.quic = false;
    let sessions = fewer.extend(std::slice::from_ref(&quic), 5, &log).unwrap();
    assert_eq!(got(&sessions, &quic).iter().filter(|got| !got.is_empty()).count(), 1);
}
