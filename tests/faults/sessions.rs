//! Sessions of stream whose clients or servers vanish, stall or come in too large numbers.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use freerun_testkit::{ConnectionEnd, Datagrams, Peer, Setup, TestClient, TestServer, TestUpstream, eventually};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::descriptors;

/// A server whose sessions on `@PORT2@` have these lines; `@PORT@` is there to see that it runs.
fn streaming(listen: &str, lines: &str) -> Setup {
    Setup::new()
        .http("server { listen 127.0.0.1:@PORT@; location / { return 204; } location /status { status; } }")
        .stream(&format!("server {{ listen 127.0.0.1:@PORT2@ {listen}; {lines} }}"))
}

/// The address of the server for sessions.
fn front(server: &TestServer) -> SocketAddr {
    server.address_number(2)
}

/// A session whose upstream has its first message.
fn open(server: &TestServer, upstream: &TestUpstream) -> (TestClient, Peer) {
    open_at(front(server), upstream)
}

/// The same at this address of the server.
fn open_at(address: SocketAddr, upstream: &TestUpstream) -> (TestClient, Peer) {
    let mut client = TestClient::connect(address);
    client.send("hello");
    let mut peer = upstream.accept();
    assert_eq!(peer.bytes(5), b"hello");
    (client, peer)
}

/// Bytes go both ways.
#[track_caller]
fn goes_on((client, peer): &mut (TestClient, Peer)) {
    client.send("question");
    assert_eq!(peer.bytes(8), b"question");
    peer.send("answer");
    assert_eq!(client.at_least(6), b"answer");
    client.take();
}

