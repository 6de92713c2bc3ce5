//! The command line compared with nginx's own: the same words on the same stream, the same exit codes.

// clippy.toml allows it in tests; helper functions of an integration test are not seen as such.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

use freerun_testkit::{TempDir, require};

fn run(program: &Path, dir: &Path, args: &[&str]) -> Output {
    Command::new(program).args(args).current_dir(dir).env_remove("FREERUN_WORKER_OF_MASTER").output().unwrap()
}

fn freerun(dir: &Path, args: &[&str]) -> Output {
    run(Path::new(env!("CARGO_BIN_EXE_freerun")), dir, args)
}

/// The lines without the time and the process, which a log on stderr of Debian's nginx has in front.
fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes).into_owned();
    text.lines()
        .map(|line| match line.split_once(" [") {
            Some((time, rest)) if time.len() == 19 && time.as_bytes()[4] == b'/' => {
                let (level, rest) = rest.split_once("] ").unwrap();
                let message = rest.split_once(": ").unwrap().1;
                format!("nginx: [{level}] {message}")
            }
            _ => line.to_owned(),
        })
        .filter(|line| !line.contains("[notice]"))
        .collect()
}

/// The name and the text of each file.
const FILES: &[(&str, &str)] = &[
    (
        "good.conf",
        "pid run.pid; error_log error.log; events {} http { access_log off; server { listen 127.0.0.1:1; } }",
    ),
    ("unknown.conf", "events {}\nfoo bar;\n"),
    ("include.conf", "events {}\ninclude absent.conf;\n"),
    ("glob.conf", "events {}\ninclude absent-*.conf;\npid run.pid;\n"),
    ("context.conf", "events {}\nlisten 80;\n"),
    ("brace.conf", "events {\n"),
    ("extra.conf", "events {}\n}\n"),
    ("semicolon.conf", "events {}\nuser root\n"),
    ("block.conf", "events;\n"),
    ("noblock.conf", "events {}\ndaemon {}\n"),
    ("arguments.conf", "events {}\ndaemon on off;\n"),
    ("duplicate.conf", "events {}\ndaemon on;\ndaemon on;\n"),
    ("flag.conf", "events {}\ndaemon maybe;\n"),
    ("events.conf", "pid run.pid;\n"),
    ("events2.conf", "events {}\nevents {}\n"),
    ("level.conf", "events {}\nerror_log x loud;\n"),
    ("log.conf", "events {}\nerror_log no/such/dir/x;\npid run.pid;\n"),
    ("pid.conf", "events {}\npid no/such/dir/x;\n"),
    ("quote.conf", "events {}\npid \"run.pid;\n"),
    ("first.conf", "events {}\nfoo;\nhttp {\n"),
];

