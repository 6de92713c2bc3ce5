use super::*;
use crate::loops;
use crate::loops::LoopHandle;
use std::future::poll_fn;
use std::sync::mpsc::{Receiver, Sender, channel};

/// A task made of a closure.
struct Job(Box<dyn Steps>);

trait Steps {
    fn step(&mut self, context: &mut Context<'_>) -> Poll<()>;
}

impl<F: FnMut(&mut Context<'_>) -> Poll<()> + Send> Steps for F {
    fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self(context)
    }
}

impl Future for Job {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.step(context)
    }
}

fn job(poll: impl FnMut(&mut Context<'_>) -> Poll<()> + Send + 'static) -> Job {
    Job(Box::new(poll))
}

/// A task that sends its waker at its first poll and its number at the second one.
fn two_polls(number: u64, wakers: &Sender<Waker>, done: &Sender<u64>) -> Job {
    let (wakers, done, mut first) = (wakers.clone(), done.clone(), true);
    job(move |context| {
        if std::mem::take(&mut first) {
            wakers.send(context.waker().clone()).unwrap();
            return Poll::Pending;
        }
        done.send(number).unwrap();
        Poll::Ready(())
    })
}

fn on_a_loop(test: impl FnOnce(Tasks<Job>) + Send + 'static) -> LoopHandle {
    let handle = LoopHandle::start(0, None).unwrap();
    handle.tell(move || test(Tasks::new("testing")));
    handle
}

#[test]
fn tasks_are_woken_by_other_threads_and_more_often_than_they_need() {
    let (wakers, woken): (_, Receiver<Waker>) = channel();
    let (done, finished) = channel();
    const TASKS: u64 = 100;
    let handle = on_a_loop(move |tasks| {
        for number in 0..TASKS {
            tasks.start(number, two_polls(number, &wakers, &done));
        }
    });
    let wakers: Vec<Waker> = woken.iter().take(TASKS as usize).collect();
    for waker in &wakers {
        waker.wake_by_ref();
        waker.wake_by_ref();
    }
    let mut all: Vec<u64> = finished.iter().take(TASKS as usize).collect();
    all.sort_unstable();
    assert_eq!(all, (0..TASKS).collect::<Vec<_>>());
    // The tasks have ended: nothing happens.
    wakers.iter().for_each(Waker::wake_by_ref);
    handle.stop();
    wakers.iter().for_each(Waker::wake_by_ref);
}

#[test]
fn tasks_of_two_kinds_are_woken_each_in_their_own_table() {
    let (wakers, woken): (_, Receiver<Waker>) = channel();
    let (done, finished) = channel();
    let handle = LoopHandle::start(0, None).unwrap();
    handle.tell(move || {
        let first = Tasks::new("the first kind");
        let second: Tasks<Box<Job>> = Tasks::new("the second kind");
        for number in 0..4 {
            // Tasks of both kinds have the same places.
            first.start(number, two_polls(number, &wakers, &done));
            second.start(number, Box::new(two_polls(10 + number, &wakers, &done)));
        }
        let (taken, next) = second.take_some(0, 1, |_| true);
        assert_eq!((taken.len(), next), (1, Some(1)));
    });
    woken.iter().take(7).for_each(|waker| waker.wake());
    let mut all: Vec<u64> = finished.iter().take(7).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 11, 12, 13]);
    handle.stop();
}

#[test]
fn a_task_that_is_taken_out_ends_and_its_place_is_used_again() {
    let (wakers, woken): (_, Receiver<Waker>) = channel();
    let (done, finished) = channel();
    let (count, taken) = channel();
    let handle = on_a_loop(move |tasks| {
        for number in 0..4 {
            tasks.start(number, two_polls(number, &wakers, &done));
        }
        // The second and the third are wanted, and one may go.
        let mut place = 0;
        let is_wanted = |_: &Job| {
            place += 1;
            matches!(place, 2 | 3)
        };
        let (some, next) = tasks.take_some(0, 1, is_wanted);
        count.send((some.len(), next)).unwrap();
        assert_eq!(tasks.take_some(2, 1, |_| false).1, None);
        tasks.start(9, two_polls(9, &wakers, &done));
    });
    assert_eq!(taken.recv(), Ok((1, Some(2))));
    woken.iter().take(4).for_each(|waker| waker.wake());
    let mut all: Vec<u64> = finished.iter().take(4).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 2, 3, 9]);
    handle.stop();
}

