use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn pair() -> (Socket, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (ours, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Socket::new(ours.into()), peer)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    loops::block_on(future).unwrap()
}

#[test]
fn reads_bytes_that_come_before_and_after_registration_and_the_end() {
    run(async {
        let (socket, mut peer) = pair();
        let mut buffer = Vec::with_capacity(16);
        peer.write_all(b"one").unwrap();
        socket.readable().await.unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
        let writer = std::thread::spawn(move || {
            peer.write_all(b"second").unwrap();
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            peer
        });
        socket.readable().await.unwrap();
        let mut got = Vec::new();
        loop {
            let mut small = Vec::with_capacity(4);
            if socket.read(&mut small).await.unwrap() == 0 {
                break;
            }
            got.append(&mut small);
        }
        assert_eq!(got, b"second");
        drop(writer.join().unwrap());
    });
}

#[test]
fn what_comes_between_a_short_read_and_the_registration_is_read_and_the_end_too() {
    run(async {
        let (socket, mut peer) = pair();
        let mut buffer = Vec::with_capacity(16);
        peer.write_all(b"one").unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
        peer.write_all(b"two").unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
        peer.write_all(b"three").unwrap();
        peer.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 5);
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 0);
        assert_eq!(buffer, b"onetwothree");
    });
}

#[test]
fn a_socket_that_was_just_registered_is_not_taken_for_quiet() {
    run(async {
        let (socket, mut peer) = pair();
        peer.write_all(b"one").unwrap();
        assert_eq!(socket.read(&mut Vec::with_capacity(16)).await.unwrap(), 3);
        drop(peer);
        socket.watch().unwrap();
        assert!(!socket.is_quiet(false), "no event has told of the end yet");
    });
}

#[test]
fn a_peer_that_has_sent_something_although_nothing_was_expected_is_heard() {
    run(async {
        let (socket, mut peer) = pair();
        peer.write_all(b"one").unwrap();
        socket.expect_nothing();
        let mut buffer = Vec::with_capacity(16);
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
        // The socket may be registered already, while it is connected.
        let (socket, mut peer) = pair();
        socket.watch().unwrap();
        peer.write_all(b"two").unwrap();
        loops::after_events().await;
        socket.expect_nothing();
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 3);
        assert_eq!(buffer, b"onetwo");
    });
}

