//! `freerun migrate` and `freerun explain`: what they print, and the exit codes that scripts go by.

use freerun_testkit::{Kind, ProgramOutput, TempDir, require, run};
use std::fs;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(20);

fn freerun(arguments: &[&str]) -> ProgramOutput {
    run(Kind::Freerun, arguments, TIME).expect("the program starts")
}

/// The report about a configuration, with further arguments.
fn migrate(text: &str, further: &[&str]) -> (ProgramOutput, String) {
    let dir = TempDir::new("migrate");
    let path = dir.path().join("nginx.conf");
    fs::write(&path, text).expect("writing");
    let path = path.display().to_string();
    let mut arguments = vec!["migrate", "-c", &path];
    arguments.extend(further);
    (freerun(&arguments), path)
}

#[test]
fn the_exit_code_says_whether_something_differs_or_is_missing() {
    if !require::freerun() {
        return;
    }
    let (done, path) = migrate("events {}\nhttp { server { listen 127.0.0.1:1; } }\n", &[]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    let end = format!("4 of 4 directives are accepted; start with:\n  freerun -c {path}\n");
    assert!(done.stdout.ends_with(&end), "{}", done.stdout);
    // How it differs in principle is nothing that was written.
    let (done, _) = migrate("events {}\nhttp { tcp_nopush on; types_hash_max_size 2048; access_log off; }\n", &[]);
    assert_eq!(done.code, Some(0), "{}", done.stdout);
    let (done, _) = migrate("events {}\nhttp { ssl_protocols TLSv1.1 TLSv1.2; }\n", &[]);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    let (done, path) = migrate("events {}\nhttp {\n perl_modules a;\n include none;\n}\n", &[]);
    assert_eq!(done.code, Some(2), "{}", done.stdout);
    let folder = path.strip_suffix("nginx.conf").expect("the file's name");
    assert!(done.stdout.starts_with(&format!("{path}: 3 directives in 1 file\nPlaces are below {folder}\n")));
    assert!(done.stdout.contains("perl_modules                    nginx.conf:3  (ngx_http_perl_module)\n"));
    assert!(done.stdout.contains("/none\" failed (2: No such file or directory)\n"), "{}", done.stdout);
    let done = freerun(&["migrate", "-c", "/no/such/file"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(3), ""));
    assert!(done.stderr.contains("open() \"/no/such/file\" failed"), "{}", done.stderr);
    assert_eq!(freerun(&["migrate", "--jsn"]).code, Some(3));
}

#[test]
fn no_start_is_promised_that_would_fail() {
    if !require::freerun() {
        return;
    }
    let text = "events {}\nhttp {\n include a.conf;\n include b.conf;\n server { access_log /dev/null nowhere; }\n}\n";
    let (done, path) = migrate(text, &[]);
    assert_eq!(done.code, Some(2), "{}", done.stdout);
    let end = format!(
        "4 of 4 directives are accepted; a server would not start on this machine: 3 things are missing (above); then try:\n  \
         freerun -c {path} -t\n"
    );
    assert!(done.stdout.ends_with(&end), "{}", done.stdout);
    let (done, _) = migrate("events {}\nhttp {}\nserver { listen 127.0.0.1:1; }\n", &[]);
    assert!(done.stdout.contains("\n3 of 4 directives are accepted; take out"), "{}", done.stdout);
}

#[test]
fn a_quiet_report_has_what_needs_attention() {
    if !require::freerun() {
        return;
    }
    let (done, _) = migrate(
        "events {}\nhttp { ssl_protocols TLSv1.1 TLSv1.2; tcp_nopush on; root /x; pcre_jit on; }\n",
        &["--quiet"],
    );
    assert!(done.stdout.contains("ssl_protocols") && !done.stdout.contains("root"), "{}", done.stdout);
    assert!(!done.stdout.contains("tcp_nopush"), "{}", done.stdout);
}

#[test]
fn a_group_is_not_meant_by_the_name_of_its_own_server() {
    if !require::freerun() {
        return;
    }
    let text = "events {}\nhttp { upstream relay.invalid { server relay.invalid:3000; } }\n";
    let (done, _) = migrate(text, &[]);
    assert!(done.stdout.contains("host not found in upstream \"relay.invalid:3000\""), "{}", done.stdout);
    assert!(!done.stdout.contains("did you mean"), "{}", done.stdout);
}

#[test]
fn programs_get_json() {
    if !require::freerun() {
        return;
    }
    let (done, path) = migrate("events {}\nhttp { sendfile perhaps; }\n", &["--json"]);
    assert_eq!(done.code, Some(2));
    for part in ["\"accepted\": 2", "\"directives\": 3", "invalid value \\\"perhaps\\\"", &format!("\"{path}:2\"")] {
        assert!(done.stdout.contains(part), "no {part} in {}", done.stdout);
    }
}

#[test]
fn names_are_explained() {
    if !require::freerun() {
        return;
    }
    let done = freerun(&["explain", "listen"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert!(done.stdout.starts_with("listen\n") && done.stdout.contains("server in stream"), "{}", done.stdout);
    let done = freerun(&["explain", "$host"]);
    assert!(done.code == Some(0) && done.stdout.starts_with("$host\n"), "{}", done.stdout);
    let done = freerun(&["explain", "WebSocket"]);
    assert!(done.code == Some(0) && done.stdout.starts_with("Node with WebSocket\n"), "{}", done.stdout);
    let done = freerun(&["explain", "half-close"]);
    assert!(done.code == Some(0) && done.stdout.contains("these speak of it:\n\n  "), "{}", done.stdout);
    let done = freerun(&["explain", "sendfil"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""));
    assert_eq!(done.stderr, "freerun: unknown directive \"sendfil\"; did you mean \"sendfile\"?\n");
}
