use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use super::*;
use crate::loops;

fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn datagrams(socket: UdpSocket) -> Datagrams {
    Datagrams::new(Arc::new(OwnedFd::from(socket)))
}

/// The datagrams that come next, each as its own bytes.
async fn receive(socket: &Datagrams, most: usize) -> io::Result<Vec<Vec<u8>>> {
    let split = |received: ReceivedDatagrams<'_>| -> Vec<Vec<u8>> {
        let segment = received.segment.unwrap_or(received.bytes.len()).max(1);
        if received.bytes.is_empty() {
            return vec![Vec::new()];
        }
        received.bytes.chunks(segment).map(<[u8]>::to_vec).collect()
    };
    poll_fn(|context| socket.poll_receive(context, most, |receiver| receiver.iter().flat_map(split).collect())).await
}

fn fail(unsent: UnsentDatagrams) {
    panic!("{unsent:?}");
}

#[test]
fn a_waiting_socket_is_woken_for_each_batch_and_for_what_comes_later() {
    loops::block_on(async {
        let ((ours, address), (theirs, _)) = (bound(), bound());
        let ours = datagrams(ours);
        for round in 0_u8..3 {
            let sender = theirs.try_clone().unwrap();
            let sending = std::thread::spawn(move || {
                for number in 0..5 {
                    sender.send_to(&[round, number], address).unwrap();
                }
            });
            let mut got = Vec::new();
            while got.len() < 5 {
                // Batches of two: a full one may have left something behind, and the next one is asked for.
                let batch = receive(&ours, 2).await.unwrap();
                assert!((1..=2).contains(&batch.len()));
                got.extend(batch);
            }
            sending.join().unwrap();
            assert_eq!(got, (0..5).map(|number| vec![round, number]).collect::<Vec<_>>());
        }
        let empty = poll_fn(|context| Poll::Ready(ours.poll_readable(context).is_pending())).await;
        assert!(empty || ours.try_receive(1, |_| ()).is_err());
    })
    .unwrap();
}