#[test]
fn a_socket_that_was_taken_over_ends_with_its_last_loop_although_the_first_one_still_has_it() {
    run(async {
        let (first, mut peer) = pair();
        let second = Socket::taken_over(first.shared_fd());
        let third = second.taken();
        drop(second);
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(third);
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
        drop(first);
        // The second loop may be late, too.
        let (first, mut peer) = pair();
        let second = Socket::taken_over(first.shared_fd());
        let third = Socket::taken_over(second.shared_fd());
        second.disown();
        drop(second);
        peer.set_nonblocking(true).unwrap();
        assert_eq!(peer.read(&mut [0; 1]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(third);
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
    });
}

#[test]
fn a_socket_read_to_the_last_byte_waits_for_the_next_one() {
    run(async {
        let (socket, mut peer) = pair();
        let is_ready = || std::future::poll_fn(|context| Poll::Ready(socket.poll_readable(context).is_ready()));
        assert!(!is_ready().await);
        for _ in 0..2 {
            peer.write_all(b"abc").unwrap();
            let mut exactly = BytesMut::with_capacity(3);
            assert_eq!(socket.read_bytes(&mut exactly, 3).await.unwrap(), 3);
            assert!(!is_ready().await, "nothing is left");
        }
        peer.write_all(b"abcd").unwrap();
        let mut part = BytesMut::with_capacity(3);
        assert_eq!(socket.read_bytes(&mut part, 3).await.unwrap(), 3);
        assert!(is_ready().await, "a byte is left");
        assert_eq!(socket.read(&mut Vec::with_capacity(1)).await.unwrap(), 1);
        drop(peer);
        socket.readable().await.unwrap();
        assert_eq!(socket.read(&mut Vec::with_capacity(1)).await.unwrap(), 0);
    });
}

#[test]
fn who_reads_what_is_there_gives_others_their_turn() {
    const BYTES: usize = 1000;
    let turns = std::rc::Rc::new(Cell::new(0));
    let count = turns.clone();
    run(async {
        loops::spawn(0, "another one", async move {
            loop {
                count.set(count.get() + 1);
                loops::yield_now().await;
            }
        });
        let (socket, mut peer) = pair();
        peer.write_all(&[b'x'; BYTES]).unwrap();
        for _ in 0..BYTES {
            assert_eq!(socket.read(&mut Vec::with_capacity(1)).await.unwrap(), 1);
        }
    });
    assert!(turns.get() > 0);
}

#[test]
fn a_full_socket_is_not_writable_until_the_peer_reads() {
    run(async {
        let (socket, mut peer) = pair();
        let chunk = vec![b'x'; 1 << 20];
        let mut sent = 0;
        loop {
            match socket.try_write(&[IoSlice::new(&chunk)], false) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        let reader = std::thread::spawn(move || {
            let mut total = 0;
            let mut buffer = vec![0; 1 << 20];
            while total < sent + 1 {
                total += peer.read(&mut buffer).unwrap();
            }
            total
        });
        socket.writable_after_full().await.unwrap();
        socket.writable().await.unwrap();
        socket.try_write(&[IoSlice::new(b"!")], false).unwrap();
        assert_eq!(reader.join().unwrap(), sent + 1);
    });
}

#[test]
fn a_kept_socket_is_quiet_until_bytes_or_the_end_come_and_may_change_its_loop() {
    let (socket, mut peer) = pair();
    let socket = run(async {
        assert!(socket.is_quiet(false));
        socket.watch().unwrap();
        peer.write_all(b"abc").unwrap();
        let mut exactly = Vec::with_capacity(3);
        assert_eq!(socket.read(&mut exactly).await.unwrap(), 3);
        // The registration still says "readable": the read had no room to find out that nothing is left.
        assert!(socket.is_quiet(false) && socket.is_quiet(true));
        socket
    });
    // The socket's loop is gone, and this is another thread.
    std::thread::spawn(move || {
        let socket = socket.moved();
        run(async {
            socket.watch().unwrap();
            assert!(socket.is_quiet(false) && socket.is_quiet(true));
            drop(peer);
            assert!(!socket.is_quiet(true));
            socket.readable().await.unwrap();
            assert!(!socket.is_quiet(false));
        });
    })
    .join()
    .unwrap();
}

#[test]
fn a_reset_peer_is_gone_even_behind_unread_bytes() {
    run(async {
        let (socket, mut peer) = pair();
        peer.write_all(b"pipelined").unwrap();
        socket.readable().await.unwrap();
        socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        let watcher = socket.gone();
        drop(peer);
        watcher.await;
    });
}

#[test]
fn bytes_seen_by_the_watcher_are_still_read() {
    run(async {
        let (socket, mut peer) = pair();
        let mut buffer = Vec::with_capacity(16);
        assert!(socket.try_read(&mut buffer).is_err());
        peer.write_all(b"early").unwrap();
        tokio::select! {
            () = socket.gone() => panic!("the peer is there"),
            () = timer::sleep(Duration::from_millis(20)) => {}
        }
        assert_eq!(socket.read(&mut buffer).await.unwrap(), 5);
    });
}

#[test]
fn congestion_is_reno_s_on_the_loopback_and_the_system_s_elsewhere() {
    use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
    let chosen = |address: &str, before: Option<&str>| {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        if let Some(before) = before {
            set_tcp_congestion(&socket, before).unwrap();
        }
        choose_congestion_control(&socket, address.parse().unwrap());
        tcp_congestion(&socket).unwrap()
    };
    let path = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    for allowed in std::fs::read_to_string(path).unwrap().split_ascii_whitespace() {
        for local in ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(chosen(local, Some(allowed)), "reno", "{local}, {allowed}");
        }
        for other in ["192.0.2.1", "0.0.0.0", "2001:db8::1", "::ffff:192.0.2.1"] {
            assert_eq!(chosen(other, Some(allowed)), allowed, "{other}");
        }
    }
    assert_eq!(chosen("192.0.2.1", None), tcp_congestion(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap());
}

#[test]
fn a_wanted_reset_comes_at_the_end_whoever_holds_the_socket_and_holders_find_errors() {
    run(async {
        let (socket, mut peer) = pair();
        socket.watch().unwrap();
        assert_eq!(socket.try_write(&[IoSlice::new(b"part")], false).unwrap(), 4);
        socket.reset_on_close();
        socket.end();
        let mut got = Vec::new();
        assert_eq!(peer.read_to_end(&mut got).unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        // No task waits without end, and none is notified of work: each finds that the loop is over.
        socket.gone().await;
        assert!(!socket.is_quiet(true));
        for _ in 0..3 {
            socket.readable().await.unwrap();
            assert!(socket.read(&mut Vec::with_capacity(1)).await.is_err());
            assert!(poll_fn(|context| socket.poll_write(context, b"more")).await.is_err());
        }
        socket.end();
    });
}

#[test]
fn an_end_without_a_reset_is_orderly_as_that_of_a_unix_socket() {
    run(async {
        let (socket, mut peer) = pair();
        let (ours, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        let unix = Socket::new(ours.into());
        unix.reset_on_close();
        for socket in [&socket, &unix] {
            assert_eq!(socket.try_write(&[IoSlice::new(b"all")], false).unwrap(), 3);
            socket.end();
        }
        let mut got = Vec::new();
        assert_eq!((peer.read_to_end(&mut got).unwrap(), other.read_to_end(&mut got).unwrap()), (3, 3));
        // Bytes from the peer are still read.
        peer.write_all(b"late").unwrap();
        assert_eq!(socket.read(&mut Vec::with_capacity(9)).await.unwrap(), 4);
    });
}
