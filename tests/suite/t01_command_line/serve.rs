//! `freerun serve`: a folder, without a configuration.

use freerun_testkit::{Kind, PATIENCE, Site, TempDir, TestClient, Tls, certificates, ports, require, within};
use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        // One that has ended by itself needs no signal.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// `serve` with a folder and an address, not started yet. What it prints goes to the files `out` and `err` of `out`.
fn serve(site: &Site, out: &TempDir, address: &str) -> Command {
    let file = |name: &str| fs::File::create(out.path().join(name)).expect("a file");
    let mut command = Command::new(Kind::Freerun.program().expect("freerun"));
    command.args(["serve", &site.path().display().to_string(), "--listen", address]);
    command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
    command
}

/// What such a command has printed to standard output, and then to standard error.
fn printed(out: &TempDir) -> String {
    ["out", "err"].map(|name| fs::read_to_string(out.path().join(name)).unwrap_or_default()).concat()
}

#[test]
fn a_folder_is_served_and_the_address_printed() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("index.html", "the index").file("d/a.txt", "text");
    let out = TempDir::new("serve");
    let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let _running = Running(serve(&site, &out, &address.to_string()).spawn().expect("it starts"));
    let is_printed = || printed(&out).contains(&address.to_string());
    assert!(within(PATIENCE, || TestClient::try_connect(address).is_ok() && is_printed()), "{}", printed(&out));
    let mut client = TestClient::connect(address);
    assert_eq!(client.get("/").text(), "the index");
    assert_eq!(client.get("/d/a.txt").text(), "text");
    assert_eq!(
        client.get("/status").header("content-type").map(|kind| kind.starts_with("application/json")),
        Some(true)
    );
}

/// Starts `serve --tls internal` with this variable as the only one about folders, and waits for what it prints.
fn secure(site: &Site, out: &TempDir, folder: Option<&std::path::Path>) -> (Running, SocketAddr, String) {
    secure_with(site, out, folder, &[])
}

/// [`secure`], with further arguments.
fn secure_with(
    site: &Site,
    out: &TempDir,
    folder: Option<&std::path::Path>,
    arguments: &[&str],
) -> (Running, SocketAddr, String) {
    let address = SocketAddr::from(([127, 0, 0, 1], ports::free()));
    let mut command = serve(site, out, &address.to_string());
    command
        .args(["--tls", "internal"])
        .args(arguments)
        .env_remove("HOME")
        .env_remove("XDG_DATA_HOME")
        .envs(folder.map(|folder| ("XDG_DATA_HOME", folder)));
    let running = Running(command.spawn().expect("it starts"));
    let said = || printed(out);
    assert!(within(PATIENCE, || said().contains("authority") && said().ends_with('\n')), "{}", said());
    (running, address, said())
}

#[test]
fn a_folder_is_served_over_https_with_a_local_authority() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("index.html", "the index");
    let (out, data) = (TempDir::new("serve"), TempDir::new("data"));
    let (running, address, said) = secure(&site, &out, Some(data.path()));
    let authority = data.path().join("freerun/local-authority/authority.crt");
    let path = authority.display().to_string();
    assert!(said.contains(&format!("serving {} at https://{address}/", site.path().display())), "{said}");
    assert!(said.contains(&format!("curl --cacert {path} https://{address}/")), "{said}");
    let mut client = TestClient::connect(address).tls(&Tls::new());
    assert_eq!(client.get("/").text(), "the index");
    let client = TestClient::connect(address).tls(&Tls::new().alpn(&["h2", "http/1.1"]));
    assert_eq!(client.agreed().alpn.as_deref(), Some("h2"));
    // Somebody who trusts the authority finds all names in the certificate.
    for (option, name) in [("-verify_hostname", "localhost"), ("-verify_ip", "127.0.0.1"), ("-verify_ip", "::1")] {
        let told = verify(address, &path, option, name);
        assert!(told.contains("Verify return code: 0 (ok)"), "{name}: {told}");
    }
    let mut plain = TestClient::connect(address);
    let host = format!("GET /a?b HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let sent = plain.send(host).response();
    assert_eq!((sent.status, sent.header("location")), (302, Some(format!("https://{address}/a?b").as_str())));
    drop(running);
    // The authority is the same the next time.
    let before = fs::read(&authority).expect("a file");
    let (_running, address, _) = secure(&site, &out, Some(data.path()));
    assert_eq!(TestClient::connect(address).tls(&Tls::new()).get("/").text(), "the index");
    assert_eq!(fs::read(&authority).expect("a file"), before);
}

