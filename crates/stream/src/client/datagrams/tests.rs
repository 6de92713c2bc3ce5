use std::future::poll_fn;
use std::net::UdpSocket;
use std::sync::Arc;

use freerun_runtime::loops;
use freerun_runtime::net::udp::BATCH;
use freerun_serve::listen::{ListenSpec, Protocol};
use freerun_serve::loops::local::LoopLocal;

use super::sessions::LEAVING;
use super::*;

/// A listening socket with its sessions, and the server that datagrams are passed to.
struct Bed {
    listener: Rc<DatagramListener>,
    sessions: Rc<Sessions>,
    server: UdpSocket,
    /// All sessions in the order in which they began.
    begun: Vec<Rc<DatagramSession>>,
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// All that has come to a socket.
fn got(socket: &UdpSocket) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|len| buffer[..len].to_vec())).collect()
}

impl Bed {
    fn new(limit: usize) -> Bed {
        let socket = socket();
        let address = socket.local_addr().unwrap();
        let spec = ListenSpec::new("stream", Some(address), address.to_string());
        let spec = ListenSpec { protocol: Protocol::Datagram, ..spec };
        let listener = DatagramListener::new(LoopLocal::new(Arc::new(spec)), Arc::new(socket.into()), None);
        Bed { listener, sessions: Sessions::new(limit, None), server: self::socket(), begun: Vec::new() }
    }

    fn client(&self) -> UdpSocket {
        let client = socket();
        client.connect(self.listener.spec().ip.unwrap()).unwrap();
        client
    }

    /// A socket that is connected to the server.
    fn way(&self) -> Rc<Datagrams> {
        let way = socket();
        way.connect(self.server.local_addr().unwrap()).unwrap();
        Rc::new(Datagrams::new(Arc::new(way.into())))
    }

    /// Has sessions take what has come, and begin with it; `begin` is what their handler does.
    fn receive(&mut self, begin: impl Fn(&Bed, &Rc<DatagramSession>)) {
        let socket = self.listener.socket();
        let mut begun = Vec::new();
        let _ = socket.try_receive(BATCH, |receiver| {
            let mut forwarding = Forwarder::default();
            for received in receiver.iter() {
                let mut left = Some(received);
                while let Some(received) = left {
                    let known = self.sessions.find(&self.listener, &received, None);
                    let is_new = known.is_none();
                    let session = known.or_else(|| self.sessions.begin(&self.listener, &received, None)).unwrap();
                    if is_new {
                        forwarding.flush();
                        left = session.take_one(received, &mut forwarding);
                        begin(self, &session);
                        begun.push(session);
                    } else {
                        left = session.take(received, &mut forwarding);
                    }
                }
            }
            forwarding.flush();
        });
        self.begun.append(&mut begun);
    }
}

fn pass(requests: u64, responses: Option<u64>) -> impl Fn(&Bed, &Rc<DatagramSession>) {
    move |bed, session| session.pass_to(bed.way(), Header::default(), DatagramLimits { requests, responses })
}

#[test]
fn a_client_s_datagrams_go_one_way_and_come_back_to_it() {
    loops::block_on(async {
        let mut bed = Bed::new(10);
        let (one, other) = (bed.client(), bed.client());
        for text in [&b"a"[..], b"bb", b""] {
            one.send(text).unwrap();
        }
        other.send(b"other").unwrap();
        bed.receive(pass(0, None));
        one.send(b"later").unwrap();
        bed.receive(pass(0, None));
        assert_eq!(bed.begun.len(), 2);
        let mut all = got(&bed.server);
        all.sort();
        assert_eq!(all, [&b""[..], b"a", b"bb", b"later", b"other"]);
        let counts = bed.begun[0].counts();
        assert_eq!((counts.requests, counts.received, counts.passed), (4, 8, 8));
        bed.begun[1].send(b"answer!!", Some(4));
        bed.listener.end();
        assert_eq!((got(&one), got(&other)), (vec![], vec![b"answ".to_vec(), b"er!!".to_vec()]));
        assert_eq!((bed.begun[1].counts().responses, bed.begun[1].counts().sent), (2, 8));
    })
    .unwrap();
}

