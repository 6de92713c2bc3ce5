//! Lines of access logs that a worker has gathered while the binary is changed.

use std::fs;
use std::path::PathBuf;

use freerun_testkit::daemon::{Daemon, ends, signal};
use freerun_testkit::eventually;
use rustix::process::Signal;

const REQUESTS: usize = 6;

/// A server that gathers lines, in a plain log and in a compressed one.
fn daemon() -> Daemon {
    let http = "log_format plain '$request_uri';
        server { listen 127.0.0.1:@PORT@; access_log @DIR@/a.log plain buffer=32k; access_log @DIR@/a.gz plain gzip flush=1h;
            return 204; }";
    Daemon::run("worker_processes 2;", http)
}

/// Makes requests below this path, and returns the lines that they have in a log.
fn requests(daemon: &Daemon, below: &str) -> Vec<String> {
    let targets: Vec<String> = (0..REQUESTS).map(|number| format!("{below}/{number}")).collect();
    targets.iter().for_each(|target| assert_eq!(daemon.get(target).status, 204));
    targets
}

/// Renames both logs, as before they are rotated, and returns their new paths.
fn rename(daemon: &Daemon, to: &str) -> [PathBuf; 2] {
    ["log", "gz"].map(|kind| {
        let old = daemon.path(&format!("{to}.{kind}"));
        fs::rename(daemon.path(&format!("a.{kind}")), &old).expect("renaming");
        old
    })
}

/// The lines of a log, in order.
fn lines(path: &PathBuf) -> Vec<String> {
    let bytes = fs::read(path).unwrap_or_default();
    let mut text = String::new();
    // A member of gzip that is not whole yet gives what there is of it.
    let _ = if path.extension().is_some_and(|kind| kind == "gz") {
        std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(&bytes[..]), &mut text)
    } else {
        std::io::Read::read_to_string(&mut &bytes[..], &mut text)
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Both logs have these lines and no others, now or soon.
#[track_caller]
fn have(paths: &[PathBuf; 2], wanted: &[String]) {
    for path in paths {
        eventually("the lines are there", || lines(path).len() >= wanted.len());
        assert_eq!(lines(path), wanted, "{}", path.display());
    }
}

/// Whether the process has this file open.
fn has_open(process: u32, path: &PathBuf) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd")).expect("a process that runs");
    files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|target| target == *path))
}

/// The old worker has the files open that were there before, whatever they are called by now.
#[test]
fn what_the_old_worker_has_gathered_stays_in_the_files_that_were_renamed() {
    for end in [Signal::WINCH, Signal::QUIT] {
        let daemon = daemon();
        let before = requests(&daemon, "/before");
        let renamed = rename(&daemon, "old");
        let (old, new) = daemon.change();
        signal(old, end);
        eventually("the old worker has ended", || daemon.workers(old).is_empty());
        have(&renamed, &before);
        let after = requests(&daemon, "/after");
        for master in [old, new] {
            signal(master, Signal::QUIT);
            ends(master);
        }
        have(&["log", "gz"].map(|kind| daemon.path(&format!("a.{kind}"))), &after);
        have(&renamed, &before);
    }
}

/// While there are two masters, each of them has its own workers reopen their logs.
#[test]
fn logs_are_rotated_while_two_binaries_serve() {
    let daemon = daemon();
    let masters = daemon.change();
    for rotation in 0..20 {
        let targets = requests(&daemon, &format!("/{rotation}"));
        let renamed = rename(&daemon, &format!("{rotation}"));
        for master in [masters.0, masters.1] {
            signal(master, Signal::USR1);
        }
        have(&renamed, &targets);
        // A worker without lines is not heard of: the next lines may only come when it has reopened its files, too.
        let workers = [daemon.workers(masters.0), daemon.workers(masters.1)].concat();
        eventually("new files", || workers.iter().all(|worker| renamed.iter().all(|path| !has_open(*worker, path))));
    }
}
