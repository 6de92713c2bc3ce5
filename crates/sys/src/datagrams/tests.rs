use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};

use super::*;

fn bound(address: &str) -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn plain<'a>(parts: &'a [IoSlice<'a>], to: SocketAddr) -> Message<'a> {
    Message { parts, to: Some(to), from: None, ecn: 0, segment: None }
}

#[test]
fn many_datagrams_are_sent_and_received_with_one_call_each() {
    let ((ours, address), (theirs, from)) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    let texts: Vec<String> = (0..10).map(|number| format!("datagram {number}")).collect();
    let parts: Vec<_> = texts.iter().map(|text| [IoSlice::new(text.as_bytes())]).collect();
    let messages: Vec<_> = parts.iter().map(|parts| plain(parts, address)).collect();
    let (mut sender, mut receiver) = (Sender::new(16), Receiver::new(8, 100));
    assert_eq!((sender.most(), receiver.most()), (16, 8));
    assert_eq!(sender.send(&theirs, &messages).unwrap(), 10);
    let mut got = Vec::new();
    for expected in [8, 2] {
        assert_eq!(receiver.receive(&ours, 8, DatagramDetail::All).unwrap(), expected);
        for received in receiver.iter() {
            assert_eq!(received.from, Some(from));
            assert_eq!((received.to, received.ecn, received.segment, received.is_truncated), (None, 0, None, false));
            got.push(String::from_utf8(received.bytes.to_vec()).unwrap());
        }
    }
    assert_eq!(got, texts);
    assert_eq!(receiver.receive(&ours, 8, DatagramDetail::All).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(receiver.get(0).is_none(), "nothing was received");
    assert_eq!(sender.send(&theirs, &[]).unwrap(), 0);
    // More messages than the sender has room for are left for the next call.
    assert_eq!(Sender::new(3).send(&theirs, &messages).unwrap(), 3);
}

#[test]
fn what_is_too_long_is_cut_and_said_to_be_and_empty_ones_come_too() {
    let ((ours, address), (theirs, _)) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    for len in [0, 10, 11] {
        assert_eq!(theirs.send_to(&[b'x'; 11][..len], address).unwrap(), len);
    }
    let mut receiver = Receiver::new(4, 10);
    assert_eq!(receiver.receive(&ours, 4, DatagramDetail::All).unwrap(), 3);
    let lengths: Vec<_> = receiver.iter().map(|received| (received.bytes.len(), received.is_truncated)).collect();
    assert_eq!(lengths, [(0, false), (10, false), (10, true)]);
}

#[test]
fn what_is_not_asked_for_is_not_known() {
    let ((ours, address), (theirs, from)) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    let mut receiver = Receiver::new(4, 10);
    for (known, expected) in
        [(DatagramDetail::All, Some(from)), (DatagramDetail::Bytes, None), (DatagramDetail::All, Some(from))]
    {
        theirs.send_to(b"bytes", address).unwrap();
        assert_eq!(receiver.receive(&ours, 4, known).unwrap(), 1);
        let received = receiver.get(0).unwrap();
        assert_eq!((received.bytes, received.from, received.is_truncated), (&b"bytes"[..], expected, false));
    }
}

#[test]
fn an_answer_leaves_from_the_address_that_was_asked_and_ecn_goes_both_ways() {
    for (wildcard, asked) in [("0.0.0.0:0", "127.0.0.9"), ("[::]:0", "::1")] {
        let ((ours, address), (theirs, from)) = (bound(wildcard), bound(&wildcard.replace("0.0.0.0", "127.0.0.1")));
        let options = DatagramOptions { destination: true, ecn: true, gro: true, unfragmented: true };
        options.apply(&ours, address.is_ipv6()).unwrap();
        options.apply(&theirs, address.is_ipv6()).unwrap();
        let asked: IpAddr = asked.parse().unwrap();
        let parts = [IoSlice::new(b"ques"), IoSlice::new(b"tion")];
        let (mut sender, mut receiver) = (Sender::new(1), Receiver::new(1, 100));
        let question = Message { ecn: 2, ..plain(&parts, SocketAddr::new(asked, address.port())) };
        assert_eq!(sender.send(&theirs, &[question]).unwrap(), 1);
        assert_eq!(receiver.receive(&ours, 1, DatagramDetail::All).unwrap(), 1);
        let received = receiver.get(0).unwrap();
        assert_eq!((received.bytes, received.to, received.ecn), (&b"question"[..], Some(asked), 2));
        let client = received.from.unwrap();
        assert_eq!(client.port(), from.port());
        let parts = [IoSlice::new(b"answer")];
        let answer = Message { from: received.to, ecn: 1, ..plain(&parts, client) };
        assert_eq!(sender.send(&ours, &[answer]).unwrap(), 1);
        assert_eq!(receiver.receive(&theirs, 1, DatagramDetail::All).unwrap(), 1);
        let received = receiver.get(0).unwrap();
        assert_eq!(received.from, Some(SocketAddr::new(asked, address.port())));
        assert_eq!((received.bytes, received.ecn), (&b"answer"[..], 1));
    }
}

#[test]
fn a_client_of_ipv4_on_a_socket_of_ipv6_gets_its_answer_from_the_address_that_it_asked() {
    let socket = socket2::Socket::new(socket2::Domain::IPV6, socket2::Type::DGRAM, None).unwrap();
    socket.set_only_v6(false).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&"[::]:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let ours = UdpSocket::from(socket);
    DatagramOptions { destination: true, ecn: true, gro: true, unfragmented: true }.apply(&ours, true).unwrap();
    let (theirs, _) = bound("127.0.0.1:0");
    let asked: SocketAddr = format!("127.0.0.8:{}", ours.local_addr().unwrap().port()).parse().unwrap();
    theirs.send_to(b"question", asked).unwrap();
    let mut receiver = Receiver::new(1, 100);
    assert_eq!(receiver.receive(&ours, 1, DatagramDetail::All).unwrap(), 1);
    let (to, from) = receiver.get(0).map(|received| (received.to, received.from)).unwrap();
    assert_eq!(to.map(|to| to.to_canonical()), Some(asked.ip()));
    let parts = [IoSlice::new(b"answer")];
    let answer = Message { parts: &parts, to: from, from: to, ecn: 2, segment: None };
    assert_eq!(Sender::new(1).send(&ours, &[answer]).unwrap(), 1);
    DatagramOptions { ecn: true, ..DatagramOptions::default() }.apply(&theirs, false).unwrap();
    assert_eq!(receiver.receive(&theirs, 1, DatagramDetail::All).unwrap(), 1);
    let received = receiver.get(0).unwrap();
    assert_eq!((received.bytes, received.from), (&b"answer"[..], Some(asked)));
}

#[test]
fn datagrams_of_one_size_go_as_one_message_and_come_as_one() {
    let ((ours, address), (theirs, _)) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    let all: Vec<u8> = (0..2500_u32).map(|number| number as u8).collect();
    let parts = [IoSlice::new(&all[..700]), IoSlice::new(&all[700..])];
    let message = Message { segment: Some(1000), ..plain(&parts, address) };
    let (mut sender, mut receiver) = (Sender::new(1), Receiver::new(8, 65_536));
    // Without GRO three datagrams come.
    assert_eq!(sender.send(&theirs, &[message]).unwrap(), 1);
    assert_eq!(receiver.receive(&ours, 8, DatagramDetail::All).unwrap(), 3);
    let lengths: Vec<_> = receiver.iter().map(|received| (received.bytes.len(), received.segment)).collect();
    assert_eq!(lengths, [(1000, None), (1000, None), (500, None)]);
    DatagramOptions { gro: true, ..DatagramOptions::default() }.apply(&ours, false).unwrap();
    assert_eq!(sender.send(&theirs, &[message]).unwrap(), 1);
    assert_eq!(receiver.receive(&ours, 8, DatagramDetail::All).unwrap(), 1);
    let received = receiver.get(0).unwrap();
    assert_eq!((received.bytes, received.segment), (&all[..], Some(1000)));
}

#[test]
fn a_peer_that_is_not_there_is_told_to_a_connected_socket() {
    let (gone, address) = bound("127.0.0.1:0");
    drop(gone);
    let (ours, _) = bound("127.0.0.1:0");
    ours.connect(address).unwrap();
    let parts = [IoSlice::new(b"x")];
    let message = Message { parts: &parts, to: None, from: None, ecn: 0, segment: None };
    let mut sender = Sender::new(1);
    assert_eq!(sender.send(&ours, &[message]).unwrap(), 1);
    let error = Receiver::new(1, 10).receive(&ours, 1, DatagramDetail::Bytes).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    // What is longer than a datagram can be.
    let long = vec![0; 70_000];
    let parts = [IoSlice::new(&long)];
    let error = sender.send(&ours, &[Message { parts: &parts, ..message }]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
}

#[test]
fn a_program_of_the_group_chooses_the_socket_by_the_first_byte_of_what_a_datagram_carries() {
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
    // ldb [0]; ret A.
    let program = [
        Instruction { code: 0x30, if_true: 0, if_false: 0, operand: 0 },
        Instruction { code: 0x16, if_true: 0, if_false: 0, operand: 0 },
    ];
    steer(&group[1], &program).unwrap();
    let (theirs, _) = bound("127.0.0.1:0");
    for (number, socket) in (0_u8..).zip(&group) {
        for rest in 0..4 {
            theirs.send_to(&[number, rest], address).unwrap();
        }
        let mut receiver = Receiver::new(8, 10);
        assert_eq!(receiver.receive(socket, 8, DatagramDetail::All).unwrap(), 4);
        assert!(receiver.iter().all(|received| received.bytes[0] == number));
    }
    // A number that no socket has: one of them gets it nevertheless.
    theirs.send_to(&[200], address).unwrap();
    let got =
        group.iter().filter(|socket| Receiver::new(8, 10).receive(socket, 8, DatagramDetail::All).is_ok()).count();
    assert_eq!(got, 1);
    assert_eq!(steer(&theirs, &[]).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    unsteer(&group[2]).unwrap();
    assert_eq!(unsteer(&group[2]).unwrap_err().raw_os_error(), Some(libc::ENOENT), "it is gone");
}
