//! Mounts the fixture's file system for shell scripts and benchmarks.
//!
//! `freerun-fuse-fixture MOUNTPOINT [--direct] [COMMAND]...` executes the commands, prints `ready` when mounted, then takes one
//! command a line from standard input, answering each with a line. It unmounts at the end of input, `quit`, SIGTERM or SIGINT.

use freerun_testkit::fuse::Fixture;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let direct = words.iter().any(|word| word == "--direct");
    words.retain(|word| word != "--direct");
    if words.is_empty() || words[0].starts_with('-') {
        eprintln!("usage: freerun-fuse-fixture MOUNTPOINT [--direct] [COMMAND]...");
        return ExitCode::from(2);
    }
    match run(PathBuf::from(words.remove(0)), direct, &words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("freerun-fuse-fixture: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mountpoint: PathBuf, direct: bool, commands: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT])?;
    let fixture = Fixture::mount(&mountpoint, direct)?;
    for command in commands {
        fixture.command(command)?;
    }
    say("ready")?;
    // Both threads are left alone at the end: one blocks in a read, the other in a wait for a signal.
    let (events, incoming) = std::sync::mpsc::channel();
    let signalled = events.clone();
    std::thread::spawn(move || {
        signals.forever().next();
        signalled.send(None)
    });
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if events.send(Some(line)).is_err() {
                return;
            }
        }
        // If the receiver is gone, the program has ended already.
        let _ = events.send(None);
    });
    while let Ok(Some(line)) = incoming.recv() {
        if line.trim() == "quit" {
            break;
        }
        say(&fixture.command(&line).unwrap_or_else(|why| format!("error: {why}")))?;
    }
    Ok(())
}

fn say(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
