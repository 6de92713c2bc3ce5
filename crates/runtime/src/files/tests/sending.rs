//! Tests of reading, sending and writing: the bytes that come out, and the errors if they do not.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use freerun_sys::mincore::page_size;
use rustix::io::Errno;

use super::fake::*;
use crate::files::{Aio, Cursor, OpenFile, POOL_CHUNK, SendResult, TempFile, Via};
use crate::mounts::Density;
use crate::pool::{PoolError, Tag};

const MIB: usize = 1 << 20;

fn page() -> usize {
    page_size()
}

/// Sends a whole file as a connection would; returns what arrived, and whether it was cut short.
fn send_all(bench: &Bench, aio: &Aio, file: &Arc<OpenFile>, len: u64) -> (Vec<u8>, bool) {
    send_by(Cursor::default(), bench, aio, file, len)
}

/// Sends a whole file as [`send_all`] does, with this cursor.
fn send_by(mut cursor: Cursor, bench: &Bench, aio: &Aio, file: &Arc<OpenFile>, len: u64) -> (Vec<u8>, bool) {
    let (out, mut to) = sockets();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut to, &mut bytes).unwrap();
        bytes
    });
    let cut = block_on(async {
        let via = Via { aio, client: 1, gone: None };
        let mut offset = 0;
        while offset < len {
            let mut sent = bench.fs.send_now(file, &mut cursor, out.as_fd(), offset, len - offset, aio).unwrap();
            if sent == SendResult::NeedsPool {
                sent = bench.fs.send_pooled(file, &mut cursor, out.clone(), offset, len - offset, via).await.unwrap();
            }
            match sent {
                SendResult::Bytes(n) => offset += n,
                SendResult::SocketFull => tokio::task::yield_now().await,
                SendResult::Eof => return true,
                SendResult::NeedsPool => panic!("the pool sent the caller to the pool"),
            }
        }
        false
    });
    drop(out);
    (reader.join().unwrap(), cut)
}

#[test]
fn a_file_arrives_whole_in_every_mode_on_every_rung() {
    let len = 3 * POOL_CHUNK as usize + 1234;
    for fs_type in ["tmpfs", "ext4", "fuse"] {
        for nowait in [None, Some(Errno::OPNOTSUPP)] {
            let bench = Bench::with(fs_type, "", |plan| {
                plan.nowait = nowait;
                plan.missing = (0..1000).filter(|page| page % 50 == 3).collect();
            });
            let file = bench.file(len);
            let pool = bench.pool.clone();
            for aio in [Aio::Auto(pool.clone()), Aio::Threads(pool.clone()), Aio::Always(pool), Aio::Off] {
                let (bytes, cut) = send_all(&bench, &aio, &file, len as u64);
                assert!(bytes == pattern(len) && !cut, "{fs_type} {nowait:?} {aio:?}");
                assert_ne!(bench.fake.calls.sendfile.swap(0, SeqCst), 0);
                let (bytes, cut) = send_by(Cursor::copying(), &bench, &aio, &file, len as u64);
                assert!(bytes == pattern(len) && !cut, "copied: {fs_type} {nowait:?} {aio:?}");
                assert_eq!(bench.fake.calls.sendfile.load(SeqCst), 0, "{fs_type} {nowait:?} {aio:?}");
            }
        }
    }
}

#[test]
fn what_is_in_memory_is_sent_and_the_rest_needs_the_pool() {
    let bench = Bench::with("ext4", "", |plan| plan.missing = [2].into());
    let file = bench.file(4 * page());
    let (out, mut to) = sockets();
    let mut cursor = Cursor::default();
    let mut send = |offset| {
        bench.fs.send_now(&file, &mut cursor, out.as_fd(), offset as u64, (4 * page() - offset) as u64, &bench.aio)
    };
    assert_eq!(send(0), Ok(SendResult::Bytes(2 * page() as u64)));
    assert_eq!(receive(&mut to, 2 * page()), pattern(4 * page())[..2 * page()]);
    assert_eq!(send(2 * page()), Ok(SendResult::NeedsPool));
    let pooled =
        bench.fs.send_pooled(&file, &mut cursor, out.clone(), 2 * page() as u64, 2 * page() as u64, bench.via());
    assert_eq!(block_on(pooled), Ok(SendResult::Bytes(2 * page() as u64)));
    assert_eq!(receive(&mut to, 2 * page()), pattern(4 * page())[2 * page()..]);
    let status = bench.mount();
    // One miss was at the end of the bytes in memory, one when the caller came back.
    assert_eq!((status.hits, status.misses), (1, 2));
}

