//! `freerun -t --lint`: the lines, the JSON and the exit codes that editors and scripts go by.

use freerun_testkit::{Kind, ProgramOutput, TempDir, require, run};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(20);

/// The result of a lint of a configuration, with further arguments, and the path of the file.
fn lint(dir: &TempDir, text: &str, further: &[&str]) -> (ProgramOutput, String) {
    let path = dir.path().join("nginx.conf");
    fs::write(&path, text).expect("writing");
    let path = path.display().to_string();
    let mut arguments = vec!["-t", "--lint", "-c", &path];
    arguments.extend(further);
    (run(Kind::Freerun, &arguments, TIME).expect("the program starts"), path)
}

/// A configuration that can be tested in the folder.
fn whole(dir: &TempDir, server: &str) -> String {
    let dir = dir.path().display();
    format!(
        "pid {dir}/pid;\nerror_log {dir}/error.log;\nevents {{ }}\nhttp {{\n    access_log off;\n    server {{\n        \
         listen 127.0.0.1:1;\n{server}\n    }}\n}}\n"
    )
}

#[test]
fn findings_are_lines_for_editors_and_an_exit_code() {
    if !require::freerun() {
        return;
    }
    let dir = TempDir::new("lint");
    let (done, _) = lint(&dir, &whole(&dir, "        root /srv;"), &[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{}", done.stderr);
    assert!(done.stderr.contains("test is successful"), "{}", done.stderr);
    let server = "        return 301 https://a.example$uri;\n        location /a { alias /srv/; }";
    let (done, path) = lint(&dir, &whole(&dir, server), &[]);
    let expected = format!(
        "{path}:8:20: error: a client chooses what $uri adds to the redirect: its escapes are resolved [decoded-path-in-redirect]\n\
         {path}:9:9: error: \"/a../\" leads out of /srv/ [alias-traversal]\n"
    );
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), expected.as_str()), "{}", done.stderr);
    let summary = "nginx: 2 errors and 0 warnings of the lint; \"freerun explain NAME\" has reason and fix\n";
    assert!(done.stderr.contains("test is successful") && done.stderr.ends_with(summary), "{}", done.stderr);
    let (done, _) = lint(&dir, &whole(&dir, server), &["-q"]);
    assert!(!done.stderr.contains("of the lint") && !done.stderr.contains("successful"), "{}", done.stderr);
    let silent = "        # lint: allow decoded-path-in-redirect\n        return 301 https://a.example$uri;";
    let (done, _) = lint(&dir, &whole(&dir, silent), &[]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{}", done.stderr);
}

#[test]
fn findings_as_json_have_reason_and_fix() {
    if !require::freerun() {
        return;
    }
    let dir = TempDir::new("lint");
    let (done, path) = lint(&dir, &whole(&dir, "        location /a/ { alias /srv; }"), &["--json", "-q"]);
    let json: serde_json::Value = serde_json::from_str(&done.stdout).expect("JSON");
    let found = &json[0];
    assert_eq!((done.code, json.as_array().map(Vec::len)), (Some(1), Some(1)), "{}", done.stdout);
    assert_eq!((&found["file"], &found["line"], &found["column"]), (&path.into(), &8.into(), &30.into()));
    assert_eq!((&found["name"], &found["level"]), (&"alias-slash".into(), &"warning".into()));
    for key in ["message", "reason", "fix"] {
        assert!(found[key].as_str().is_some_and(|text| text.len() > 10), "{key}: {}", done.stdout);
    }
    let (done, _) = lint(&dir, &whole(&dir, ""), &["--json"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "[]\n"), "{}", done.stderr);
}

#[test]
fn a_failed_test_is_a_finding_and_the_rest_is_looked_at() {
    if !require::freerun() {
        return;
    }
    let dir = TempDir::new("lint");
    let text = whole(&dir, "        listen 127.0.0.1:1 nonsense;\n        location /a/ { alias /srv; }");
    let (done, path) = lint(&dir, &text, &[]);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert!(done.stderr.contains("test failed"), "{}", done.stderr);
    let first = format!("{path}:8:28: error: invalid parameter \"nonsense\" [test]\n");
    assert!(done.stdout.starts_with(&first) && done.stdout.ends_with("[alias-slash]\n"), "{}", done.stdout);
    // Behind an error of the syntax nothing is known.
    let (done, path) = lint(&dir, "events { }\nhttp { upstream a { server 127.0.0.1:1; }\n", &[]);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert!(done.stdout.starts_with(&path) && done.stdout.ends_with(" [test]\n"), "{}", done.stdout);
    assert_eq!(done.stdout.lines().count(), 1, "{}", done.stdout);
}

#[test]
fn included_files_and_keys_are_looked_at() {
    if !require::freerun() {
        return;
    }
    let dir = TempDir::new("lint");
    let key = dir.path().join("a.key");
    let included = dir.path().join("part.conf");
    fs::write(&key, "key").expect("writing");
    fs::write(&included, "# head\nssl_certificate_key a.key;\n").expect("writing");
    let text = whole(&dir, "        include part.conf;\n        location /a/ { include part.conf; }");
    for (mode, is_found) in [(0o644, true), (0o600, false)] {
        fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("permissions");
        let (done, _) = lint(&dir, &text, &[]);
        let line = format!(
            "{}:2:21: error: every user of the machine may read the key a.key [key-readable]\n",
            included.display()
        );
        assert_eq!(done.stdout.matches(&line).count(), usize::from(is_found), "{mode:o}: {}", done.stdout);
    }
}

#[test]
fn options_of_the_lint_belong_to_the_test() {
    if !require::freerun() {
        return;
    }
    for (arguments, help) in [
        (&["--lint"][..], "help: \"--lint\" goes with \"-t\""),
        (&["-T", "--lint"], "help: \"--lint\" goes with \"-t\""),
        (&["-t", "--json"], "help: \"--json\" goes with \"-t --lint\" and with \"freerun migrate\""),
    ] {
        let done = run(Kind::Freerun, arguments, TIME).expect("the program starts");
        assert_eq!(done.code, Some(1), "{arguments:?}: {}", done.stderr);
        assert!(done.stderr.contains(help), "{arguments:?}: {}", done.stderr);
    }
    let done = run(Kind::Freerun, &["explain", "alias-traversal"], TIME).expect("the program starts");
    assert!(done.stdout.starts_with("alias-traversal\n  error of \"freerun -t --lint\""), "{}", done.stdout);
}
