//! Tests of logs that hang while others go on.

use std::io::{PipeReader, Read as _, pipe};
use std::os::fd::OwnedFd;

use super::super::relief::{Baton, Look, PATIENCE};
use super::*;

/// How long the tests' writers wait for a write.
const SHORT: Duration = Duration::from_millis(5);

/// A log whose reader does not read until it is told to.
struct Stuck {
    reader: PipeReader,
    file: LogFile,
    taken: usize,
}

const LINE: usize = 65_536;

fn line(letter: u8) -> Vec<u8> {
    let mut line = vec![letter; LINE];
    line[LINE - 1] = b'\n';
    line
}

impl Stuck {
    fn new(writer: &Writer, name: &str) -> Stuck {
        let (reader, end) = pipe().unwrap();
        let file = writer.file(name, end.into());
        // The pipe takes one of them.
        let taken = (0..3).filter(|_| file.write(line(b's'))).count();
        Stuck { reader, file, taken }
    }

    /// Waits until a thread is held up with this log.
    fn is_held_up(&self) {
        while !self.file.is_held_up() {
            std::thread::yield_now();
        }
    }

    /// Reads all lines that were taken.
    fn read(&mut self) {
        let mut text = vec![0; LINE];
        for _ in 0..self.taken {
            self.reader.read_exact(&mut text).unwrap();
            assert_eq!(text, line(b's'));
        }
    }
}

#[test]
fn a_log_that_hangs_does_not_hold_up_the_others() {
    let dir = Scratch::new("hangs");
    let writer = Writer::start_with(SHORT).unwrap();
    let errors = writer.file("errors", dir.open("errors"));
    writer.report_to(ErrorLog::new(vec![(errors, Level::Notice)]));
    let (mut reader, end) = pipe().unwrap();
    let other = writer.file("other", end.into());
    let mut stuck = Stuck::new(&writer, "stuck");
    let mut text = [0; 6];
    for _ in 0..3 {
        // The line arrives, whatever the other log does.
        assert!(other.write("other\n"));
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"other\n");
        stuck.is_held_up();
    }
    assert!(!writer.flush(Duration::from_millis(1)), "not all is written");
    // One thread is held up, one writes, one stands by. On a busy machine other writing threads may have been late,
    // too: they end.
    while writer.threads() != 3 {
        std::thread::yield_now();
    }
    // Lines that come meanwhile are in its queue.
    assert!(stuck.file.write("more\n"));
    stuck.read();
    stuck.reader.read_exact(&mut text[..5]).unwrap();
    assert_eq!(&text[..5], b"more\n");
    assert!(writer.flush(LONG));
    assert!(!stuck.file.is_held_up());
    assert_eq!(stuck.file.waiting(), 0);
    assert!(writer.flush(LONG));
    let said = dir.read("errors");
    assert!(said.contains("[alert]") && said.contains("write() to \"stuck\" takes long, other logs go on"), "{said}");
    assert!(said.contains("write() to \"stuck\" has come to its end"), "{said}");
    assert!(other.write("again\n"));
    assert!(writer.shutdown(LONG));
    reader.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"again\n");
}

#[test]
fn with_all_threads_held_up_logs_wait_and_go_on() {
    let writer = Writer::start_with(SHORT).unwrap();
    let mut stuck: Vec<Stuck> = Vec::new();
    // No thread takes over from the last one.
    for number in 0..MAX_LOG_THREADS - 1 {
        let new = Stuck::new(&writer, &format!("stuck {number}"));
        new.is_held_up();
        stuck.push(new);
    }
    assert_eq!(writer.threads(), MAX_LOG_THREADS);
    let (mut reader, end) = pipe().unwrap();
    let other = writer.file("other", end.into());
    assert!(other.write("before\n"));
    let mut text = [0; 7];
    reader.read_exact(&mut text).unwrap();
    let mut last = Stuck::new(&writer, "last");
    assert!(other.write("behind\n"));
    last.read();
    reader.read_exact(&mut text).unwrap();
    assert_eq!(&text, b"behind\n");
    for one in &mut stuck {
        one.read();
    }
    assert!(writer.flush(LONG));
    assert!(stuck.iter().all(|one| !one.file.is_held_up() && one.file.waiting() == 0));
    assert!(writer.shutdown(LONG));
}

#[test]
fn a_named_file_that_hangs_holds_up_named_files_only() {
    let dir = Scratch::new("fifo");
    let writer = Writer::start_with(SHORT).unwrap();
    let null: OwnedFd = OpenOptions::new().write(true).open("/dev/null").unwrap().into();
    let named = writer.file(NAMED, null);
    let fifo = dir.0.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let to = |name: &str, keep: bool| {
        let keep = keep.then_some(Keep { max: 8, inactive: LONG, min_uses: 1, valid: LONG });
        Destination { path: dir.0.join(name).to_str().unwrap().into(), root: None, keep, about: String::new() }
    };
    // Opening the FIFO waits for a reader.
    assert!(named.write_named(to("fifo", true), "line\n"));
    assert!(named.write_named(to("plain", false), "line\n"));
    let (mut reader, end) = pipe().unwrap();
    let other = writer.file("other", end.into());
    assert!(other.write("other\n"));
    let mut text = [0; 6];
    reader.read_exact(&mut text).unwrap();
    while !named.is_held_up() {
        std::thread::yield_now();
    }
    assert!(!writer.close_named(Duration::from_millis(1)), "these files are not at hand");
    let mut opened = File::open(&fifo).unwrap();
    let mut text = [0; 5];
    opened.read_exact(&mut text).unwrap();
    assert!(writer.close_named(LONG) && writer.flush(LONG));
    assert_eq!(dir.read("plain"), "line\n");
    // The file is no longer open anywhere.
    assert_eq!(opened.read(&mut text).unwrap(), 0);
    assert!(writer.shutdown(LONG));
}

#[test]
fn a_baton_is_taken_from_who_is_late_alone() {
    let baton: Baton<&str> = Baton::new();
    baton.announce();
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    assert_eq!(baton.threads(), 2);
    assert!(matches!(baton.look(PATIENCE, at(0)), Look::Sleep));
    let ticket = baton.lay_down("load", None, at(0));
    assert!(matches!(baton.look(PATIENCE, at(400)), Look::After(left) if left == Duration::from_millis(600)));
    assert_eq!(baton.take_up(ticket), Some("load"));
    assert_eq!(baton.take_up(ticket), None);
    let late = baton.lay_down("load", None, at(1000));
    assert!(matches!(baton.look(PATIENCE, at(2000)), Look::TakeOver("load", None, true)));
    assert_eq!(baton.threads(), 3);
    let other = baton.lay_down("load", None, at(2000));
    assert_eq!(baton.take_up(late), None, "it is another one's");
    assert_eq!(baton.take_up(other), Some("load"));
    assert!(!baton.is_vacant(), "one was started");
    assert_eq!(baton.threads(), 2);
    baton.not_started();
    assert!(baton.is_vacant(), "it could not be");
    baton.end();
    assert!(matches!(baton.look(PATIENCE, at(9000)), Look::End));
}