#[test]
fn what_comes_before_the_handler_waits_up_to_a_bound() {
    loops::block_on(async {
        let mut bed = Bed::new(10);
        let client = bed.client();
        for number in 0..WAITING + 10 {
            client.send(&[number as u8]).unwrap();
            if number % 20 == 0 {
                bed.receive(|_, _| {});
            }
        }
        while bed.listener.socket().try_receive(0, |_| ()).is_ok() {
            bed.receive(|_, _| {});
            if bed.begun[0].counts().requests as usize == WAITING + 10 {
                break;
            }
        }
        let session = bed.begun[0].clone();
        assert_eq!(session.take_first().as_deref(), Some(&[0][..]));
        session.pass_to(bed.way(), Header::default(), DatagramLimits::default());
        assert_eq!(got(&bed.server), (1..WAITING).map(|number| vec![number as u8]).collect::<Vec<_>>());
        assert_eq!(session.take_first(), None);
    })
    .unwrap();
}

#[test]
fn requests_begin_another_session_and_responses_end_one() {
    loops::block_on(async {
        let mut bed = Bed::new(10);
        let client = bed.client();
        for text in [b"1", b"2", b"3"] {
            client.send(text).unwrap();
        }
        bed.receive(pass(2, Some(1)));
        assert_eq!((got(&bed.server).len(), bed.begun.len()), (3, 2));
        let [first, second] = [bed.begun[0].clone(), bed.begun[1].clone()];
        assert_eq!((first.counts().requests, second.counts().requests), (2, 1));
        first.send(b"a", None);
        assert!(!first.is_done());
        first.send(b"b", None);
        assert!(first.is_done());
        // It waits for its second question.
        second.send(b"a", None);
        assert!(!second.is_done());
        first.leave();
        assert_eq!(bed.sessions.count(), 1);
        client.send(b"4").unwrap();
        bed.receive(pass(2, Some(1)));
        second.send(b"b", None);
        assert!(second.is_done() && bed.begun.len() == 2);
        let none = bed.client();
        none.send(b"x").unwrap();
        bed.receive(pass(0, Some(0)));
        assert!(bed.begun[2].is_done());
    })
    .unwrap();
}

#[test]
fn datagrams_in_one_piece_are_counted_each() {
    loops::block_on(async {
        let mut bed = Bed::new(10);
        let client = bed.client();
        let bytes: Vec<u8> = (0..50).collect();
        let part = [std::io::IoSlice::new(&bytes)];
        let message = freerun_sys::datagrams::Message { parts: &part, to: None, from: None, ecn: 0, segment: Some(10) };
        assert_eq!(freerun_sys::datagrams::Sender::new(1).send(&client, &[message]).unwrap(), 1);
        bed.receive(pass(2, None));
        let counts: Vec<_> = bed.begun.iter().map(|session| session.counts().requests).collect();
        assert_eq!(counts, [2, 2, 1]);
        assert_eq!(got(&bed.server), bytes.chunks(10).map(<[u8]>::to_vec).collect::<Vec<_>>());
    })
    .unwrap();
}

#[test]
fn a_header_goes_before_the_first_datagram_or_before_all() {
    loops::block_on(async {
        for in_each in [false, true] {
            let mut bed = Bed::new(10);
            let client = bed.client();
            let begin = |bed: &Bed, session: &Rc<DatagramSession>| {
                session.pass_to(bed.way(), Header { bytes: b"H:".to_vec(), in_each }, DatagramLimits::default());
            };
            for text in [b"a", b"b", b"c"] {
                client.send(text).unwrap();
                bed.receive(begin);
            }
            let expected: [&[u8]; 3] = if in_each { [b"H:a", b"H:b", b"H:c"] } else { [b"H:a", b"b", b"c"] };
            assert_eq!(got(&bed.server), expected);
        }
    })
    .unwrap();
}

/// A client whose first datagram is too long for the header before it could otherwise write the header itself.
#[test]
fn nothing_is_passed_on_after_a_header_that_was_lost() {
    loops::block_on(async {
        let mut bed = Bed::new(10);
        let client = bed.client();
        let header = |in_each| Header { bytes: vec![b'H'; 100], in_each };
        client.send(&[b'x'; 65_500]).unwrap();
        bed.receive(|bed, session| session.pass_to(bed.way(), header(false), DatagramLimits::default()));
        client.send(b"HHH forged").unwrap();
        bed.receive(|_, _| panic!("the session is there"));
        assert!(bed.begun[0].take_failure().is_some());
        assert!(got(&bed.server).is_empty());
    })
    .unwrap();
}

