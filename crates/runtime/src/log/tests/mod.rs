use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;

mod relief;

const LONG: Duration = Duration::from_secs(60);

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("freerun-log-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    fn open(&self, name: &str) -> OwnedFd {
        OpenOptions::new().append(true).create(true).open(self.0.join(name)).unwrap().into()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn lines_from_many_threads_arrive_whole() {
    let dir = Scratch::new("whole");
    let writer = Writer::start().unwrap();
    let file = writer.file("a", dir.open("a"));
    std::thread::scope(|scope| {
        for t in 0..4 {
            let file = file.clone();
            scope.spawn(move || {
                for i in 0..500 {
                    assert!(file.write(format!("thread {t} line {i}\n").into_bytes()));
                }
            });
        }
    });
    assert!(writer.shutdown(LONG));
    let text = dir.read("a");
    assert_eq!(text.lines().count(), 2000);
    for t in 0..4 {
        let mine: Vec<_> = text.lines().filter(|l| l.starts_with(&format!("thread {t} "))).collect();
        let wanted: Vec<_> = (0..500).map(|i| format!("thread {t} line {i}")).collect();
        assert_eq!(mine, wanted, "the lines of one thread keep their order");
    }
}

#[test]
fn reopening_moves_later_lines_to_the_new_file() {
    let dir = Scratch::new("reopen");
    let writer = Writer::start().unwrap();
    let file = writer.file("log", dir.open("log"));
    file.write("before\n");
    assert!(writer.flush(LONG));
    fs::rename(dir.0.join("log"), dir.0.join("log.1")).unwrap();
    let same = writer.file("log", dir.open("log"));
    file.write("after\n");
    same.write("again\n");
    assert!(writer.flush(LONG));
    assert_eq!(dir.read("log.1"), "before\n");
    assert_eq!(dir.read("log"), "after\nagain\n");
}

#[test]
fn lines_that_wait_when_a_log_is_reopened_are_for_the_old_file() {
    let dir = Scratch::new("rotated");
    let writer = Writer::start_with(LONG).unwrap();
    let (mut reader, end) = std::io::pipe().unwrap();
    let (blocked, file) = (writer.file("pipe", end.into()), writer.file("log", dir.open("log")));
    // The thread is held up in a pipe that takes 64 KiB.
    let long = vec![b'\n'; 256 * 1024];
    assert!(blocked.write(long.clone()));
    for number in 0..3 {
        assert!(file.write(format!("line {number}\n")) && file.write_compressed("packed\n", 1));
        fs::rename(dir.0.join("log"), dir.0.join(format!("log.{number}"))).unwrap();
        file.reopen(dir.open("log"));
    }
    file.write("last\n");
    reader.read_exact(&mut long.clone()).unwrap();
    assert!(writer.flush(LONG));
    for number in 0..3 {
        let old = fs::read(dir.0.join(format!("log.{number}"))).unwrap();
        let (plain, packed) = old.split_at(7);
        assert_eq!(plain, format!("line {number}\n").as_bytes());
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        assert_eq!(text, "packed\n");
    }
    assert_eq!(dir.read("log"), "last\n");
}

#[test]
fn a_log_that_is_reopened_more_often_than_it_is_written_loses_nothing() {
    let dir = Scratch::new("often");
    let writer = Writer::start_with(LONG).unwrap();
    let (mut reader, end) = std::io::pipe().unwrap();
    let (blocked, file) = (writer.file("pipe", end.into()), writer.file("log", dir.open("log")));
    let long = vec![b'\n'; 256 * 1024];
    assert!(blocked.write(long.clone()));
    for number in 0..40 {
        file.write("line\n");
        file.reopen(dir.open(&format!("log.{number}")));
    }
    reader.read_exact(&mut long.clone()).unwrap();
    assert!(writer.flush(LONG));
    file.write("last\n");
    assert!(writer.flush(LONG));
    let lines: usize = (0..40).map(|number| dir.read(&format!("log.{number}")).lines().count()).sum();
    assert_eq!(lines + dir.read("log").lines().count(), 41);
    assert!(dir.read("log.39").ends_with("last\n"));
}

#[test]
fn a_line_for_a_pipe_that_nobody_reads_is_not_waited_for_without_a_thread() {
    let (reader, end) = std::io::pipe().unwrap();
    let file = Writer::direct().file("pipe", end.into());
    let line = [b"y".repeat(1000), b"\n".to_vec()].concat();
    let taken = (0..).take_while(|_| file.write(line.clone())).count();
    assert!(taken > 0);
    drop(reader);
}

#[test]
fn a_file_that_cannot_be_written_costs_lines_and_nothing_else() {
    let dir = Scratch::new("full");
    let writer = Writer::start().unwrap();
    let error = writer.file("error", dir.open("error"));
    writer.report_to(ErrorLog::new(vec![(error, Level::Error)]));
    let full: OwnedFd = OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    let file = writer.file("access", full);
    let line = [b"x".repeat(1023), b"\n".to_vec()].concat();
    let taken = (0..3000).filter(|_| file.write(line.clone())).count();
    assert_eq!(taken, MAX_WAITING / 1024, "exactly the bound is kept");
    assert!(writer.flush(LONG));
    let said = dir.read("error");
    assert_eq!(said.matches(r#"write() to "access" failed (28: No space left on device)"#).count(), 1, "{said}");

    file.reopen(dir.open("access"));
    assert!(writer.flush(LONG));
    assert_eq!(dir.read("access").lines().count(), taken, "what waited is written once the file works");
    assert!(writer.flush(LONG));
    let said = dir.read("error");
    assert!(said.contains(&format!("{} lines for \"access\" were dropped", 3000 - taken)), "{said}");
    assert!(file.write("new\n"));
    assert!(writer.flush(LONG));
    assert!(dir.read("access").ends_with("\nnew\n"));
}

#[test]
fn lines_that_were_not_made_for_want_of_room_are_reported() {
    let dir = Scratch::new("room");
    let writer = Writer::start().unwrap();
    let error = writer.file("error", dir.open("error"));
    writer.report_to(ErrorLog::new(vec![(error, Level::Error)]));
    let full: OwnedFd = OpenOptions::new().write(true).open("/dev/full").unwrap().into();
    let file = writer.file("access", full);
    assert!(file.has_room(2 * MAX_WAITING), "nothing waits");
    assert!(file.write(vec![b'\n'; MAX_WAITING - 100]));
    assert!(file.has_room(100) && !file.has_room(101));
    file.lose(7);
    file.reopen(dir.open("access"));
    assert!(writer.flush(LONG) && writer.flush(LONG));
    assert!(dir.read("error").contains("7 lines for \"access\" were dropped"), "{}", dir.read("error"));
    // The last of them may have been reported when all was written.
    file.lose(3);
    assert!(writer.flush(LONG) && writer.flush(LONG));
    assert!(dir.read("error").contains(" 3 lines for \"access\" were dropped"), "{}", dir.read("error"));
    assert_eq!((file.lost(), file.lost_in_all()), (0, 10));
}

#[test]
fn a_blocked_pipe_does_not_block_the_caller() {
    let (mut reader, end) = std::io::pipe().unwrap();
    let writer = Writer::start().unwrap();
    let file = writer.file("pipe", end.into());
    let line = [b"y".repeat(65_535), b"\n".to_vec()].concat();
    // The pipe is not read: it takes 64 KiB, the thread blocks in it, and the bound stops the rest.
    let taken = (0..64).filter(|_| file.write(line.clone())).count();
    assert!((16..64).contains(&taken), "{taken}");
    assert!(file.lost() > 0);
    drop(writer);
    let mut text = vec![0; 65_536];
    for _ in 0..taken {
        reader.read_exact(&mut text).unwrap();
        assert_eq!(text, line);
    }
}

#[test]
fn a_buffer_beyond_the_bound_is_taken_when_nothing_waits() {
    let dir = Scratch::new("large");
    let writer = Writer::start().unwrap();
    let file = writer.file("a", dir.open("a"));
    assert!(file.write(vec![b'z'; MAX_WAITING * 2]));
    assert!(writer.shutdown(LONG));
    assert_eq!(dir.read("a").len(), MAX_WAITING * 2);
}

#[test]
fn error_lines_have_the_form_of_nginx() {
    let dir = Scratch::new("form");
    let writer = Writer::direct();
    let log = ErrorLog::new(vec![
        (writer.file("a", dir.open("a")), Level::Error),
        (writer.file("b", dir.open("b")), Level::Debug),
    ]);
    log.write(Level::Error, Some(5), format_args!("open() \"{}\" failed", "/x\ny"));
    log.write(Level::Info, None, format_args!("client closed"));
    let a = dir.read("a");
    let (time, rest) = a.split_at(20);
    assert!(
        time.bytes().zip(b"0000/00/00 00:00:00 ").all(|(c, p)| if *p == b'0' { c.is_ascii_digit() } else { c == *p }),
        "{time}"
    );
    let (process, message) = rest.strip_prefix("[error] ").unwrap().split_once(": ").unwrap();
    let (pid, tid) = process.split_once('#').unwrap();
    assert_eq!(pid, std::process::id().to_string());
    assert!(tid.parse::<u32>().unwrap() > 0);
    assert_eq!(message, "*5 open() \"/x\\x0Ay\" failed\n");
    let b = dir.read("b");
    assert_eq!(b.lines().count(), 2);
    assert!(b.ends_with(": client closed\n"), "{b}");
}

#[test]
fn levels_gate_and_long_lines_are_cut() {
    let dir = Scratch::new("cut");
    let writer = Writer::direct();
    let log = ErrorLog::new(vec![(writer.file("a", dir.open("a")), Level::Warn)]);
    assert!(log.enabled(Level::Warn) && log.enabled(Level::Emerg) && !log.enabled(Level::Notice));
    assert!(!ErrorLog::none().enabled(Level::Emerg));
    log.write(Level::Warn, None, format_args!("{}", "é".repeat(4000)));
    let line = dir.read("a");
    assert!(line.len() <= MAX_LINE && line.len() > MAX_LINE - 16, "{}", line.len());
    assert!(line.ends_with("é\n"));
}

#[test]
fn level_names_and_numbers_round_trip() {
    for level in Level::ALL {
        assert_eq!(level.name().parse(), Ok(level));
        assert_eq!(Level::from_number(level as u8), Some(level));
    }
    assert_eq!("loud".parse::<Level>(), Err(()));
    assert_eq!(Level::from_number(0), None);
}

#[test]
fn errors_print_as_nginx_prints_them() {
    let error = File::open("/nonexistent/file").unwrap_err();
    assert_eq!(Errno(&error).to_string(), "2: No such file or directory");
}

#[test]
fn compressed_buffers_are_one_text() {
    let dir = Scratch::new("compressed");
    let writer = Writer::start().unwrap();
    let file = writer.file("a", dir.open("a"));
    let long = "all the same ".repeat(10_000);
    assert!(file.write_compressed(format!("first\n{long}\n"), 1));
    assert!(file.write_compressed("second\n", 9));
    assert!(writer.flush(LONG));
    assert_eq!(file.0.waiting.load(std::sync::atomic::Ordering::Acquire), 0);
    let bytes = fs::read(dir.0.join("a")).unwrap();
    assert!(bytes.len() < 3000, "{} bytes", bytes.len());
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
    assert_eq!(text, format!("first\n{long}\nsecond\n"));
}

fn header() -> syslog::Header {
    syslog::Header { facility: 3, tag: "t".into(), hostname: false }
}

#[test]
fn messages_are_sent_one_by_one() {
    let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server.local_addr().unwrap()).unwrap();
    let writer = Writer::start().unwrap();
    let file = writer.file("syslog:somewhere:514", socket.into());
    assert!(file.is_syslog());
    file.write_messages("onetwo", &[3, 6, 99]);
    let target = ErrorTarget { syslog: Some(header().into()), ..(file.clone(), Level::Warn).into() };
    let log = ErrorLog::new(vec![target]);
    log.write(Level::Info, None, format_args!("not this"));
    log.write(Level::Crit, Some(7), format_args!("oh"));
    assert!(writer.flush(LONG));
    let receive = || {
        let mut buffer = [0; 300];
        let length = server.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!((receive(), receive()), ("one".to_owned(), "two".to_owned()));
    let third = receive();
    assert!(third.starts_with("<26>") && third.contains(" t: 20") && third.ends_with(": *7 oh"), "{third}");
}

#[test]
fn a_unix_server_may_come_late_and_go() {
    let dir = Scratch::new("unix");
    let path = dir.0.join("log");
    let writer = Writer::start().unwrap();
    let file = writer.file(&format!("syslog:unix:{}", path.display()), syslog_socket(&path).unwrap());
    // The writer's own errors go to the same server: that must not go round in circles.
    writer.report_to(ErrorLog::new(vec![ErrorTarget {
        file: file.clone(),
        level: Level::Debug,
        syslog: Some(header().into()),
        format: ErrorFormat::Text,
    }]));
    let mut buffer = [0; 300];
    for _ in 0..2 {
        file.write("lost");
        assert!(writer.flush(LONG) && writer.flush(LONG));
        assert!(file.lost_in_all() > 0);
        let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        file.write("here");
        assert!(writer.flush(LONG) && writer.flush(LONG));
        let length = server.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], b"here");
        let length = server.recv(&mut buffer).unwrap();
        assert!(String::from_utf8_lossy(&buffer[..length]).contains("were dropped"));
        assert_eq!(file.lost(), 0);
        drop(server);
        fs::remove_file(&path).unwrap();
    }
    assert!(writer.shutdown(LONG));
}

#[test]
fn a_server_that_is_behind_costs_messages_and_no_waiting() {
    let dir = Scratch::new("behind");
    let path = dir.0.join("log");
    let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let writer = Writer::start().unwrap();
    let file = writer.file(&format!("syslog:unix:{}", path.display()), syslog_socket(&path).unwrap());
    let other = writer.file("other", dir.open("other"));
    let message = vec![b'm'; 1000];
    while file.write(message.clone()) {}
    assert!(other.write("not held up\n"));
    assert!(writer.flush(LONG));
    assert_eq!(dir.read("other"), "not held up\n");
    // The messages that were taken arrive once the server reads.
    let mut buffer = [0; 2000];
    let mut received = 0;
    while received < MAX_WAITING / 1000 {
        received += server.recv(&mut buffer).unwrap() / 1000;
    }
}

#[test]
fn lines_may_name_their_files() {
    let dir = Scratch::new("lines");
    let null: OwnedFd = OpenOptions::new().write(true).open("/dev/null").unwrap().into();
    let writer = Writer::start().unwrap();
    let errors = writer.file("errors", dir.open("errors"));
    writer.report_to(ErrorLog::new(vec![(errors, Level::Debug)]));
    let named = writer.file(NAMED, null);
    let to = |name: &str| {
        let keep = Keep { max: 1, inactive: LONG, min_uses: 1, valid: LONG };
        Destination {
            path: dir.0.join(name).to_str().unwrap().into(),
            root: None,
            keep: Some(keep),
            about: String::new(),
        }
    };
    for number in 0..3 {
        assert!(named.write_named(to("x"), format!("{number}\n")));
        assert!(named.write_named(to("y"), format!("{number}\n")));
        assert!(named.write_named(to("no/where"), format!("{number}\n")));
    }
    assert!(writer.flush(LONG));
    assert_eq!((dir.read("x").as_str(), dir.read("y").as_str()), ("0\n1\n2\n", "0\n1\n2\n"));
    assert_eq!(named.lost_in_all(), 3);
    assert_eq!(named.0.waiting.load(std::sync::atomic::Ordering::Acquire), 0);
    fs::rename(dir.0.join("x"), dir.0.join("old")).unwrap();
    assert!(writer.close_named(LONG));
    named.write_named(to("x"), "new\n");
    assert!(writer.shutdown(LONG));
    assert_eq!(dir.read("x"), "new\n");
    let errors = dir.read("errors");
    assert!(
        errors.contains("[crit]") && errors.contains("/no/where\" failed (2: No such file or directory)"),
        "{errors}"
    );
}

#[test]
fn what_a_log_suffers_is_told_in_nginx_s_words_and_levels() {
    let dir = Scratch::new("words");
    // The pairs are a log to write to, and its report.
    let told = |log: &dyn Fn(&Writer)| {
        let writer = Writer::start().unwrap();
        let errors = writer.file("errors", dir.open("errors"));
        writer.report_to(ErrorLog::new(vec![(errors, Level::Debug)]));
        log(&writer);
        assert!(writer.flush(LONG) && writer.shutdown(LONG));
        let told = dir.read("errors");
        fs::remove_file(dir.0.join("errors")).unwrap();
        let (level, text) = told.lines().next().unwrap().split_once(" [").unwrap().1.split_once("] ").unwrap();
        (level.to_owned(), text.split_once(": ").unwrap().1.to_owned())
    };
    let path = dir.0.join("log").display().to_string();
    let send = |writer: &Writer| {
        let file = writer.file(&format!("syslog:unix:{path}"), syslog_socket(path.as_ref()).unwrap());
        file.write("lost");
    };
    let (level, text) = told(&send);
    let missing =
        format!("connect() failed (2: No such file or directory) while logging to syslog, server: unix:{path}");
    assert_eq!((level.as_str(), text), ("alert", missing));
    let (level, text) = told(&|writer| {
        let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let file = writer.file(&format!("syslog:unix:{path}"), syslog_socket(path.as_ref()).unwrap());
        drop(server);
        file.write("lost");
    });
    let refused = format!("send() failed (111: Connection refused) while logging to syslog, server: unix:{path}");
    assert_eq!((level.as_str(), text), ("error", refused));
    let (level, text) = told(&|writer| {
        let null: OwnedFd = OpenOptions::new().write(true).open("/dev/null").unwrap().into();
        let about = ", client: 192.0.2.1".to_owned();
        let (path, root) = (path.clone().into_bytes(), Some(b"/nowhere/at/all".to_vec()));
        let to = Destination { path, root, keep: None, about };
        writer.file(NAMED, null).write_named(to, "lost\n");
    });
    let untested = "testing \"/nowhere/at/all\" existence failed (2: No such file or directory) while logging request, client: 192.0.2.1";
    assert_eq!((level.as_str(), text.as_str()), ("error", untested));
}