#[test]
fn what_may_leave_the_memory_between_look_and_use_is_not_sent_by_a_call_that_waits() {
    // The page is in memory while it is probed, and gone a moment later: other files of its mount miss.
    let bench = Bench::new("ext4");
    let len = MIB + 1234;
    let file = bench.file(len);
    file.mount.missed(bench.fs.now_ms());
    let (bytes, cut) = send_all(&bench, &bench.aio, &file, len as u64);
    assert!(bytes == pattern(len) && !cut);
    assert_eq!(bench.fake.calls.sendfile.load(SeqCst), 0);
    // Copying costs more than sending if nothing is missing, and for a file that many clients ask for.
    file.mount.set_density(Density::Medium);
    send_all(&bench, &bench.aio, &file, len as u64);
    assert_ne!(bench.fake.calls.sendfile.swap(0, SeqCst), 0);
    let file = bench.file(len);
    file.mount.missed(bench.fs.now_ms());
    for _ in 0..4 {
        assert_eq!(bench.fake.calls.sendfile.load(SeqCst), 0);
        bench.pass(Duration::from_millis(20));
        send_all(&bench, &bench.aio, &file, len as u64);
    }
    send_all(&bench, &bench.aio, &file, len as u64);
    assert_ne!(bench.fake.calls.sendfile.load(SeqCst), 0);
}

#[test]
fn what_a_socket_does_not_take_of_a_copy_is_not_lost() {
    let bench = Bench::new("ext4");
    let len = 4 * MIB;
    let file = bench.file(len);
    file.mount.missed(bench.fs.now_ms());
    let (out, mut to) = sockets();
    let mut cursor = Cursor::default();
    let (mut received, mut full) = (Vec::new(), 0);
    while received.len() < len {
        let offset = received.len() as u64;
        let mut in_socket = 0;
        while let SendResult::Bytes(n) = bench
            .fs
            .send_now(&file, &mut cursor, out.as_fd(), offset + in_socket, len as u64 - offset - in_socket, &bench.aio)
            .unwrap()
        {
            in_socket += n;
            if offset + in_socket == len as u64 {
                break;
            }
        }
        full += 1;
        received.extend(receive(&mut to, in_socket as usize));
    }
    assert!(received == pattern(len) && full > 1);
    assert_eq!(bench.fake.calls.sendfile.load(SeqCst), 0);
}

#[test]
fn a_full_socket_is_said_to_be_full() {
    let bench = Bench::new("ext4");
    let file = bench.file(page());
    let (out, _to) = sockets();
    let mut cursor = Cursor::default();
    let mut last = SendResult::Bytes(1);
    while let SendResult::Bytes(_) = last {
        last = bench.fs.send_now(&file, &mut cursor, out.as_fd(), 0, page() as u64, &bench.aio).unwrap();
    }
    assert_eq!(last, SendResult::SocketFull);
    let pooled = bench.fs.send_pooled(&file, &mut cursor, out.clone(), 0, 1, bench.via());
    assert_eq!(block_on(pooled), Ok(SendResult::SocketFull));
}

