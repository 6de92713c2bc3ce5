use super::*;
use crate::loops;
use crate::net::Socket;
use std::future::poll_fn;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::task::Poll;

fn pair() -> (Arc<OwnedFd>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (Arc::new(ours.into()), theirs)
}

/// The number of places, and how many of them are free.
fn places() -> (usize, usize) {
    TABLE.with_borrow(|table| table.as_ref().map_or((0, 0), |table| (table.places.len(), table.free.len())))
}

#[test]
fn an_event_of_who_had_a_place_before_is_not_told_to_the_next_one() {
    loops::block_on(async {
        let (first, mut peer) = pair();
        let registered = Registration::new(&first, Side::Read).unwrap();
        peer.write_all(b"x").unwrap();
        let mut told = Vec::with_capacity(4);
        let mailbox = registered.mailbox.clone();
        epoll::wait(&mailbox.epoll, rustix::buffer::spare_capacity(&mut told), None).unwrap();
        assert_eq!(told.len(), 1);
        registered.leave(&first);
        let (second, _peer) = pair();
        let next = Registration::new(&second, Side::Read).unwrap();
        assert_eq!(places(), (1, 0), "the place is used again");
        tell(&told);
        assert_eq!(next.ready(), Some(Ready::WRITABLE));
        next.leave(&second);
        assert_eq!(places(), (1, 1));
    })
    .unwrap();
}

#[test]
fn all_who_wait_are_woken_and_what_is_closed_stays_known() {
    loops::block_on(async {
        let (fd, mut peer) = pair();
        let registered = Registration::new(&fd, Side::Read).unwrap();
        poll_fn(|context| registered.poll(&fd, Side::Write, context)).await.unwrap();
        let reads = async { poll_fn(|context| registered.poll(&fd, Side::Read, context)).await.unwrap() };
        let watches = async { poll_fn(|context| registered.poll_for(&fd, Ready::READ, context)).await.unwrap() };
        tokio::join!(reads, watches, async { peer.write_all(b"x").unwrap() });
        assert!(!registered.ready().unwrap().has(Ready::READ_CLOSED));
        registered.clear(Side::Read);
        assert!(poll_fn(|context| Poll::Ready(registered.poll(&fd, Side::Read, context))).await.is_pending());
        drop(peer);
        poll_fn(|context| registered.poll_for(&fd, Ready::READ_CLOSED, context)).await.unwrap();
        registered.clear(Side::Read);
        registered.clear(Side::Write);
        let known = registered.ready().unwrap();
        assert!(known.has(Ready::READ) && known.has(Ready::WRITE) && !known.has(Ready::READABLE | Ready::WRITABLE));
        registered.leave(&fd);
    })
    .unwrap();
}

#[test]
fn a_place_left_by_another_thread_is_used_again() {
    loops::block_on(async {
        let (fd, mut peer) = pair();
        let registered = Registration::new(&fd, Side::Read).unwrap();
        let waker = poll_fn(|context| {
            assert!(registered.poll(&fd, Side::Read, context).is_pending());
            Poll::Ready(context.waker().clone())
        })
        .await;
        // There is another owner of the descriptor, so it has to be taken out of the epoll instance.
        let other = fd.clone();
        std::thread::spawn(move || {
            assert_eq!(registered.ready(), None);
            let polled = registered.poll(&fd, Side::Read, &mut Context::from_waker(&waker));
            assert!(matches!(polled, Poll::Ready(Err(_))));
            registered.leave(&fd);
        })
        .join()
        .unwrap();
        peer.write_all(b"x").unwrap();
        let (second, _peer) = pair();
        let next = Registration::new(&second, Side::Read).unwrap();
        assert_eq!(places(), (1, 0));
        // The descriptor can be entered again, and gets the event that came meanwhile.
        let again = Registration::new(&other, Side::Read).unwrap();
        poll_fn(|context| again.poll(&other, Side::Read, context)).await.unwrap();
        assert_eq!(next.ready().map(|ready| ready.has(Ready::READ)), Some(false));
        again.leave(&other);
        next.leave(&second);
    })
    .unwrap();
}