#[test]
fn tasks_are_ended_however_many_there_are_and_others_stay() {
    const TASKS: u64 = 3 * LOOKED_AT as u64;
    let (wakers, woken): (_, Receiver<Waker>) = channel();
    let (done, finished) = channel();
    let (ended, has_ended) = channel();
    let handle = on_a_loop(move |tasks| {
        for number in 0..TASKS {
            tasks.start(number, two_polls(number, &wakers, &done));
        }
        assert_eq!(tasks.take_some(0, 1, |_| false).1, Some(LOOKED_AT));
        let tasks = tasks.clone();
        crate::loops::spawn(0, "ending tasks", async move {
            let mut number = 0;
            let is_third = |_: &Job| {
                number += 1;
                number % 3 == 0
            };
            tasks.end_where(is_third, crate::loops::after_events).await;
            ended.send(()).unwrap();
        });
    });
    has_ended.recv().unwrap();
    let wakers: Vec<Waker> = woken.try_iter().collect();
    wakers.iter().for_each(Waker::wake_by_ref);
    let mut all: Vec<u64> = finished.iter().take(TASKS as usize * 2 / 3).collect();
    all.sort_unstable();
    assert_eq!(all, (0..TASKS).filter(|number| number % 3 != 2).collect::<Vec<_>>());
    handle.stop();
}

#[test]
fn a_place_is_used_again_and_a_panic_ends_one_task_alone() {
    let (send, receive) = channel();
    let (done, finished) = channel();
    let handle = on_a_loop(move |tasks| {
        tasks.start(1, job(|_| panic!("a task that panics, as this test wants")));
        let mut yields = 3;
        let inner = tasks.clone();
        tasks.start(
            2,
            job(move |context| {
                if yields > 0 {
                    yields -= 1;
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Ready(())
            }),
        );
        let (wakers, _keep) = channel();
        std::mem::forget(_keep);
        crate::loops::spawn(0, "looking", async move {
            while inner.0.table.borrow().free.len() < 2 {
                crate::loops::yield_now().await;
            }
            inner.start_now(3, two_polls(3, &wakers, &done));
            inner.start(4, two_polls(4, &wakers, &done));
            send.send(inner.0.table.borrow().places.len()).unwrap();
        });
    });
    assert_eq!(receive.recv().unwrap(), 2);
    handle.stop();
    // Tasks that had not ended were dropped with the loop.
    assert!(finished.recv().is_err());
}

/// How often four tasks that always go on are polled before an event is seen.
fn polls_before_an_event<S: Steps + 'static>(hog: fn(Rc<Cell<u32>>) -> S) -> u32 {
    use std::io::Write as _;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    let (done, finished) = channel();
    let handle = on_a_loop(move |tasks| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let socket = crate::net::Socket::new(OwnedFd::from(ours));
        let polls = Rc::new(Cell::new(0_u32));
        crate::loops::spawn(0, "waiting for an event", async move {
            assert!(poll_fn(|context| Poll::Ready(socket.poll_readable(context))).await.is_pending());
            for number in 0..4 {
                tasks.start(number, Job(Box::new(hog(polls.clone()))));
            }
            while polls.get() < 100 {
                crate::loops::yield_now().await;
            }
            let before = polls.get();
            theirs.write_all(b"x").unwrap();
            socket.readable().await.unwrap();
            done.send(polls.get() - before).unwrap();
        });
    });
    let polls = finished.recv().unwrap();
    handle.stop();
    polls
}