/// What openssl says of the server's certificate, with the authority of this file and for this name.
fn verify(address: SocketAddr, authority: &str, option: &str, name: &str) -> String {
    let output = Command::new("openssl")
        .args([
            "s_client",
            "-connect",
            &address.to_string(),
            "-CAfile",
            authority,
            "-verify_return_error",
            option,
            name,
        ])
        .stdin(Stdio::null())
        .output()
        .expect("openssl");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The authority signs for names of local machines and those it was made for: its key is worth nothing to who steals it.
#[test]
fn the_local_authority_is_no_authority_for_other_names() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let (out, data) = (TempDir::new("serve"), TempDir::new("data"));
    let path = data.path().join("freerun/local-authority/authority.crt").display().to_string();
    let (running, address, said) = secure_with(&site, &out, Some(data.path()), &["--host", "first.example"]);
    assert!(!said.contains("may not sign"), "{said}");
    let told = verify(address, &path, "-verify_hostname", "first.example");
    assert!(told.contains("Verify return code: 0 (ok)"), "{told}");
    drop(running);
    let (_running, address, said) = secure_with(&site, &out, Some(data.path()), &["--host", "other.example,nas.local"]);
    assert!(said.contains("its certificate is not for other.example, for which this authority may not sign"), "{said}");
    for (name, is_right) in [("nas.local", true), ("localhost", true), ("other.example", false)] {
        let told = verify(address, &path, "-verify_hostname", name);
        assert_eq!(told.contains("Verify return code: 0 (ok)"), is_right, "{name}: {told}");
    }
}

#[test]
fn without_a_folder_the_authority_is_in_memory() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("index.html", "the index");
    let out = TempDir::new("serve");
    let (_running, address, said) = secure(&site, &out, None);
    assert!(said.contains("in memory only") && said.contains("XDG_DATA_HOME"), "{said}");
    assert_eq!(TestClient::connect(address).tls(&Tls::new()).get("/").text(), "the index");
}

/// Starts `serve` with further arguments at a port of its own; `said` is what it prints, in one file.
fn started(site: &Site, out: &TempDir, further: &[&str]) -> (Running, SocketAddr) {
    let port = ports::free();
    let file = fs::File::create(out.path().join("all")).expect("a file");
    let mut command = Command::new(Kind::Freerun.program().expect("freerun"));
    command
        .args(["serve", &site.path().display().to_string(), "--port", &port.to_string()])
        .args(further)
        .env("XDG_DATA_HOME", out.path())
        .stdin(Stdio::null())
        .stdout(file.try_clone().expect("the same file"))
        .stderr(file);
    let running = Running(command.spawn().expect("it starts"));
    let address = ([127, 0, 0, 1], port).into();
    assert!(within(PATIENCE, || TestClient::try_connect(address).is_ok()), "{}", said(out));
    (running, address)
}

fn said(out: &TempDir) -> String {
    fs::read_to_string(out.path().join("all")).unwrap_or_default()
}

#[test]
fn only_names_of_this_machine_are_answered() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("a.txt", "text");
    let out = TempDir::new("serve");
    let (_running, address) = started(&site, &out, &["--host", "Box.Example,other.example"]);
    let mut client = TestClient::connect(address);
    let mut status = |host: &str, path: &str| {
        let response = client.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).response();
        (response.status, response.text())
    };
    let own = address.to_string();
    for host in
        [own.as_str(), "127.0.0.1", "[::1]:8080", "localhost", "a.localhost:1", "box.example", "OTHER.example:80"]
    {
        assert_eq!(status(host, "/a.txt"), (200, "text".to_owned()), "{host}");
    }
    // A page of such a name would otherwise read the files, and the status, of whoever looks at it (DNS rebinding).
    for host in
        ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "notlocalhost"]
    {
        for path in ["/a.txt", "/", "/status", "/none"] {
            let (status, text) = status(host, path);
            assert!(status == 403 && text.contains("--host NAME"), "{host}{path}: {status} {text}");
        }
    }
    assert_eq!(status("localhost", "/.freerun/foreign-name").0, 404);
}

