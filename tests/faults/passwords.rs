//! Password files on a disk that hangs.

use crate::{Disk, goes_on};
use freerun_testkit::fuse::Op;
use freerun_testkit::{Setup, eventually, require};

#[test]
fn who_waits_for_a_password_file_waits_alone() {
    if !require::fuse() {
        return;
    }
    let disk = Disk::new();
    disk.site.file("users", "plain:{PLAIN}secret\n");
    let server = Setup::server(
        &disk.site,
        "location = /text { return 200 text; }
         location = /slow { auth_basic r; auth_basic_user_file @ROOT@/slow/$arg_f; try_files /fast =404; }
         location = /quick { auth_basic r; auth_basic_user_file @ROOT@/users; try_files /fast =404; }",
    )
    .freerun();
    let field = "Authorization: Basic cGxhaW46c2VjcmV0\r\n";
    for op in [Op::Open, Op::Read] {
        disk.fixture.control().hang(op, "");
        // Two of one file, one of another: the second of the first waits for the first and does not ask the disk itself.
        let mut clients: Vec<_> = ["f1", "f1", "f2"]
            .iter()
            .map(|file| {
                let mut client = server.connect();
                client.send(format!("GET /slow?f={file} HTTP/1.1\r\nHost: localhost\r\n{field}\r\n"));
                client
            })
            .collect();
        eventually("they hang", || disk.fixture.control().waiting() >= 2);
        goes_on(&server);
        assert_eq!(server.get_with("/quick", field).text(), "fast file");
        disk.fixture.control().clear();
        // The files are no password files: nobody is in them.
        for client in &mut clients {
            assert_eq!(client.response().status, 401);
        }
    }
}