#[test]
fn a_file_that_shrinks_ends_early_and_is_not_padded() {
    for fs_type in ["tmpfs", "ext4", "fuse"] {
        for aio in ["auto", "always", "off"] {
            let bench = Bench::new(fs_type);
            let path = bench.dir.write("a", &pattern(10 * page()));
            let file = bench.fs.try_open_now(&path, &Aio::Off).unwrap().unwrap();
            let shorter = 2 * page() + 7;
            std::fs::File::options().write(true).open(bench.dir.0.join("a")).unwrap().set_len(shorter as u64).unwrap();
            let aio = match aio {
                "auto" => bench.aio.clone(),
                "always" => Aio::Always(bench.pool.clone()),
                _ => Aio::Off,
            };
            for cursor in [Cursor::default(), Cursor::copying()] {
                let told = format!("{fs_type} {aio:?} {cursor:?}");
                let (bytes, cut) = send_by(cursor, &bench, &aio, &file, file.size());
                assert!(cut && bytes == pattern(10 * page())[..shorter], "{told}: {} bytes", bytes.len());
            }
        }
    }
}

#[test]
fn errors_of_the_disk_and_of_the_peer_are_told_apart() {
    let bench = Bench::with("ext4", "", |plan| plan.sendfile = Some(Errno::IO));
    let file = bench.file(10);
    let (out, to) = sockets();
    let mut cursor = Cursor::default();
    let pooled = bench.fs.send_pooled(&file, &mut cursor, out.clone(), 0, 10, bench.via());
    let error = block_on(pooled).unwrap_err();
    assert_eq!(error.describe(b"/x"), "sendfile() \"/x\" failed (5: Input/output error)");
    assert!(!error.is_peer());
    bench.fake.change(|plan| plan.sendfile = None);
    drop(to);
    let error = bench.fs.send_now(&file, &mut cursor, out.as_fd(), 0, 10, &bench.aio).unwrap_err();
    assert!(error.is_peer(), "{error}");
}

#[test]
fn a_full_pool_refuses_with_its_name() {
    let bench = Bench::with("ext4", "", |plan| plan.missing = [0].into());
    let file = bench.file(10);
    bench.pool.resize(1, 0);
    let (open, opened) = std::sync::mpsc::channel::<()>();
    assert!(bench.pool.spawn(Tag::default(), move || _ = opened.recv()).is_ok());
    let (out, _to) = sockets();
    let mut cursor = Cursor::default();
    let error = block_on(bench.fs.send_pooled(&file, &mut cursor, out, 0, 10, bench.via())).unwrap_err();
    assert_eq!(error.describe(b"/x"), "thread pool \"test\" queue overflow: 0 tasks waiting");
    assert_eq!(error.errno(), None);
    drop(open);
}

#[test]
fn work_for_a_client_that_left_is_withdrawn() {
    struct Left;
    impl crate::files::ClientPresence for Left {
        fn gone(&self) -> std::pin::Pin<Box<dyn std::future::Future<Output = ()> + '_>> {
            Box::pin(async {})
        }
    }
    let bench = Bench::new("ext4");
    bench.pool.resize(1, 10);
    let (open, opened) = std::sync::mpsc::channel::<()>();
    assert!(bench.pool.spawn(Tag::default(), move || _ = opened.recv()).is_ok());
    let via = Via { gone: Some(&Left), ..bench.via() };
    let outcome = block_on(bench.fs.offload(via, Tag::client(1), || ()));
    assert_eq!(outcome, Err(PoolError::ClientGone.into()));
    drop(open);
}

#[test]
fn a_read_is_whole_or_needs_the_pool_and_a_short_one_means_the_end() {
    let bench = Bench::with("ext4", "", |plan| plan.missing = [1].into());
    let file = bench.file(3 * page());
    let mut buffer = vec![0; 3 * page()];
    assert!(bench.fs.try_read_now(&file, 0, &mut buffer, &bench.aio).is_none());
    assert_eq!(bench.fs.try_read_now(&file, 0, &mut buffer[..100], &bench.aio), Some(Ok(100)));
    assert_eq!(bench.fs.try_read_now(&file, 2 * page() as u64, &mut buffer, &bench.aio), Some(Ok(page())));
    assert_eq!(buffer[..page()], pattern(3 * page())[2 * page()..]);
    assert_eq!(bench.fs.try_read_now(&file, 3 * page() as u64, &mut buffer, &bench.aio), Some(Ok(0)));
    assert!(bench.fs.try_read_now(&file, 0, &mut buffer[..1], &Aio::Always(bench.pool.clone())).is_none());
    assert_eq!(bench.fs.try_read_now(&file, 0, &mut buffer, &Aio::Off), Some(Ok(3 * page())));
    assert_eq!(buffer, pattern(3 * page()));
}