/// The memory of a process that is its own, in bytes.
fn memory(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

#[test]
fn a_server_that_dies_ends_its_sessions_and_no_others() {
    let (dies, lives) = (TestUpstream::new(), TestUpstream::new());
    let behind = format!("proxy_pass {};", dies.address());
    let other = format!("server {{ listen 127.0.0.1:@PORT3@; proxy_pass {}; }}", lives.address());
    let server = streaming("", &behind).stream(&other).freerun();
    let mut survivor = open_at(server.address_number(3), &lives);
    let before = descriptors(server.worker());
    for number in 0..30 {
        let (mut client, mut peer) = open(&server, &dies);
        peer.send("half an ans");
        client.at_least(11);
        match number % 3 {
            0 => peer.reset(),
            1 => peer.close(),
            // Its machine is gone, and comes back without knowing of the session.
            _ => {
                peer.stop_taking();
                client.send("more");
                peer.reset();
            }
        }
        let (bytes, ending) = client.rest();
        assert_eq!(bytes, b"half an ans");
        assert_ne!(ending, ConnectionEnd::Silent, "{number}");
        goes_on(&mut survivor);
    }
    server.logs("Connection reset by peer) while proxying");
    eventually("descriptors are closed", || descriptors(server.worker()) <= before);
}

#[test]
fn clients_that_vanish_take_their_servers_sessions_along() {
    let upstream = TestUpstream::new();
    let server = streaming("", &format!("proxy_pass {};", upstream.address())).freerun();
    let mut survivor = open(&server, &upstream);
    let before = descriptors(server.worker());
    for _ in 0..30 {
        let (client, mut peer) = open(&server, &upstream);
        client.reset();
        assert_eq!(peer.rest(), b"");
        goes_on(&mut survivor);
    }
    eventually("descriptors are closed", || descriptors(server.worker()) <= before);
}

#[test]
fn peers_that_say_nothing_any_more_are_left_after_their_time() {
    const SILENT: usize = 100;
    let upstream = TestUpstream::new();
    let lines = format!("proxy_timeout 500ms; proxy_half_close on; proxy_pass {};", upstream.address());
    let long = format!("server {{ listen 127.0.0.1:@PORT3@; proxy_timeout 60s; proxy_pass {}; }}", upstream.address());
    let server = streaming("", &lines).stream(&long).freerun();
    let mut survivor = open_at(server.address_number(3), &upstream);
    let before = descriptors(server.worker());
    // One of the ends has said that it will send nothing more, and neither of them closes.
    let silent: Vec<(TestClient, Peer)> = (0..SILENT)
        .map(|number| {
            let (mut client, mut peer) = open(&server, &upstream);
            if number % 3 == 0 {
                client.half_close();
            } else if number % 3 == 1 {
                peer.half_close();
            }
            (client, peer)
        })
        .collect();
    goes_on(&mut survivor);
    for (mut client, mut peer) in silent {
        assert_ne!(client.ending(), ConnectionEnd::Silent);
        peer.rest();
    }
    goes_on(&mut survivor);
    eventually("descriptors are closed", || descriptors(server.worker()) <= before);
}

/// The most bytes that can be on the way between two ends: what the kernel keeps for four sockets (`net.ipv4.tcp_rmem`,
/// `tcp_wmem`), and what the server does.
const ON_THE_WAY: usize = 64 << 20;

/// A megabyte that is not alike everywhere.
fn piece() -> Vec<u8> {
    (0..1 << 20).map(|at| (at % 251) as u8).collect()
}

/// Sends so many bytes, and counts those that the kernel has taken.
fn pour(mut to: TcpStream, count: usize, poured: &AtomicUsize) {
    use std::io::Write;
    let piece = piece();
    for _ in 0..count / piece.len() {
        to.write_all(&piece).expect("a reader");
        poured.fetch_add(piece.len(), Relaxed);
    }
    to.shutdown(Shutdown::Write).expect("a connection");
}

/// Reads pieces of that to the end. Before each it looks at the memory of the server, and at what is on the way. Returns how much
/// came, and the most memory.
fn trickle(mut from: TcpStream, worker: u32, poured: &AtomicUsize) -> (usize, usize) {
    use std::io::Read;
    let (mut sum, mut most) = (0, 0);
    let expected = piece();
    let mut buffer = vec![0; expected.len()];
    loop {
        most = most.max(memory(worker));
        let on_the_way = poured.load(Relaxed).saturating_sub(sum);
        assert!(on_the_way < ON_THE_WAY, "{on_the_way} bytes are on the way");
        let mut filled = 0;
        while filled < buffer.len() {
            match from.read(&mut buffer[filled..]).expect("a connection") {
                0 => return (sum + filled, most),
                count => filled += count,
            }
        }
        assert!(buffer == expected, "other bytes behind {sum}");
        sum += filled;
    }
}

#[test]
fn what_a_slow_reader_does_not_take_stays_with_the_sender() {
    const SIZE: usize = 1 << 30;
    /// A buffer for the one that stalls, and what a loop has for all.
    const ROOM: usize = 4 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = streaming("", &format!("proxy_pass {};", listener.local_addr().expect("its address"))).freerun();
    let worker = server.worker();
    // A little first, so that what is allocated for the first session of all is there.
    for (size, is_upload) in [(8 << 20, false), (SIZE, false), (SIZE / 8, true)] {
        let client = TcpStream::connect(front(&server)).expect("the server");
        let (peer, _) = listener.accept().expect("a session");
        let (from, to) = if is_upload { (client, peer) } else { (peer, client) };
        let before = memory(worker);
        let poured = Arc::new(AtomicUsize::new(0));
        let counted = poured.clone();
        let sender = std::thread::spawn(move || pour(from, size, &counted));
        let (sum, most) = trickle(to, worker, &poured);
        sender.join().expect("a sender");
        assert_eq!(sum, size);
        assert!(most < before + ROOM, "{before} bytes before, {most} at most");
    }
}

#[test]
fn readers_that_take_nothing_hold_a_buffer_each() {
    const READERS: usize = 50;
    /// What is kept for one: `proxy_buffer_size`, and what a loop reads at a time beyond it.
    const ROOM: usize = (16 << 10) + (128 << 10);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let server = streaming("", &format!("proxy_pass {};", listener.local_addr().expect("its address"))).freerun();
    let worker = server.worker();
    let before = memory(worker);
    let sessions: Vec<_> = (0..READERS)
        .map(|_| {
            let client = TcpStream::connect(front(&server)).expect("the server");
            let (mut peer, _) = listener.accept().expect("a session");
            peer.set_nonblocking(true).expect("an option");
            fill(&mut peer);
            (client, peer)
        })
        .collect();
    let grown = memory(worker).saturating_sub(before);
    assert!(grown < READERS * ROOM + (4 << 20), "{grown} bytes for {READERS}");
    assert_eq!(TestClient::connect(server.address()).get("/").status, 204);
    drop(sessions);
}

/// Sends until nothing more is taken, and returns how much was.
fn fill(peer: &mut TcpStream) -> usize {
    use std::io::Write;
    let piece = vec![b'x'; 1 << 16];
    let mut sum = 0;
    loop {
        match peer.write(&piece) {
            Ok(count) => sum += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // The server may take more of it in a moment.
                let wait = Timespec::try_from(Duration::from_millis(30)).expect("a time");
                if poll(&mut [PollFd::new(&*peer, PollFlags::OUT)], Some(&wait)).expect("a descriptor") == 0 {
                    return sum;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_flood_of_new_clients_finds_room_and_takes_no_memory() {
    const SESSIONS: usize = 50;
    const CLIENTS: usize = 2000;
    let echo = Datagrams::echo();
    let server = streaming("udp", &format!("udp_sessions {SESSIONS}; proxy_pass {echo};")).freerun();
    let worker = server.worker();
    let before = descriptors(worker);
    let mut last = None;
    for _ in 0..CLIENTS {
        // The newest is served, whoever has to go for it.
        let client = Datagrams::new();
        assert!(client.ask("question", front(&server)).ends_with(":question"));
        last = Some(client);
    }
    let client = last.expect("a client");
    let session = client.ask("again", front(&server));
    assert_eq!(client.ask("again", front(&server)), session, "it is the same session");
    let open = |server: &TestServer| server.status()["stream"]["open"].as_u64().unwrap_or(u64::MAX);
    eventually("the others have ended", || open(&server) <= SESSIONS as u64);
    eventually("and their descriptors are closed", || descriptors(worker) <= before + SESSIONS + 2);
    assert_eq!(server.status()["stream"]["lost_datagrams"]["from_clients"], 0);
}

#[test]
fn sessions_without_descriptors_end_and_later_ones_are_served() {
    const MOST: usize = 64;
    let upstream = TestUpstream::new();
    let lines = format!("proxy_connect_timeout 1s; proxy_pass {};", upstream.address());
    let setup = streaming("", &lines).main(&format!("worker_rlimit_nofile {MOST};")).events("worker_connections 1000;");
    let server = setup.freerun();
    let worker = server.worker();
    let mut first = open(&server, &upstream);
    let clients: Vec<TestClient> = (0..MOST).map(|_| TestClient::connect(front(&server))).collect();
    server.logs("(24: Too many open files)");
    // Whoever is there stays.
    goes_on(&mut first);
    drop(clients);
    while upstream.try_accept(Duration::from_millis(100)).is_some() {}
    eventually("descriptors are given back", || descriptors(worker) < MOST / 2);
    let mut client = TestClient::connect(front(&server));
    client.send("later");
    // Connections of clients that are gone may still come before it.
    let peer = loop {
        let mut peer = upstream.accept();
        if peer.try_bytes(5).is_some_and(|bytes| bytes == b"later") {
            break peer;
        }
    };
    let mut later = (client, peer);
    goes_on(&mut later);
    goes_on(&mut first);
    assert_eq!(server.worker(), worker, "the worker lives");
}

#[test]
fn datagrams_for_which_there_is_no_descriptor_are_lost_alone() {
    const MOST: usize = 64;
    let echo = Datagrams::echo();
    let setup = streaming("udp", &format!("proxy_timeout 2s; proxy_pass {echo};"));
    let server = setup.main(&format!("worker_rlimit_nofile {MOST};")).events("worker_connections 1000;").freerun();
    let first = Datagrams::new();
    let session = first.ask("x", front(&server));
    let clients: Vec<Datagrams> = (0..2 * MOST).map(|_| Datagrams::new()).collect();
    clients.iter().for_each(|client| client.send("question", front(&server)));
    server.logs("(24: Too many open files)");
    assert_eq!(first.ask("x", front(&server)), session, "it is the same session");
    eventually("there is room again", || {
        let client = Datagrams::new();
        client.send("question", front(&server));
        client.receives_within(Duration::from_millis(200))
    });
}
