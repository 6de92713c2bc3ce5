//! Request bodies of all sizes through everything that reads them, with the default folders.

use freerun_testkit::eventually;

use crate::applications::{self, MEMBERS, Protocol};
use crate::machine::{Layout, Machine, Running, port};

/// The last one that stays in memory, the first that does not, and large ones.
const SIZES: [usize; 4] = [15 << 10, 17 << 10, 1 << 20, 100 << 20];

fn upload(server: &Running<'_>, path: &str, method: &str, size: usize) -> (u16, String) {
    let mut client = server.connect();
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n"));
    let sending = client.send_meanwhile(vec![b'x'; size]);
    let response = client.response();
    sending.join().expect("the body is sent");
    (response.status, response.text())
}

#[test]
fn bodies_of_all_sizes_reach_applications_of_all_protocols() {
    for machine in Machine::each() {
        bodies_reach_applications(&machine);
    }
}

fn bodies_reach_applications(machine: &Machine) {
    let port = port();
    let site = format!(
        "error_log /var/log/nginx/error.log warn;
        server {{ listen 127.0.0.1:{port}; client_max_body_size 0; {} }}",
        applications::locations(0, |_| String::new())
    );
    let server = machine.site(&site).serve(port);
    for member in MEMBERS {
        for size in SIZES {
            let answer = upload(&server, &format!("/{member}"), "POST", size);
            assert_eq!(answer, (200, format!("{size}\n")), "{member}");
        }
    }
    assert_eq!(server.error_log().matches("a client request body is buffered to a temporary file").count(), 12);
    server.logs("[warn]");
    server.logs("a client request body is buffered to a temporary file /var/lib/nginx/body/#");
}

#[test]
fn dav_and_grpc_take_bodies_of_all_sizes() {
    for machine in Machine::each() {
        dav_and_grpc_take_bodies(&machine);
    }
}

fn dav_and_grpc_take_bodies(machine: &Machine) {
    let (port, grpc) = (port(), port());
    machine.folder_of(machine.layout().user(), "/var/lib/nginx/www");
    let site = format!(
        "server {{ listen 127.0.0.1:{port}; client_max_body_size 0;
            location / {{ root /var/lib/nginx/www; dav_methods PUT; }}
            location /grpc {{ grpc_pass grpc://127.0.0.1:{grpc}; }} }}
        server {{ listen 127.0.0.1:{grpc}; http2 on; client_max_body_size 0;
            root /var/lib/nginx/www; dav_methods PUT; }}"
    );
    let server = machine.site(&site).serve(port);
    for size in SIZES {
        for name in ["dav", "grpc"] {
            let (status, text) = upload(&server, &format!("/{name}-{size}"), "PUT", size);
            assert_eq!(status, 201, "{name} {size}: {text}");
            let stored = machine.path(&format!("/var/lib/nginx/www/{name}-{size}"));
            assert_eq!(std::fs::metadata(stored).expect("the stored file").len(), size as u64);
        }
    }
}

#[test]
fn a_folder_that_has_gone_and_a_full_disk_are_named_in_the_log() {
    let full = "mkdir $T/full && mount -t tmpfs -o size=64k,mode=700,uid=www-data none $T/full";
    let Some(machine) = Machine::new(Layout::Debian, full) else { return };
    let port = port();
    let full = machine.path("/full");
    let site = format!(
        "server {{ listen 127.0.0.1:{port};
            location / {{ proxy_pass http://{}; }}
            location /store {{ proxy_store /var/lib/nginx/stored; proxy_pass http://{}; }}
            location /full {{ client_body_temp_path {}; proxy_pass http://127.0.0.1:1; }} }}",
        applications::start(Protocol::Http, 0),
        applications::start(Protocol::Http, 200_000),
        full.display()
    );
    let server = machine.site(&site).serve(port);
    assert_eq!(upload(&server, "/full", "POST", 1 << 20).0, 507);
    server.logs(&format!("pwrite() \"{}/#", full.display()));
    server.logs("\" failed (28: No space left on device)");
    std::fs::remove_dir(machine.path("/var/lib/nginx/body")).expect("the folder is empty");
    assert_eq!(upload(&server, "/", "POST", 17 << 10).0, 500);
    server.logs("open() \"/var/lib/nginx/body\" failed (2: No such file or directory)");
    std::fs::remove_dir(machine.path("/var/lib/nginx/proxy")).expect("the folder is empty");
    assert_eq!(server.connect().get("/store").body.len(), 200_002);
    server.logs("open() \"/var/lib/nginx/proxy\" failed (2: No such file or directory) while storing a response");
    // A small body needs no folder, and a reload makes it again.
    assert_eq!(upload(&server, "/", "POST", 15 << 10).0, 200);
    server.signal(rustix::process::Signal::HUP);
    eventually("the folder is there", || machine.path("/var/lib/nginx/body").is_dir());
    assert_eq!(upload(&server, "/", "POST", 17 << 10).0, 200);
}