#[test]
fn reading_through_the_pool_goes_on_where_memory_ended() {
    for nowait in [None, Some(Errno::OPNOTSUPP), Some(Errno::IO)] {
        let bench = Bench::with("ext4", "", |plan| {
            plan.nowait = nowait;
            plan.missing = [1].into();
        });
        let file = bench.file(3 * page());
        let pool = bench.pool.clone();
        for aio in [Aio::Auto(pool.clone()), Aio::Always(pool), Aio::Off] {
            let via = Via { aio: &aio, client: 1, gone: None };
            let read =
                |offset, len| block_on(bench.fs.read_at(&file, offset, len, BytesMut::from("head"), via)).unwrap();
            let whole = [b"head", &pattern(3 * page())[..]].concat();
            assert_eq!(read(0, 3 * page()), whole);
            assert_eq!(read(0, 10 * page()), whole);
            assert_eq!(read(3 * page() as u64, 10), "head");
        }
    }
}

#[test]
fn a_failing_disk_fails_the_read() {
    let bench = Bench::with("ext4", "", |plan| {
        plan.missing = [0].into();
        plan.read = Some(Errno::IO);
    });
    let file = bench.file(10);
    let error = block_on(bench.fs.read_at(&file, 0, 10, BytesMut::new(), bench.via())).unwrap_err();
    assert_eq!(error.describe(b"/x"), "pread() \"/x\" failed (5: Input/output error)");
}

#[test]
fn names_that_are_taken_are_passed_over_however_many_they_are() {
    let bench = Bench::new("ext4");
    let directory = bench.dir.path(".");
    block_on(async {
        let make = || bench.fs.create_named_temp(&directory, &[], false, bench.via());
        let number = |temp: &TempFile| {
            let path = temp.path().unwrap().to_str().unwrap().to_owned();
            path.rsplit('/').next().unwrap().parse::<u64>().unwrap()
        };
        let first = number(&make().await.unwrap());
        // A process before this one has left such files.
        for left in first + 1..first + 3000 {
            std::fs::write(bench.dir.0.join(format!("{left:010}")), "").unwrap();
        }
        let next = make().await.unwrap();
        assert!(number(&next) >= first + 3000);
        assert!(number(&make().await.unwrap()) > number(&next));
    });
}

#[test]
fn a_temporary_file_has_no_name_and_gives_back_what_was_written() {
    let bench = Bench::new("ext4");
    let directory = bench.dir.path(".");
    block_on(async {
        let mut temp = bench.fs.create_temp(&directory, bench.via()).await.unwrap();
        assert!(temp.is_empty());
        assert_eq!(std::fs::read_dir(&bench.dir.0).unwrap().count(), 0);
        temp.append(Bytes::from(pattern(5000)), bench.via()).await.unwrap();
        temp.append(Bytes::from_static(b"end"), bench.via()).await.unwrap();
        assert_eq!(temp.len(), 5003);
        bench.fake.change(|plan| plan.write = Some(Errno::NOSPC));
        let error = temp.append(Bytes::from_static(b"more"), bench.via()).await.unwrap_err();
        assert_eq!(error.errno(), Some(28));
        assert_eq!(temp.len(), 5003);
        let file = temp.into_file();
        assert_eq!(file.size(), 5003);
        let back = bench.fs.read_at(&file, 0, 5003, BytesMut::new(), bench.via()).await.unwrap();
        assert_eq!(back, [&pattern(5000)[..], b"end"].concat());
        let missing = bench.fs.create_temp(&bench.dir.path("missing"), bench.via()).await.unwrap_err();
        assert_eq!(missing.errno(), Some(2));
    });
}
