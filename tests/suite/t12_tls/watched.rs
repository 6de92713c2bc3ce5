//! Certificates that are renewed while the server runs: `ssl_certificate … watch`.

use freerun_testkit::{Kind, Setup, TempDir, TestServer, Tls, TlsVersion, certificates, check, eventually, require};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A folder as certbot has it: `live` has symbolic links to files in folders with numbers.
pub(super) struct Renewals {
    dir: TempDir,
}

impl Renewals {
    /// A folder whose links lead to the certificate of this name.
    pub(super) fn of(name: &str) -> Renewals {
        let renewals = Renewals { dir: TempDir::new("renewals") };
        renewals.switch(name);
        renewals
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Has both links lead to another pair, each at once.
    pub(super) fn switch(&self, name: &str) {
        self.link("own.crt", &certificates().path(&format!("{name}.crt")));
        self.link("own.key", &certificates().path(&format!("{name}.key")));
    }

    fn link(&self, name: &str, to: &Path) {
        let new = self.path("new");
        symlink(to, &new).expect("a link");
        fs::rename(&new, self.path(name)).expect("another name");
    }

    /// A configuration with one server that watches the pair.
    pub(super) fn setup(&self, lines: &str) -> Setup {
        let dir = self.dir.path().display();
        Setup::new().http(&format!(
            "server {{ listen 127.0.0.1:@PORT@ ssl; {lines} ssl_session_timeout 1h;
                       ssl_certificate {dir}/own.crt watch=100ms; ssl_certificate_key {dir}/own.key;
                       location = /status {{ status; }} location / {{ return 200 '$ssl_session_reused'; }} }}"
        ))
    }
}

fn served(server: &TestServer) -> Vec<u8> {
    server.connect_tls(&Tls::new()).agreed().certificates[0].clone()
}

#[track_caller]
fn comes(server: &TestServer, name: &str) {
    let wanted = certificates().der(&format!("{name}.crt"));
    eventually(&format!("the certificate {name}"), || served(server) == wanted);
}

fn times(server: &TestServer, text: &str) -> usize {
    server.error_log().matches(text).count()
}

#[test]
fn a_renewed_pair_is_used_and_sessions_go_on() {
    if !require::freerun() {
        return;
    }
    for main in ["", "master_process off;"] {
        let renewals = Renewals::of("ec");
        let server = renewals.setup("ssl_session_cache shared:s:1m;").main(main).run();
        let clients = TlsVersion::ALL.map(|version| Tls::new().only(version).resuming());
        for tls in &clients {
            assert_eq!(server.connect_tls(tls).get("/").text(), ".");
        }
        let mut kept = server.connect_tls(&Tls::new());
        assert_eq!(kept.get("/").text(), ".");
        renewals.switch("other");
        comes(&server, "other");
        assert_eq!(kept.get("/").text(), ".", "a connection that is there goes on");
        for tls in &clients {
            assert_eq!(server.connect_tls(tls).get("/").text(), "r", "{main}");
        }
        let until = certificates().says("other.crt", &["-enddate"]);
        server.logs(&format!("own.crt\" was replaced: for other.example.com, until {until}"));
        assert_eq!(times(&server, "was replaced"), 1);
        let mut client = server.connect_tls(&Tls::new());
        let status: serde_json::Value = serde_json::from_slice(&client.get("/status").body).expect("JSON");
        let told = &status["tls"]["certificates"][0];
        assert_eq!(
            (&told["subject"], &told["names"][0]),
            (&"CN=other.example.com,O=Tests".into(), &"other.example.com".into())
        );
        // Another kind of key.
        renewals.switch("rsa");
        comes(&server, "rsa");
    }
}

#[test]
fn a_pair_is_used_when_both_files_have_come() {
    if !require::freerun() {
        return;
    }
    let renewals = Renewals::of("ec");
    let server = renewals.setup("").run();
    renewals.link("own.key", &certificates().path("other.key"));
    server.logs("key values mismatch); the certificate in use stays");
    assert_eq!(served(&server), certificates().der("ec.crt"));
    renewals.link("own.crt", &certificates().path("other.crt"));
    comes(&server, "other");
    // A chain that cannot be read, and the certificate of another key.
    fs::write(renewals.path("bad"), "-----BEGIN CERTIFICATE-----\nbad\n").expect("a file");
    renewals.link("own.crt", &renewals.path("bad"));
    server.logs("PEM_read_bio_X509_AUX() failed");
    renewals.link("own.crt", &certificates().path("rsa.crt"));
    server.logs("key type mismatch");
    assert_eq!(served(&server), certificates().der("other.crt"));
    // What has come back to what is used is nothing to tell of.
    renewals.link("own.crt", &certificates().path("other.crt"));
    fs::remove_file(renewals.path("own.key")).expect("removed");
    server.logs("No such file or directory");
    assert_eq!(served(&server), certificates().der("other.crt"));
    for text in ["key values mismatch", "key type mismatch", "No such file", "was replaced"] {
        assert_eq!(times(&server, text), 1, "{text}: {}", server.error_log());
    }
    renewals.switch("ec");
    comes(&server, "ec");
}

#[test]
fn files_that_are_written_again_in_place_are_noticed() {
    if !require::freerun() {
        return;
    }
    let renewals = Renewals::of("ec");
    for name in ["own.crt", "own.key"] {
        fs::remove_file(renewals.path(name)).expect("removed");
    }
    let write = |from: &str| {
        for ending in ["key", "crt"] {
            let text = certificates().text(&format!("{from}.{ending}"));
            fs::write(renewals.path(&format!("own.{ending}")), text).expect("a file");
        }
    };
    write("ec");
    let server = renewals.setup("").run();
    write("rsa");
    comes(&server, "rsa");
    write("other");
    comes(&server, "other");
}