#[test]
fn hidden_files_and_links_are_for_nobody() {
    if !require::freerun() {
        return;
    }
    let outside = TempDir::new("outside");
    fs::write(outside.path().join("secret"), "secret").expect("writing");
    let site = Site::new();
    site.file(".env", "key").file(".git/config", "config").file("d/.x/y", "y").file(".well-known/a", "known");
    std::os::unix::fs::symlink(outside.path(), site.path().join("away")).expect("a link");
    std::os::unix::fs::symlink(outside.path().join("secret"), site.path().join("secret")).expect("a link");
    let out = TempDir::new("serve");
    {
        let (_running, address) = started(&site, &out, &[]);
        let mut client = TestClient::connect(address);
        for path in ["/.env", "/.git/config", "/.git/", "/d/.x/y", "/%2eenv", "/.well-knownx"] {
            assert_eq!(client.get(path).status, 404, "{path}");
        }
        assert_eq!(client.get("/.well-known/a").text(), "known");
        assert_eq!((client.get("/secret").status, client.get("/away/secret").status), (403, 404));
        let list = client.get("/").text();
        assert!(!list.contains(".env") && !list.contains("away") && list.contains("d/"), "{list}");
    }
    let (_running, address) = started(&site, &out, &["--hidden", "--follow-links"]);
    let mut client = TestClient::connect(address);
    assert_eq!(client.get("/.env").text(), "key");
    assert_eq!(client.get("/away/secret").text(), "secret");
    let list = client.get("/").text();
    assert!(list.contains(".env") && list.contains("away"), "{list}");
}

#[test]
fn texts_and_lists_are_in_utf_8() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("größe 日本.txt", "ü").file("p.html", "<p>ü").file("s.css", "/* ü */").file("j.json", "\"ü\"");
    site.file("large", "x".repeat(3 << 20));
    let out = TempDir::new("serve");
    let (_running, address) = started(&site, &out, &[]);
    let mut client = TestClient::connect(address);
    for (path, kind) in [
        ("/p.html", "text/html; charset=utf-8"),
        ("/s.css", "text/css; charset=utf-8"),
        ("/j.json", "application/json; charset=utf-8"),
        ("/gr%C3%B6%C3%9Fe%20%E6%97%A5%E6%9C%AC.txt", "text/plain; charset=utf-8"),
    ] {
        assert_eq!(client.get(path).header("content-type"), Some(kind), "{path}");
    }
    let list = client.get("/");
    assert_eq!(list.header("content-type"), Some("text/html; charset=utf-8"));
    let text = list.text().to_lowercase();
    for part in ["<!doctype html>", "name=\"viewport\"", "größe 日本.txt", "3.0 mib"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn one_file_for_all_that_is_printed_gets_all_of_it() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("a.txt", "text");
    let out = TempDir::new("serve");
    let (_running, address) = started(&site, &out, &[]);
    let mut client = TestClient::connect(address);
    for number in 0..8 {
        client.get(&if number % 2 == 0 { format!("/none{number}") } else { "/a.txt".to_owned() });
    }
    let complete = within(PATIENCE, || {
        let text = said(&out);
        text.matches("] \"GET /").count() == 8 && text.matches("(2: No such file or directory)").count() == 4
    });
    assert!(complete, "{}", said(&out));
}

#[test]
fn a_name_that_no_ca_takes_opens_nothing() {
    if !require::freerun() {
        return;
    }
    let program = Kind::Freerun.program().expect("freerun");
    for (name, told) in [
        (
            "intenal",
            "freerun: serve: no certificate for \"intenal\": a public name has a dot; did you mean \"--tls internal\"?\n",
        ),
        ("a.example,foo_bar", "freerun: serve: no certificate for \"foo_bar\": a public name has a dot\n"),
        ("*.a.example", "freerun: serve: no certificate for \"*.a.example\": wildcard names need the challenge dns-01"),
    ] {
        let output = Command::new(&program)
            .args(["serve", "--tls", name])
            .stdin(Stdio::null())
            .output()
            .expect("it ends by itself");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with(told), "{name}: {output:?}");
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
}

