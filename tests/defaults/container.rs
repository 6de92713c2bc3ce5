//! The layout of nginx's container image: another user, logs that are links to the standard streams, no `/var/lib/nginx`.

use freerun_testkit::eventually;

use crate::applications::{self, Protocol};
use crate::machine::{Machine, port};

#[test]
fn the_image_s_configuration_serves_logs_and_takes_uploads() {
    let Some(machine) = Machine::image("") else { return };
    let port = port();
    let app = applications::start(Protocol::Http, 0);
    let site = |text: &str| {
        machine.site(&format!(
            "server {{ listen 127.0.0.1:{port}; client_max_body_size 0;
                location / {{ return 200 {text}; }} location /app {{ proxy_pass http://{app}; }} }}"
        ));
    };
    site("one");
    let mut server = machine.serve(port);
    for size in [15 << 10, 17 << 10, 1 << 20] {
        let head = format!("POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
        let response = server.connect().send([head.into_bytes(), vec![b'x'; size]].concat()).response();
        assert_eq!(response.text(), format!("{size}\n"));
    }
    eventually("the access log is standard output", || machine.read("/stdout").contains("\"POST /app HTTP/1.1\" 200"));
    eventually("the error log is standard error", || {
        server.stderr().contains("a client request body is buffered to a temporary file /var/lib/nginx/body/#")
    });
    site("two");
    let done = machine.freerun(&[], &["-s", "reload"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(server.connect().get("/").text(), "two");
    // What `docker stop` sends with the image's STOPSIGNAL.
    server.signal(rustix::process::Signal::QUIT);
    server.ends();
}

#[test]
fn a_read_only_root_takes_uploads_where_the_folder_is_writable_and_warns_where_it_is_not() {
    let Some(machine) = Machine::image("mount -o remount,bind,ro /var/lib") else { return };
    let port = port();
    let app = applications::start(Protocol::Http, 0);
    let site = |line: &str| {
        machine
            .site(&format!("{line} server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{app}; }} }}"));
    };
    site("");
    let server = machine.serve(port);
    let post = |size: usize| {
        let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
        server.connect().send([head.into_bytes(), vec![b'x'; size]].concat()).response().status
    };
    eventually("the warning is there", || {
        server.stderr().contains("mkdir() \"/var/lib/nginx\" failed (30: Read-only file system), request bodies")
    });
    assert_eq!((post(15 << 10), post(17 << 10)), (200, 500));
    // The folder that the image has, named by the configuration.
    std::fs::create_dir(machine.path("/run/body")).expect("a folder");
    site("client_body_temp_path /run/body;");
    assert!(machine.freerun(&[], &["-s", "reload"]).status.success());
    assert_eq!(post(17 << 10), 200);
}
