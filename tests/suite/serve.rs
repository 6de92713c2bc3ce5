//! `freerun serve`: a folder, without a configuration.

use freerun_testkit::{Client, Kind, PATIENCE, Site, TempDir, Tls, certificates, ports, require, within};
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

#[test]
fn a_folder_is_served_and_the_address_printed() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    site.file("index.html", "the index").file("d/a.txt", "text");
    let out = TempDir::new("serve");
    let (stdout, stderr) = (out.path().join("out"), out.path().join("err"));
    let port = ports::free();
    let child = Command::new(Kind::Freerun.program().expect("freerun"))
        .args(["serve", &site.path().display().to_string(), "--listen", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .stdout(fs::File::create(&stdout).expect("a file"))
        .stderr(fs::File::create(&stderr).expect("a file"))
        .spawn()
        .expect("it starts");
    let _running = Running(child);
    let said = || fs::read_to_string(&stdout).unwrap_or_default() + &fs::read_to_string(&stderr).unwrap_or_default();
    let address = ([127, 0, 0, 1], port).into();
    let up = within(PATIENCE, || Client::try_connect(address).is_ok() && said().contains(&format!("127.0.0.1:{port}")));
    assert!(up, "{}", said());
    let mut client = Client::connect(address);
    assert_eq!(client.get("/").text(), "the index");
    assert_eq!(client.get("/d/a.txt").text(), "text");
    assert_eq!(
        client.get("/status").header("content-type").map(|kind| kind.starts_with("application/json")),
        Some(true)
    );
}

/// Starts `serve --tls internal` with this variable as the only one about folders, and waits for what it prints.
fn secure(site: &Site, out: &TempDir, folder: Option<&std::path::Path>) -> (Running, SocketAddr, String) {
    let (stdout, stderr) = (out.path().join("out"), out.path().join("err"));
    let port = ports::free();
    let mut command = Command::new(Kind::Freerun.program().expect("freerun"));
    command
        .args(["serve", &site.path().display().to_string(), "--listen", &format!("127.0.0.1:{port}")])
        .args(["--tls", "internal"])
        .env_remove("HOME")
        .env_remove("XDG_DATA_HOME")
        .envs(folder.map(|folder| ("XDG_DATA_HOME", folder)))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&stdout).expect("a file"))
        .stderr(fs::File::create(&stderr).expect("a file"));
    let running = Running(command.spawn().expect("it starts"));
    let said = || fs::read_to_string(&stdout).unwrap_or_default() + &fs::read_to_string(&stderr).unwrap_or_default();
    assert!(within(PATIENCE, || said().contains("authority") && said().ends_with('\n')), "{}", said());
    (running, ([127, 0, 0, 1], port).into(), said())
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
    let mut client = Client::connect(address).tls(&Tls::new());
    assert_eq!(client.get("/").text(), "the index");
    // Somebody who trusts the authority finds all names in the certificate.
    for (option, name) in [("-verify_hostname", "localhost"), ("-verify_ip", "127.0.0.1"), ("-verify_ip", "::1")] {
        let output = Command::new("openssl")
            .args([
                "s_client",
                "-connect",
                &address.to_string(),
                "-CAfile",
                &path,
                "-verify_return_error",
                option,
                name,
            ])
            .stdin(Stdio::null())
            .output()
            .expect("openssl");
        let told = String::from_utf8_lossy(&output.stdout);
        assert!(told.contains("Verify return code: 0 (ok)"), "{name}: {told}");
    }
    let mut plain = Client::connect(address);
    let host = format!("GET /a?b HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let sent = plain.send(host).response();
    assert_eq!((sent.status, sent.header("location")), (302, Some(format!("https://{address}/a?b").as_str())));
    drop(running);
    // The authority is the same the next time.
    let before = fs::read(&authority).expect("a file");
    let (_running, address, _) = secure(&site, &out, Some(data.path()));
    assert_eq!(Client::connect(address).tls(&Tls::new()).get("/").text(), "the index");
    assert_eq!(fs::read(&authority).expect("a file"), before);
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
    assert_eq!(Client::connect(address).tls(&Tls::new()).get("/").text(), "the index");
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
    let Some(ca) = crate::tls::pebble::Ca::started() else { return };
    let site = Site::new();
    site.file("index.html", "the index");
    for is_page in [true, false] {
        let (out, data) = (TempDir::new("serve"), TempDir::new("data"));
        let (stdout, stderr) = (out.path().join("out"), out.path().join("err"));
        let (https, http) = match is_page {
            true => (ports::free(), format!("127.0.0.1:{}", ca.http)),
            false => (ca.tls, "off".to_owned()),
        };
        let mut command = Command::new(Kind::Freerun.program().expect("freerun"));
        command
            .args(["serve", &site.path().display().to_string(), "--listen", &format!("127.0.0.1:{https}")])
            .args(["--tls", "localhost", "--http", &http, "--acme-directory", &ca.directory(), "--acme-ca"])
            .arg(certificates().path("ca.crt"))
            .args(["--email", "admin@example.com"])
            .env("XDG_DATA_HOME", data.path())
            .stdin(Stdio::null())
            .stdout(fs::File::create(&stdout).expect("a file"))
            .stderr(fs::File::create(&stderr).expect("a file"));
        let _running = Running(command.spawn().expect("it starts"));
        let said =
            || fs::read_to_string(&stdout).unwrap_or_default() + &fs::read_to_string(&stderr).unwrap_or_default();
        assert!(within(PATIENCE, || said().contains("terms of service you agree to")), "{}", said());
        let address = SocketAddr::from(([127, 0, 0, 1], https));
        let issued = || {
            let client = Client::connect(address).tls(&Tls::new());
            let shown = client.agreed().certificates[0].clone();
            shown.windows(19).any(|window| window == b"Pebble Intermediate")
        };
        assert!(within(PATIENCE, issued), "{}", said());
        assert_eq!(Client::connect(address).tls(&Tls::new()).get("/").text(), "the index");
        if is_page {
            let sent = Client::connect(([127, 0, 0, 1], ca.http).into()).get("/a?b");
            let wanted = format!("https://localhost:{https}/a?b");
            assert_eq!((sent.status, sent.header("location")), (301, Some(wanted.as_str())));
        }
        assert!(data.path().join("freerun/acme").is_dir());
    }
}