fn folder() -> TempDir {
    let dir = TempDir::new("cli");
    for (name, text) in FILES {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    std::fs::write(dir.path().join("empty.pid"), "").unwrap();
    dir
}

/// For each command line nginx's lines must be among freerun's, in order, and the exit codes must be equal.
#[test]
fn messages_and_exit_codes_are_those_of_nginx() {
    if !require::nginx() {
        return;
    }
    let nginx = require::nginx_path().unwrap();
    let dir = folder();
    let mut cases: Vec<Vec<&str>> = [
        &["-x"][..],
        &["--hlep"],
        &["foo"],
        &["-c"],
        &["-e"],
        &["-g"],
        &["-p"],
        &["-s"],
        &["-s", "foo"],
        &["-sfoo"],
        &["-tc"],
        &["-p", ".", "-c", "absent.conf"],
        &["-p", ".", "-tqc", "good.conf"],
        &["-p", ".", "-tc", "good.conf", "-g", "foo;"],
        &["-p", ".", "-tc", "good.conf", "-g", "daemon off; daemon on;"],
        &["-p", ".", "-c", "unknown.conf"],
        &["-p", ".", "-c", "unknown.conf", "-s", "stop"],
        &["-p", ".", "-c", "good.conf", "-s", "stop"],
        &["-p", ".", "-c", "good.conf", "-g", "pid empty.pid;", "-s", "stop"],
        &["-p", ".", "-c", "unknown.conf", "-T"],
        &["-p", ".", "-qtc", "unknown.conf"],
    ]
    .iter()
    .map(|case| case.to_vec())
    .collect();
    cases.extend(FILES.iter().map(|(name, _)| vec!["-p", ".", "-t", "-c", name]));
    let mut wrong = Vec::new();
    for case in cases {
        let theirs = run(&nginx, dir.path(), &case);
        // nginx makes the pid file at -t; the next case starts afresh.
        let _ = std::fs::remove_file(dir.path().join("run.pid"));
        let ours = freerun(dir.path(), &case);
        let (expected, got) = (lines(&theirs.stderr), lines(&ours.stderr));
        let mut rest = got.iter();
        if !expected.iter().all(|line| rest.any(|own| own == line)) || theirs.status.code() != ours.status.code() {
            wrong.push(format!(
                "{case:?}\n  nginx ({:?}): {expected:#?}\n  freerun ({:?}): {got:#?}",
                theirs.status.code(),
                ours.status.code()
            ));
        }
        assert_eq!(theirs.stdout, ours.stdout, "{case:?}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_dump_is_that_of_nginx() {
    let dir = TempDir::new("cli");
    std::fs::create_dir(dir.path().join("d")).unwrap();
    for (name, text) in [
        ("main.conf", "events {} pid run.pid; error_log e.log;\ninclude d/*.conf;\ninclude d/a.conf;"),
        ("d/b.conf", "# b\n"),
        ("d/a.conf", "# a, without a line end"),
    ] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let args = ["-p", ".", "-c", "main.conf", "-T", "-g", "daemon off;"];
    let ours = freerun(dir.path(), &args);
    let told = String::from_utf8_lossy(&ours.stderr).into_owned();
    assert!(told.ends_with("nginx: configuration file ./main.conf test is successful\n"), "{told}");
    let dump = String::from_utf8(ours.stdout).unwrap();
    assert!(
        dump.contains("# configuration file ./d/a.conf:\n# a, without a line end\n# configuration file "),
        "{dump}"
    );
    if require::nginx() {
        let theirs = run(&require::nginx_path().unwrap(), dir.path(), &args);
        assert_eq!(String::from_utf8_lossy(&theirs.stdout), dump);
    }
}

#[test]
fn a_test_leaves_no_pid_file_behind() {
    let dir = folder();
    let out = freerun(dir.path(), &["-p", ".", "-t", "-c", "good.conf"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!dir.path().join("run.pid").exists());
}

#[test]
fn the_help_comes_on_stdout_and_a_wrong_command_with_the_right_one() {
    let dir = TempDir::new("cli");
    for (arg, wanted) in
        [("--help", "       freerun reference [--check] DIR"), ("--version", "nginx version: nginx/1.31.5")]
    {
        let out = freerun(dir.path(), &[arg]);
        let told = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success() && out.stderr.is_empty());
        assert!(told.lines().any(|line| line == wanted), "{arg}: {told}");
    }
    let out = freerun(dir.path(), &["sreve", "."]);
    assert_eq!(out.status.code(), Some(1));
    let told = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(told.starts_with("nginx: invalid option: \"sreve\"\nhelp: did you mean \"serve\"?"), "{told}");
}

#[test]
fn versions_come_on_stderr_with_the_line_tools_look_for() {
    let dir = TempDir::new("cli");
    for (arg, wanted) in [
        ("-v", "nginx version: nginx/1.31.5"),
        ("-V", "configure arguments: --prefix="),
        ("-h", "Usage: freerun [-?hvVtTq]"),
        ("-?", "Commands: serve, migrate, explain, reference, completions, manual."),
    ] {
        let out = freerun(dir.path(), &[arg]);
        let told = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success() && out.stdout.is_empty());
        assert!(told.starts_with("freerun version: freerun/"), "{told}");
        assert!(told.lines().any(|line| line.starts_with(wanted)), "{arg}: {told}");
    }
}

/// The commands of the long help with the names of their options; the program without a command comes first.
fn listed() -> Vec<(String, Vec<String>)> {
    let dir = TempDir::new("cli");
    let help = String::from_utf8(freerun(dir.path(), &["--help"]).stdout).unwrap();
    let mut commands = vec![(String::new(), Vec::new())];
    for line in help.split_once("\nOptions:\n").unwrap().1.lines() {
        if let Some(name) = line.strip_prefix("freerun ") {
            commands.push((name.to_owned(), Vec::new()));
        } else if let Some((names, _)) = line.strip_prefix("  -").and_then(|rest| rest.split_once([' ', ':'])) {
            let names = format!("-{names}");
            commands.last_mut().unwrap().1.extend(names.split(',').map(str::to_owned));
        }
    }
    assert!(commands.len() > 5 && commands.iter().all(|(_, options)| !options.is_empty()), "{commands:?}");
    commands
}

#[test]
fn each_option_of_the_help_is_one_of_its_command() {
    let dir = TempDir::new("cli");
    for (command, options) in listed() {
        for option in options {
            // Behind it is a value, if it takes one, and then an option that there is not, so that nothing is started.
            let args = [&command, &option, "\u{1}", "--none"];
            let out = freerun(dir.path(), if command.is_empty() { &args[1..] } else { &args });
            let told = String::from_utf8_lossy(&out.stderr);
            let letter = option.trim_start_matches('-');
            for unknown in [format!("invalid option: \"{letter}\""), format!("invalid option '{option}'")] {
                assert!(!told.contains(&unknown), "{command} {option}: {told}");
            }
        }
    }
}

#[test]
fn a_shell_completes_commands_options_and_values() {
    let dir = TempDir::new("cli");
    let script = |shell| String::from_utf8(freerun(dir.path(), &["completions", shell]).stdout).unwrap();
    for shell in ["zsh", "fish"] {
        let Some(program) = require::program(shell) else { continue };
        let file = dir.path().join(shell);
        std::fs::write(&file, script(shell)).unwrap();
        let out = Command::new(program).arg("-n").arg(&file).output().unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let file = dir.path().join("bash");
    std::fs::write(&file, script("bash")).unwrap();
    let complete = |words: &[&str]| {
        let program =
            "source \"$1\"; shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _freerun; echo \"${COMPREPLY[*]}\"";
        let out = Command::new("bash").args(["-c", program, "bash"]).arg(&file).arg("freerun").args(words).output();
        String::from_utf8(out.unwrap().stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete(&["mi"]), "migrate");
    assert_eq!(complete(&["-s", "re"]), "reopen reload");
    assert_eq!(complete(&["serve", "--fo"]), "--follow-links");
    assert_eq!(complete(&["explain", "proxy_pass_h"]), "proxy_pass_header");
    assert_eq!(complete(&["completions", ""]), "bash zsh fish");
    for (command, options) in listed() {
        for option in options.iter().filter(|option| option.starts_with("--")) {
            let words = [&command, option.as_str()];
            let got = complete(if command.is_empty() { &words[1..] } else { &words });
            assert!(got.split(' ').any(|word| word == option), "{command} {option}: {got}");
        }
    }
}

#[test]
fn the_manual_page_is_well_formed() {
    let dir = TempDir::new("cli");
    let file = dir.path().join("freerun.8");
    std::fs::write(&file, freerun(dir.path(), &["manual"]).stdout).unwrap();
    let Some(mandoc) = require::program("mandoc") else { return };
    let out = Command::new(mandoc).args(["-T", "lint"]).arg(&file).output().unwrap();
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success() && told.is_empty(), "{told}");
}