#[test]
fn an_error_about_an_earlier_datagram_wakes_the_socket_which_goes_on() {
    loops::block_on(async {
        let ((ours, own), (gone, address)) = (bound(), bound());
        ours.connect(address).unwrap();
        drop(gone);
        let ours = datagrams(ours);
        let waiting = poll_fn(|context| Poll::Ready(ours.poll_receive(context, 1, |_| ()).is_pending())).await;
        assert!(waiting);
        for _ in 0..2 {
            let mut runs = Runs::default();
            runs.push(DatagramTarget::default(), b"x", None);
            ours.send(&runs, fail);
            let error = receive(&ours, 4).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
        // The peer comes.
        let back = UdpSocket::bind(address).unwrap();
        back.send_to(b"here", own).unwrap();
        assert_eq!(receive(&ours, 4).await.unwrap(), [b"here"]);
        poll_fn(|context| ours.poll_writable(context)).await.unwrap();
    })
    .unwrap();
}

#[test]
fn runs_arrive_as_the_datagrams_that_they_consist_of() {
    loops::block_on(async {
        for gro in [false, true] {
            let ((ours, address), (theirs, _)) = (bound(), bound());
            DatagramOptions { gro, ..DatagramOptions::default() }.apply(&ours, false).unwrap();
            let (ours, theirs) = (datagrams(ours), datagrams(theirs));
            let target = DatagramTarget { to: Some(address), ..DatagramTarget::default() };
            let all: Vec<Vec<u8>> =
                [500, 500, 500, 20, 0, 7, 7, 9].iter().zip(b'a'..).map(|(len, byte)| vec![byte; *len]).collect();
            let mut runs = Runs::default();
            all.iter().for_each(|one| runs.push(target, one, None));
            theirs.send(&runs, fail);
            let mut queue = SendQueue::default();
            let train = [b'z'; 250];
            all.iter().for_each(|one| assert!(queue.push(target, one, None)));
            assert!(queue.push(target, &train, Some(100)));
            assert!(queue.flush(&theirs, fail) && queue.is_empty());
            let mut expected = all.clone();
            expected.extend(all.iter().cloned());
            expected.extend([vec![b'z'; 100], vec![b'z'; 100], vec![b'z'; 50]]);
            let mut got = Vec::new();
            while got.len() < expected.len() {
                got.extend(receive(&ours, BATCH).await.unwrap());
            }
            assert_eq!(got, expected);
        }
    })
    .unwrap();
}

#[test]
fn what_cannot_be_sent_is_told_and_the_rest_is_sent() {
    loops::block_on(async {
        let ((ours, address), (theirs, _)) = (bound(), bound());
        let (ours, theirs) = (datagrams(ours), datagrams(theirs));
        let to = |address| DatagramTarget { to: Some(address), ..DatagramTarget::default() };
        // No datagram can be as long as that, and an address of the other family is none for this socket.
        let long = vec![b'x'; LONGEST + 1];
        let other: SocketAddr = "[::1]:9".parse().unwrap();
        let lost = RefCell::new(Vec::new());
        let mut queue = SendQueue::default();
        for (target, bytes) in [(address, &b"a"[..]), (address, &long), (other, b"b"), (other, b"c"), (address, b"d")] {
            assert!(queue.push(to(target), bytes, None));
        }
        assert!(queue.flush(&theirs, |unsent| lost.borrow_mut().push(unsent)));
        assert_eq!(receive(&ours, BATCH).await.unwrap(), [b"a", b"d"]);
        let lost = lost.take();
        assert_eq!(lost.iter().map(|unsent| unsent.count).sum::<usize>(), 3, "{lost:?}");
        assert_eq!(lost[0].error.raw_os_error(), Some(rustix::io::Errno::MSGSIZE.raw_os_error()));
        assert_eq!((lost[0].target.to, lost[1].target.to), (Some(address), Some(other)));
    })
    .unwrap();
}

#[test]
fn a_queue_has_an_end_and_what_is_too_much_is_refused() {
    let target = DatagramTarget { to: Some("127.0.0.1:9".parse().unwrap()), ..DatagramTarget::default() };
    let mut queue = SendQueue::default();
    let bytes = vec![0; 60_000];
    let taken = (0..100).filter(|_| queue.push(target, &bytes, None)).count();
    assert!((4..=5).contains(&taken), "{taken}");
    assert!(queue.is_full());
    assert_eq!(queue.clear(), taken);
    assert!(queue.is_empty() && !queue.is_full());
    // Datagrams of different sizes do not join.
    let taken = (0..10_000).filter(|number| queue.push(target, &bytes[..number % 2 + 1], None)).count();
    assert!(taken < 10_000 && queue.is_full());
}

#[test]
fn a_full_socket_keeps_what_is_left_until_there_is_room() {
    // On the loopback interface a UDP socket is never full; a Unix socket is when its peer does not read.
    loops::block_on(async {
        let (ours, theirs) = std::os::unix::net::UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let ours = Datagrams::connected(Arc::new(OwnedFd::from(ours)));
        let mut queue = SendQueue::default();
        // Each is longer than the one before it, so that none joins another one.
        let all: Vec<Vec<u8>> = (1..700).map(|len| vec![len as u8; len]).collect();
        assert!(all.iter().all(|one| queue.push(DatagramTarget::default(), one, None)));
        let mut buffer = [0; 1000];
        let mut got = Vec::new();
        let mut times_full = 0;
        while !queue.flush(&ours, fail) {
            times_full += 1;
            let full = poll_fn(|context| Poll::Ready(ours.poll_writable(context).is_pending())).await;
            assert!(full);
            while let Ok(len) = theirs.recv(&mut buffer) {
                got.push(buffer[..len].to_vec());
            }
            poll_fn(|context| ours.poll_writable(context)).await.unwrap();
        }
        while let Ok(len) = theirs.recv(&mut buffer) {
            got.push(buffer[..len].to_vec());
        }
        assert!(times_full > 0 && queue.is_empty());
        assert!(got == all, "{} of {}", got.len(), all.len());
    })
    .unwrap();
}

#[test]
fn buffers_that_are_lent_may_be_asked_for_again() {
    loops::block_on(async {
        let ((ours, address), (other, second)) = (bound(), bound());
        ours.send_to(b"for the other one", second).unwrap();
        other.send_to(b"for the first one", address).unwrap();
        let (ours, other) = (datagrams(ours), datagrams(other));
        let inner = Rc::new(RefCell::new(Vec::new()));
        let first = ours.try_receive(1, |receiver| {
            let nested = other.try_receive(1, |receiver| receiver.get(0).unwrap().bytes.to_vec()).unwrap();
            inner.borrow_mut().extend(nested);
            receiver.get(0).unwrap().bytes.to_vec()
        });
        assert_eq!((first.unwrap(), inner.take()), (b"for the first one".to_vec(), b"for the other one".to_vec()));
    })
    .unwrap();
}

#[test]
fn a_quic_packet_finds_the_loop_that_its_connection_id_names() {
    let socket = |address: SocketAddr| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        socket.set_reuse_port(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket.bind(&address.into()).unwrap();
        UdpSocket::from(socket)
    };
    let first = socket("127.0.0.1:0".parse().unwrap());
    let address = first.local_addr().unwrap();
    let group = [first, socket(address), socket(address)];
    steering::steer_by_connection_id(&group[0], 3).unwrap();
    for id in [0_u8, 1, 2, 100, 254, 255] {
        for long in [false, true] {
            // Each from another address, as a client that moves.
            let (client, _) = bound();
            let packet: Vec<u8> = if long {
                [&[0xc3, 0, 0, 0, 1, 8, id][..], &[7; 30]].concat()
            } else {
                [&[0x43, id][..], &[7; 30]].concat()
            };
            client.send_to(&packet, address).unwrap();
            let mut buffer = [0; 100];
            let got: Vec<_> = group.iter().map(|socket| socket.recv(&mut buffer).is_ok()).collect();
            let expected: Vec<_> = (0..3).map(|number| number == id % 3).collect();
            assert_eq!(got, expected, "{id} {long}");
        }
    }
    let (client, _) = bound();
    client.send_to(&[0x43], address).unwrap();
    assert_eq!(group[0].recv(&mut [0; 9]).unwrap(), 1, "too short for an ID");
}

/// How often this socket is in the epoll instances of this process (proc_pid_fdinfo(5)).
fn watched(socket: &OwnedFd) -> usize {
    let inode = rustix::fs::fstat(socket).unwrap().st_ino;
    let line = format!("ino:{inode:x} ");
    let own = std::fs::read_dir("/proc/thread-self/fdinfo").unwrap();
    let texts = own.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    texts.map(|text| text.lines().filter(|one| one.starts_with("tfd:") && one.contains(&line)).count()).sum()
}

/// After a reload a listening socket may come with another descriptor.
#[test]
fn a_socket_that_is_given_up_is_watched_no_more_although_it_stays_open() {
    loops::block_on(async {
        let (socket, _) = bound();
        let master_s = OwnedFd::from(socket);
        let ours = Datagrams::new(Arc::new(master_s.try_clone().unwrap()));
        let waits = poll_fn(|context| Poll::Ready(ours.poll_readable(context).is_pending())).await;
        assert!(waits);
        assert_eq!(watched(&master_s), 1);
        drop(ours);
        assert_eq!(watched(&master_s), 0);
    })
    .unwrap();
}