#[test]
fn events_are_seen_while_others_always_go_on() {
    /// A task like a connection that has much to send.
    struct Hog(Rc<Cell<u32>>);
    impl Steps for Hog {
        fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
            let start = std::time::Instant::now();
            while start.elapsed() < std::time::Duration::from_nanos(loops::UNASKED / 4) {
                std::hint::spin_loop();
            }
            self.0.set(self.0.get() + 1);
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    let polls = polls_before_an_event(Hog);
    assert!(polls <= 10 * TURN as u32, "{polls} polls before the event was seen");
}

#[test]
fn events_are_seen_after_the_long_part_of_a_turn() {
    /// A task at long work that never ends.
    struct Hog(Rc<Cell<u32>>, Option<LongWork>);
    impl Steps for Hog {
        fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
            self.1.get_or_insert_with(LongWork::begin);
            self.0.set(self.0.get() + 1);
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
    let polls = polls_before_an_event(|polls| Hog(polls, None));
    assert!(polls <= 2 * LONG_PART as u32, "{polls} polls before the event was seen");
}

/// A task that is polled twice, at long work in between or not, and then sends its number.
struct Twice {
    number: u64,
    is_long: bool,
    polled: bool,
    long: Option<LongWork>,
    wakers: Rc<RefCell<Vec<Waker>>>,
    order: Rc<RefCell<Vec<u64>>>,
}

impl Steps for Twice {
    fn step(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.polled, true) {
            self.order.borrow_mut().push(self.number);
            return Poll::Ready(());
        }
        self.wakers.borrow_mut().push(context.waker().clone());
        self.long = Some(LongWork::begin());
        if !self.is_long {
            self.long = None;
        }
        Poll::Pending
    }
}

/// The order in which as many long tasks as short ones are polled that are woken at once, all of the long ones first.
fn order(each: u64, by_another_thread: bool) -> Vec<u64> {
    let (done, finished) = channel();
    let handle = on_a_loop(move |tasks| {
        let (wakers, order) = (Rc::<RefCell<Vec<Waker>>>::default(), Rc::<RefCell<Vec<u64>>>::default());
        crate::loops::spawn(0, "waking", async move {
            // The second time the tasks are in the places of the first ones.
            for _ in 0..2 {
                order.borrow_mut().clear();
                for number in 0..2 * each {
                    let (wakers, order) = (wakers.clone(), order.clone());
                    let is_long = number < each;
                    let task = Twice { number, is_long, polled: false, long: None, wakers, order };
                    tasks.start(number, Job(Box::new(task)));
                }
                while wakers.borrow().len() < 2 * each as usize {
                    crate::loops::yield_now().await;
                }
                let all = wakers.take();
                let wake = move || all.into_iter().for_each(Waker::wake);
                if by_another_thread {
                    std::thread::spawn(wake).join().unwrap()
                } else {
                    wake()
                }
                while order.borrow().len() < 2 * each as usize {
                    crate::loops::yield_now().await;
                }
            }
            done.send(order.take()).unwrap();
        });
    });
    let order = finished.recv().unwrap();
    handle.stop();
    order
}

#[test]
fn what_is_short_comes_first_and_long_work_goes_on_all_the_same() {
    for by_another_thread in [false, true] {
        const EACH: u64 = 3 * TURN as u64;
        let order = order(EACH, by_another_thread);
        let (long, short): (Vec<u64>, Vec<u64>) = order.iter().partition(|number| **number < EACH);
        assert!(long.is_sorted() && short.is_sorted(), "{order:?}");
        for turn in order.chunks(TURN).take(EACH as usize / (TURN - LONG_PART)) {
            assert_eq!(turn.iter().filter(|number| **number < EACH).count(), LONG_PART, "{order:?}");
            assert!(turn.iter().take(TURN - LONG_PART).all(|number| *number >= EACH), "{order:?}");
        }
    }
}

#[test]
fn one_that_always_goes_on_does_not_keep_others_waiting() {
    let (done, finished) = channel();
    let handle = on_a_loop(move |tasks| {
        tasks.start(
            1,
            job(|context| {
                context.waker().wake_by_ref();
                Poll::Pending
            }),
        );
        crate::loops::spawn(0, "another one", async move {
            for _ in 0..10 {
                crate::timer::sleep(std::time::Duration::from_millis(1)).await;
            }
            done.send(()).unwrap();
        });
    });
    finished.recv().unwrap();
    handle.stop();
}

#[test]
fn what_tasks_start_while_their_loop_ends_is_dropped_with_it() {
    /// A future that starts another one when it is dropped.
    struct Starts(u32, Sender<u32>);
    impl Drop for Starts {
        fn drop(&mut self) {
            self.1.send(self.0).unwrap();
            if self.0 > 0 {
                let next = Starts(self.0 - 1, self.1.clone());
                loops::spawn(0, "testing", async move {
                    let _next = next;
                    std::future::pending::<()>().await;
                });
            }
        }
    }
    let (send, receive) = channel();
    let handle = LoopHandle::start(0, None).unwrap();
    handle.tell(move || drop(Starts(3, send)));
    assert_eq!(receive.recv().unwrap(), 3);
    handle.stop();
    assert_eq!(receive.iter().collect::<Vec<_>>(), [2, 1, 0]);
}

#[test]
fn what_many_tasks_start_while_their_loop_ends_takes_no_place_of_another_one() {
    /// A future that starts four others when it is dropped.
    struct Starts(u32, Sender<u32>);
    impl Drop for Starts {
        fn drop(&mut self) {
            self.1.send(self.0).unwrap();
            for _ in 0..if self.0 > 0 { 4 } else { 0 } {
                let next = Starts(self.0 - 1, self.1.clone());
                loops::spawn(0, "testing", async move {
                    let _next = next;
                    std::future::pending::<()>().await;
                });
            }
        }
    }
    let ((send, receive), (done, finished)) = (channel(), channel());
    let handle = LoopHandle::start(0, None).unwrap();
    handle.tell(move || {
        // The places of these are free when the loop ends.
        (0..8).for_each(|_| loops::spawn(0, "testing", async {}));
        loops::spawn(0, "testing", async move { done.send(()).unwrap() });
    });
    finished.recv().unwrap();
    handle.tell(move || {
        let first = Starts(3, send);
        loops::spawn(0, "testing", async move {
            let _first = first;
            std::future::pending::<()>().await;
        });
    });
    handle.stop();
    let mut dropped: Vec<u32> = receive.iter().collect();
    dropped.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(dropped, [vec![3], vec![2; 4], vec![1; 16], vec![0; 64]].concat());
}