#[test]
fn a_port_that_is_taken_comes_with_what_to_do() {
    if !require::freerun() {
        return;
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binding");
    let port = taken.local_addr().expect("an address").port().to_string();
    let program = Kind::Freerun.program().expect("freerun");
    let output = Command::new(program).args(["serve", "--port", &port]).stdin(Stdio::null()).output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("(98: Address already in use)\nhelp: another program listens there: \"ss -ltnp\" tells which\n")
    );
    assert!(told.ends_with("help: \"--port PORT\" chooses another port, 0 any that is free\n"), "{told}");
}

#[test]
fn an_address_for_all_is_printed_as_one_to_use() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let out = TempDir::new("serve");
    let port = ports::free();
    let _running = Running(serve(&site, &out, &format!("0.0.0.0:{port}")).spawn().expect("it starts"));
    let said = || fs::read_to_string(out.path().join("out")).unwrap_or_default();
    assert!(within(PATIENCE, || said().contains("Ctrl-C")), "{}", said());
    assert!(said().contains(&format!(" at http://127.0.0.1:{port}/ ")) && !said().contains("0.0.0.0"), "{}", said());
}

#[test]
fn bad_arguments_are_told_by_name() {
    if !require::freerun() {
        return;
    }
    let program = Kind::Freerun.program().expect("freerun");
    for (args, told) in [
        (&["serve", "a", "b"][..], "freerun: serve: unexpected argument \"b\"\n"),
        (&["serve", "--bad"], "freerun: serve: invalid option '--bad'\n"),
        (&["serve", "--listen"], "freerun: serve: missing argument for option '--listen'\n"),
        (&["serve", "--listen", "x"], "freerun: serve: \"x\" is not ADDRESS:PORT, ADDRESS or PORT\n"),
        (
            &["serve", "--tls", "internal", "--email", "a@b.example"],
            "freerun: serve: --acme-directory, --acme-ca, --email and --http need --tls with the name of a server\n",
        ),
        (&["reference"], "freerun: reference: the folder of the pages is missing\n"),
        (&["-x"], "nginx: invalid option: \"x\"\n"),
        (&["-c"], "nginx: option \"-c\" requires file name\n"),
    ] {
        let output = Command::new(&program).args(args).stdin(Stdio::null()).output().expect("it runs");
        // Help may follow.
        assert!(String::from_utf8_lossy(&output.stderr).starts_with(told), "{args:?}: {output:?}");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
    }
}

#[test]
fn a_folder_is_served_over_https_with_a_certificate_of_a_ca() {
    if !require::freerun() {
        return;
    }
    let Some(ca) = crate::t12_tls::pebble::Ca::started() else { return };
    let site = Site::new();
    site.file("index.html", "the index");
    for is_page in [true, false] {
        let (out, data) = (TempDir::new("serve"), TempDir::new("data"));
        let (https, http) =
            if is_page { (ports::free(), format!("127.0.0.1:{}", ca.http)) } else { (ca.tls, "off".to_owned()) };
        let address = SocketAddr::from(([127, 0, 0, 1], https));
        let mut command = serve(&site, &out, &address.to_string());
        command
            .args(["--tls", "localhost", "--http", &http, "--acme-directory", &ca.directory(), "--acme-ca"])
            .arg(certificates().path("ca.crt"))
            .args(["--email", "admin@example.com"])
            .env("XDG_DATA_HOME", data.path());
        let _running = Running(command.spawn().expect("it starts"));
        let said = || printed(&out);
        assert!(within(PATIENCE, || said().contains("terms of service you agree to")), "{}", said());
        let issued = || {
            let client = TestClient::connect(address).tls(&Tls::new());
            let shown = client.agreed().certificates[0].clone();
            shown.windows(19).any(|window| window == b"Pebble Intermediate")
        };
        assert!(within(PATIENCE, issued), "{}", said());
        assert_eq!(TestClient::connect(address).tls(&Tls::new()).get("/").text(), "the index");
        if is_page {
            let sent = TestClient::connect(([127, 0, 0, 1], ca.http).into()).get("/a?b");
            let wanted = format!("https://localhost:{https}/a?b");
            assert_eq!((sent.status, sent.header("location")), (301, Some(wanted.as_str())));
        }
        assert!(data.path().join("freerun/acme").is_dir());
    }
}