#[test]
fn a_socket_that_is_closed_leaves_the_epoll_and_its_place() {
    loops::block_on(async {
        for _ in 0..3 {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let socket = Socket::new(ours.into());
            socket.watch().unwrap();
            theirs.write_all(b"x").unwrap();
            socket.readable().await.unwrap();
            drop(socket);
            assert_eq!(places(), (1, 1));
            assert_eq!(theirs.write_all(b"y").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    })
    .unwrap();
}

#[test]
fn without_a_loop_there_is_nothing_to_wait_for() {
    let (fd, _peer) = pair();
    assert!(Registration::new(&fd, Side::Read).is_err());
}

#[test]
fn events_tell_of_room_from_when_somebody_waits_for_it() {
    loops::block_on(async {
        let (fd, mut peer) = pair();
        let registered = Registration::new(&fd, Side::Read).unwrap();
        poll_fn(|context| registered.poll(&fd, Side::Write, context)).await.unwrap();
        let mut sent = 0;
        while let Ok(count) = rustix::io::write(&*fd, &[0; 4096]) {
            sent += count;
        }
        registered.clear(Side::Write);
        let mut waits = std::pin::pin!(poll_fn(|context| registered.poll(&fd, Side::Write, context)));
        loops::after_events().await;
        assert!(poll_fn(|context| Poll::Ready(waits.as_mut().poll(context))).await.is_pending());
        std::io::Read::read_exact(&mut peer, &mut vec![0; sent]).unwrap();
        waits.await.unwrap();
        registered.leave(&fd);
        let (second, _peer) = pair();
        let next = Registration::new(&second, Side::Write).unwrap();
        assert_eq!(next.ready(), Some(Ready::default()), "it waits for what epoll says");
        poll_fn(|context| next.poll(&second, Side::Write, context)).await.unwrap();
        next.leave(&second);
    })
    .unwrap();
}

#[test]
fn what_is_told_each_time_is_told_until_it_is_taken_but_not_while_nobody_takes_it() {
    loops::block_on(async {
        let (fd, mut peer) = pair();
        let registered = Registration::level(&fd).unwrap();
        let is_told = async || {
            registered.clear(Side::Read);
            loops::after_events().await;
            registered.ready().unwrap().has(Ready::READABLE)
        };
        assert!(!is_told().await);
        peer.write_all(b"x").unwrap();
        assert!(is_told().await && is_told().await);
        registered.rest(&fd, true).unwrap();
        is_told().await;
        assert!(!is_told().await);
        registered.rest(&fd, false).unwrap();
        assert!(is_told().await && is_told().await);
        rustix::io::read(&*fd, &mut [0; 4]).unwrap();
        is_told().await;
        assert!(!is_told().await);
        registered.leave(&fd);
    })
    .unwrap();
}

#[test]
fn of_the_loops_that_sleep_one_is_told_of_what_all_have_entered() {
    use std::collections::BTreeMap;
    use std::rc::Rc;
    use std::sync::mpsc::channel;

    const LOOPS: usize = 3;
    let (ours, mut peer) = pair();
    let (say, said) = channel();
    let look = Arc::new(tokio::sync::Notify::new());
    let handles: Vec<_> = (0..LOOPS)
        .map(|number| {
            let (ours, say, look) = (ours.clone(), say.clone(), look.clone());
            let handle = loops::LoopHandle::start(number, None).unwrap();
            handle.tell(move || {
                let registered = Rc::new(Registration::level(&ours).unwrap());
                let (known, entered) = (registered.clone(), say.clone());
                loops::spawn(0, "looking", async move {
                    let mut look = std::pin::pin!(look.notified());
                    look.as_mut().enable();
                    entered.send((number, rustix::thread::gettid().as_raw_nonzero().get())).unwrap();
                    look.await;
                    loops::after_events().await;
                    entered.send((number, i32::from(known.ready().unwrap().has(Ready::READABLE)))).unwrap();
                });
                loops::spawn(0, "waiting", async move {
                    poll_fn(|context| registered.poll(&ours, Side::Read, context)).await.unwrap();
                    say.send((number, -1)).unwrap();
                });
            });
            handle
        })
        .collect();
    let threads: Vec<i32> = (0..LOOPS).map(|_| said.recv().unwrap().1).collect();
    let sleeps = |thread: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('S')
    };
    while !threads.iter().all(sleeps) {
        std::thread::yield_now();
    }
    peer.write_all(b"x").unwrap();
    let (first, told) = said.recv().unwrap();
    assert_eq!(told, -1);
    look.notify_waiters();
    let known: BTreeMap<usize, i32> = (0..LOOPS).map(|_| said.recv().unwrap()).collect();
    assert_eq!(known, (0..LOOPS).map(|number| (number, i32::from(number == first))).collect());
    handles.into_iter().for_each(loops::LoopHandle::stop);
}

#[test]
fn a_reader_can_be_woken_without_anything_to_read() {
    loops::block_on(async {
        let (fd, _peer) = pair();
        let registered = Registration::new(&fd, Side::Read).unwrap();
        registered.wake_reader();
        let mut polls = 0;
        let waits = poll_fn(|context| {
            polls += 1;
            match registered.poll(&fd, Side::Read, context) {
                Poll::Pending if polls == 1 => Poll::Pending,
                polled => Poll::Ready(polled.is_pending()),
            }
        });
        let (is_in_vain, ()) = tokio::join!(waits, async { registered.wake_reader() });
        assert!(is_in_vain, "nothing is there to be read");
        registered.leave(&fd);
    })
    .unwrap();
}