#[test]
fn what_cannot_be_read_leaves_the_old_pair() {
    if !require::freerun() {
        return;
    }
    let renewals = Renewals::of("ec");
    let server = renewals.setup("").run();
    fs::create_dir(renewals.path("folder")).expect("a folder");
    renewals.link("own.crt", &renewals.path("folder"));
    server.logs("Is a directory");
    // Nobody writes into it: who opened it would wait.
    rustix::fs::mknodat(rustix::fs::CWD, renewals.path("fifo"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
        .expect("a FIFO");
    renewals.link("own.crt", &renewals.path("fifo"));
    server.logs("Invalid argument");
    assert_eq!(served(&server), certificates().der("ec.crt"));
    renewals.switch("other");
    comes(&server, "other");
}

#[test]
fn keys_of_root_are_renewed_for_workers_without_rights() {
    if !require::freerun() || !require::root() {
        return;
    }
    let renewals = Renewals::of("ec");
    fs::copy(certificates().path("other.key"), renewals.path("closed.key")).expect("a copy");
    fs::set_permissions(renewals.path("closed.key"), fs::Permissions::from_mode(0o600)).expect("chmod");
    let server = renewals.setup("").main("user nobody nogroup;").run();
    renewals.link("own.crt", &certificates().path("other.crt"));
    renewals.link("own.key", &renewals.path("closed.key"));
    comes(&server, "other");
}

#[test]
fn a_new_worker_and_a_reload_have_what_is_used() {
    if !require::freerun() {
        return;
    }
    let renewals = Renewals::of("ec");
    let server = renewals.setup("").run();
    renewals.switch("other");
    comes(&server, "other");
    // Half of the next renewal is there when the worker dies.
    renewals.link("own.key", &certificates().path("rsa.key"));
    server.logs("key type mismatch");
    let worker = server.worker();
    server.signal_pid(worker, Signal::KILL);
    eventually("another worker", || server.workers().iter().any(|other| *other != worker));
    comes(&server, "other");
    renewals.link("own.crt", &certificates().path("rsa.crt"));
    comes(&server, "rsa");
    let tls = Tls::new().resuming();
    assert_eq!(server.connect_tls(&tls).get("/").text(), ".");
    server.reload();
    assert_eq!(served(&server), certificates().der("rsa.crt"));
    assert_eq!(server.connect_tls(&tls).get("/").text(), "r", "the reload changes nothing for sessions");
    // What the reload has read is looked at from then on, and a reload of a half renewed pair is refused.
    renewals.switch("ec");
    comes(&server, "ec");
    renewals.link("own.key", &certificates().path("rsa.key"));
    server.signal(Signal::HUP);
    server.logs("[emerg]");
    assert_eq!(served(&server), certificates().der("ec.crt"));
    renewals.link("own.crt", &certificates().path("rsa.crt"));
    comes(&server, "rsa");
}

#[test]
fn pairs_that_share_a_file_are_renewed_together() {
    if !require::freerun() {
        return;
    }
    let renewals = Renewals::of("ec");
    renewals.link("second.key", &certificates().path("ec.key"));
    let dir = renewals.dir.path().display();
    let second = format!(
        "server {{ listen 127.0.0.1:@PORT2@ ssl; ssl_certificate {dir}/own.crt watch=100ms; ssl_certificate_key {dir}/second.key;
                   return 200 second; }}"
    );
    let server = renewals.setup("").http(&second).run();
    renewals.switch("other");
    server.logs("second.key\") failed");
    assert_eq!(served(&server), certificates().der("ec.crt"), "a new worker could not use what is there");
    renewals.link("second.key", &certificates().path("other.key"));
    comes(&server, "other");
    let worker = server.worker();
    server.signal_pid(worker, Signal::KILL);
    eventually("another worker", || server.workers().iter().any(|other| *other != worker));
    comes(&server, "other");
}

#[test]
fn what_cannot_be_watched_is_told_by_t() {
    if !require::freerun() {
        return;
    }
    for (lines, said) in [
        ("ssl_certificate @CERTS@/$host.crt watch; ssl_certificate_key @CERTS@/ec.key;", "has variables in its name"),
        ("ssl_certificate @CERTS@/ec.crt watch; ssl_certificate_key @CERTS@/$host.key;", "has variables in its name"),
        ("ssl_certificate data:x watch; ssl_certificate_key @CERTS@/ec.key;", "the certificate is not in a file"),
        ("ssl_certificate @CERTS@/ec.crt watch; ssl_certificate_key data:x;", "the certificate key is not in a file"),
        (
            "ssl_certificate @CERTS@/ec.crt watch; ssl_certificate_key engine:a:b;",
            "the certificate key is not in a file",
        ),
        (
            "ssl_certificate @CERTS@/ec.crt watch=1ms; ssl_certificate_key @CERTS@/ec.key;",
            "invalid parameter \"watch=1ms\"",
        ),
        ("ssl_certificate @CERTS@/ec.crt watch=; ssl_certificate_key @CERTS@/ec.key;", "invalid parameter \"watch=\""),
        ("ssl_certificate @CERTS@/ec.crt also; ssl_certificate_key @CERTS@/ec.key;", "invalid number of arguments"),
    ] {
        let text = format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@ ssl; {lines} }} }}\n");
        let checked = check(Kind::Freerun, &text).expect("it starts");
        assert_eq!(checked.code, Some(1), "{lines}: {}", checked.stderr);
        assert!(checked.stderr.contains(said), "{lines}: {}", checked.stderr);
    }
}
