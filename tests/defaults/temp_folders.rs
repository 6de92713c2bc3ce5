//! The compiled-in folders for temporary files: who makes them, whose they are, and what is said if they cannot be made.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use freerun_testkit::eventually;

use crate::applications::{self, Protocol};
use crate::machine::{Layout, Machine, UNPRIVILEGED, port};

const FOLDERS: [&str; 5] = ["body", "fastcgi", "proxy", "scgi", "uwsgi"];

fn text(output: &[u8]) -> String {
    String::from_utf8_lossy(output).into_owned()
}

#[test]
fn a_test_of_the_configuration_makes_all_of_them_for_the_worker_s_user_as_nginx_does() {
    let Some(machine) = Machine::debian() else { return };
    machine.site(&format!("server {{ listen 127.0.0.1:{}; }}", port()));
    // nginx first: what it makes is what has to be found.
    let programs = ["nginx".to_owned(), crate::machine::program()];
    for program in programs.iter().filter(|program| *program != "nginx" || freerun_testkit::require::nginx()) {
        let done = machine.run(&[], &[program, "-t"]);
        assert!(done.status.success(), "{program} {}", text(&done.stderr));
        let owner = text(&machine.run(&[], &["id", "-u", "www-data"]).stdout);
        for folder in FOLDERS {
            let path = machine.path(&format!("/var/lib/nginx/{folder}"));
            let meta = std::fs::metadata(&path).unwrap_or_else(|error| panic!("{program} {folder}: {error}"));
            assert_eq!(meta.uid().to_string(), owner.trim(), "{program} {folder}");
            assert_eq!(meta.permissions().mode() & 0o7777, 0o700, "{program} {folder}");
            std::fs::remove_dir(path).expect("an empty folder");
        }
    }
}

#[test]
fn folders_above_a_default_one_are_made_too() {
    let Some(machine) = Machine::new(Layout::Container, "rm -rf $T/var/lib/nginx") else { return };
    std::fs::write(machine.path("/etc/nginx/nginx.conf"), "events {} http { server { listen unix:/run/s; } }")
        .expect("");
    let done = machine.freerun(&[], &["-t"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert!(FOLDERS.iter().all(|folder| machine.path(&format!("/var/lib/nginx/{folder}")).is_dir()));
}

#[test]
fn what_cannot_be_made_is_a_warning_where_it_is_a_default_and_an_error_where_it_is_named() {
    let Some(machine) = Machine::debian() else { return };
    let port = port();
    let home = machine.home();
    let file = format!("{home}/nginx.conf");
    let conf = |temp: &str| {
        let text = format!(
            "pid {home}/pid; error_log {home}/error.log;
            events {{}} http {{ access_log off; {temp}
                server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{}; }} }} }}",
            applications::start(Protocol::Http, 0)
        );
        std::fs::write(&file, text).expect("a configuration");
    };
    conf("");
    let done = machine.freerun(&UNPRIVILEGED, &["-t", "-c", &file]);
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(
        said.contains("[warn] mkdir() \"/var/lib/nginx/body\" failed (13: Permission denied), request bodies"),
        "{said}"
    );
    assert!(said.contains("client_body_temp_path PATH;"), "{said}");
    assert!(
        said.contains("[warn] mkdir() \"/var/lib/nginx/proxy\" failed (13: Permission denied), responses"),
        "{said}"
    );
    // Nothing in this configuration uses the others.
    assert!(!said.contains("fastcgi"), "{said}");

    let server = machine.start(&UNPRIVILEGED, &["-c", &file, "-g", "daemon off;"], port);
    let post = |size: usize| {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
        server.connect().send([head.into_bytes(), vec![b'x'; size]].concat()).response()
    };
    assert_eq!(post(15 << 10).text(), format!("{}\n", 15 << 10));
    assert_eq!(post(17 << 10).status, 500);
    assert!(server.stderr().contains("[warn] mkdir() \"/var/lib/nginx/body\" failed (13"), "{}", server.stderr());
    let log = || std::fs::read_to_string(format!("{home}/error.log")).expect("the log");
    eventually("the folder is named in the log", || {
        log().contains("open() \"/var/lib/nginx/body\" failed (2: No such file or directory)")
    });
    drop(server);

    conf("client_body_temp_path /var/lib/nginx/body;");
    let done = machine.freerun(&UNPRIVILEGED, &["-t", "-c", &file]);
    assert!(!done.status.success());
    assert!(text(&done.stderr).contains("[emerg] mkdir() \"/var/lib/nginx/body\" failed (13: Permission denied)"));

    conf(&format!("client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;"));
    let server = machine.start(&UNPRIVILEGED, &["-c", &file, "-g", "daemon off;"], port);
    let size = 17 << 10;
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
    let response = server.connect().send([head.into_bytes(), vec![b'x'; size]].concat()).response();
    assert_eq!(response.text(), format!("{size}\n"));
    assert!(!std::fs::read_to_string(format!("{home}/error.log")).unwrap_or_default().contains("[crit] mkdir"));
}

#[test]
fn a_folder_of_somebody_else_and_a_file_in_its_place_are_warnings_too() {
    let Some(machine) = Machine::debian() else { return };
    let file = machine.path("/nginx.conf").display().to_string();
    let conf = format!(
        "pid off; events {{}} http {{ access_log off;
            server {{ listen 127.0.0.1:{}; location / {{ proxy_pass http://127.0.0.1:1; }} }} }}",
        port()
    );
    std::fs::write(&file, conf).expect("a configuration");
    assert!(machine.run(&[], &["mkdir", "-m", "700", "/var/lib/nginx/body", "/var/lib/nginx/proxy"]).status.success());
    let said = text(&machine.freerun(&UNPRIVILEGED, &["-t", "-c", &file]).stderr);
    assert!(said.contains("[warn] access() \"/var/lib/nginx/body\" failed (13: Permission denied)"), "{said}");
    std::fs::remove_dir(machine.path("/var/lib/nginx/body")).expect("an empty folder");
    std::fs::write(machine.path("/var/lib/nginx/body"), "").expect("a file");
    let said = text(&machine.freerun(&[], &["-t", "-c", &file]).stderr);
    assert!(said.contains("[warn] open() \"/var/lib/nginx/body\" failed (20: Not a directory)"), "{said}");
}