#[test]
fn what_is_beyond_the_rate_is_lost_and_counted() {
    let mut rate = ForwardRate { pace: RatePace::new(100, 0, 0).unwrap(), passed: 0 };
    // A datagram is whole or lost; of those in one piece, as many as begin within the rate.
    assert_eq!(rate.admits(60, None, 0), Some(60));
    assert_eq!(rate.admits(30, Some(10), 10), Some(30));
    assert_eq!(rate.admits(100, Some(8), 999), Some(16));
    assert_eq!((rate.admits(1, None, 999), rate.admits(0, None, 999)), (None, None));
    assert_eq!((rate.admits(0, None, 1000), rate.admits(500, None, 1000)), (Some(0), Some(500)));
    assert_eq!((rate.admits(1, None, 5999), rate.admits(1, None, 6000)), (None, Some(1)));
    loops::block_on(async {
        let mut bed = Bed::new(10);
        let client = bed.client();
        for number in 0..10 {
            client.send(&[number; 10]).unwrap();
        }
        bed.receive(|bed, session| {
            session.limit_rate(RatePace::new(45, loops::millis(), 0));
            session.pass_to(bed.way(), Header::default(), DatagramLimits::default());
        });
        assert_eq!(got(&bed.server), (0..5).map(|number| vec![number; 10]).collect::<Vec<_>>());
        let counts = bed.begun[0].counts();
        assert_eq!((counts.requests, counts.received, counts.passed, counts.lost), (10, 100, 50, 5));
    })
    .unwrap();
}

#[test]
fn too_many_sessions_that_have_not_ended_let_no_other_begin() {
    loops::block_on(async {
        let mut bed = Bed::new(1);
        for _ in 0..=LEAVING {
            bed.client().send(b"x").unwrap();
            bed.receive(pass(0, None));
        }
        let ends = bed.client();
        ends.send(b"x").unwrap();
        let begin = |bed: &Bed| {
            bed.listener.socket().try_receive(1, |receiver| {
                let received = receiver.iter().next().unwrap();
                bed.sessions.begin(&bed.listener, &received, None).is_some()
            })
        };
        assert!(!begin(&bed).unwrap());
        bed.begun.clear();
        ends.send(b"x").unwrap();
        assert!(begin(&bed).unwrap());
    })
    .unwrap();
}

#[test]
fn the_oldest_gives_way_and_idle_ones_end() {
    loops::block_on(async {
        let mut bed = Bed::new(2);
        let clients: Vec<_> = (0..3).map(|_| bed.client()).collect();
        for client in &clients {
            client.send(b"x").unwrap();
            bed.receive(pass(0, None));
        }
        let ending = |session: &Rc<DatagramSession>| {
            let session = session.clone();
            async move { poll_fn(|context| session.poll_ending(context)).await }
        };
        assert_eq!(ending(&bed.begun[0]).await, EndReason::GivesWay);
        assert_eq!(bed.sessions.count(), 2);
        bed.begun[2].keep_for(Duration::from_millis(20));
        assert_eq!(ending(&bed.begun[2]).await, EndReason::TimedOut);
        // Its client begins another one.
        clients[2].send(b"again").unwrap();
        bed.receive(pass(0, None));
        assert_eq!((bed.begun.len(), bed.sessions.count()), (4, 2));
        bed.sessions.end_all();
        assert_eq!((ending(&bed.begun[1]).await, ending(&bed.begun[3]).await), (EndReason::Closed, EndReason::Closed));
        assert_eq!(bed.sessions.count(), 0);
    })
    .unwrap();
}

#[test]
fn a_server_that_is_not_there_is_noticed() {
    loops::block_on(async {
        let mut bed = Bed::new(2);
        let client = bed.client();
        bed.server = socket();
        let way = bed.way();
        bed.server = socket();
        client.send(b"x").unwrap();
        bed.receive(|_, session| session.pass_to(way.clone(), Header::default(), DatagramLimits::default()));
        let error = poll_fn(|context| way.poll_receive(context, 1, |_| ())).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        client.send(b"y").unwrap();
        bed.receive(|_, _| {});
        // The next send finds the error of the one before it, or the kernel has not told it yet.
        client.send(b"z").unwrap();
        bed.receive(|_, _| {});
        let failure = bed.begun[0].take_failure().unwrap();
        assert_eq!(failure.kind(), io::ErrorKind::ConnectionRefused);
        assert!(bed.begun[0].take_failure().is_none());
    })
    .unwrap();
}
