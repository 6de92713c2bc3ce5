//! nginx's options: what they print, where, and the exit code.

use freerun_testkit::{Kind, ProgramOutput, Setup, Site, TempDir, require, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const TIME: Duration = Duration::from_secs(20);

fn with(arguments: &[&str]) -> ProgramOutput {
    run(Kind::under_test(), arguments, TIME).expect("the program starts")
}

/// A folder with this configuration, and its paths for `-c`, `-p` and `-e`.
fn conf(text: &str) -> (TempDir, String, String, String) {
    let dir = TempDir::new("cli");
    fs::write(dir.path().join("nginx.conf"), text.replace("@DIR@", &dir.path().display().to_string()))
        .expect("writing");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (conf, prefix, log) = (path("nginx.conf"), dir.path().display().to_string(), path("error.log"));
    (dir, conf, prefix, log)
}

#[test]
fn versions_go_to_standard_error() {
    for option in ["-v", "-V"] {
        let done = with(&[option]);
        assert_eq!(done.code, Some(0));
        assert_eq!(done.stdout, "");
        assert!(done.stderr.lines().any(|line| line.starts_with("nginx version: nginx/1.")), "{}", done.stderr);
        assert_eq!(done.stderr.lines().any(|line| line.starts_with("configure arguments:")), option == "-V");
    }
}

#[test]
fn freerun_names_itself_first() {
    if !require::freerun() {
        return;
    }
    let done = run(Kind::Freerun, &["-V"], TIME).expect("it starts");
    assert!(done.stderr.starts_with("freerun version: freerun/"), "{}", done.stderr);
    assert!(done.stderr.contains("\nnginx version: nginx/1.31.5\n"), "{}", done.stderr);
}

/// The limits of a worker are told where somebody looks for them; a configuration with all of them gets no line more.
#[test]
fn a_sandbox_that_is_not_whole_is_told() {
    if !require::freerun() {
        return;
    }
    let done = run(Kind::Freerun, &["-V"], TIME).expect("it starts");
    let line = done.stderr.lines().find(|line| line.starts_with("worker sandbox: "));
    let line = line.unwrap_or_else(|| panic!("{}", done.stderr));
    assert!(line.starts_with("worker sandbox: bounding_set, dumps"), "{line}");
    let is_whole = !line.contains("; not ");
    for (text, told, always) in [
        ("events { }", "the worker's sandbox will lack", false),
        ("events { } worker_sandbox off;", "the worker will have no sandbox", true),
        ("events { } worker_sandbox log;", "the worker's sandbox will only log", true),
    ] {
        let (_dir, conf, prefix, log) = conf(text);
        let done = with(&["-t", "-c", &conf, "-p", &prefix, "-e", &log]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert_eq!(done.stderr.contains(told), always || !is_whole, "{text}: {}", done.stderr);
    }
}

#[test]
fn help_tells_the_options() {
    for option in ["-h", "-?"] {
        let done = with(&[option]);
        assert_eq!(done.code, Some(0));
        for word in ["Usage:", "-s signal", "-c filename", "-g directives", "-T"] {
            assert!(done.stderr.contains(word), "no {word:?} in {}", done.stderr);
        }
    }
}

#[test]
fn wrong_options_are_refused() {
    for (arguments, message) in [
        (vec!["-x"], "invalid option: \"x\""),
        (vec!["word"], "invalid option: \"word\""),
        (vec!["-c"], "option \"-c\" requires file name"),
        (vec!["-s", "sing"], "invalid option: \"-s sing\""),
        (vec!["-s"], "option \"-s\" requires parameter"),
    ] {
        let done = with(&arguments);
        assert_eq!(done.code, Some(1), "{arguments:?}");
        assert!(
            done.stderr.lines().next().is_some_and(|line| line.ends_with(message)),
            "{arguments:?}: {}",
            done.stderr
        );
    }
}

#[test]
fn a_missing_configuration_is_named() {
    let (_dir, conf, prefix, log) = conf("");
    let missing = format!("{conf}.none");
    let done = with(&["-t", "-c", &missing, "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(1));
    let wanted = format!("[emerg] open() \"{missing}\" failed (2: No such file or directory)");
    assert!(done.stderr.contains(&wanted), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("configuration file {missing} test failed")), "{}", done.stderr);
}

#[test]
fn relative_paths_belong_to_the_prefix() {
    let (dir, _, prefix, log) = conf("events { }\npid run.pid;\n");
    let done = with(&["-t", "-c", "nginx.conf", "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("{}/nginx.conf syntax is ok", dir.path().display())), "{}", done.stderr);
}

#[test]
fn quiet_says_only_what_is_wrong() {
    let (_dir, path, prefix, log) = conf("events { }\n");
    let done = with(&["-t", "-q", "-c", &path, "-p", &prefix, "-e", &log]);
    assert_eq!((done.code, done.stderr.as_str(), done.stdout.as_str()), (Some(0), "", ""));
    let (_dir, path, prefix, log) = conf("nonsense;\n");
    let done = with(&["-t", "-q", "-c", &path, "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("unknown directive \"nonsense\""), "{}", done.stderr);
}

#[test]
fn dump_prints_the_files() {
    let (dir, path, prefix, log) = conf("events { }\n# kept comment\nhttp { include @DIR@/in*.conf; }\n");
    fs::write(dir.path().join("inner.conf"), "sendfile on; # inner comment\n").expect("writing");
    let done = with(&["-T", "-c", &path, "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let inner = format!("{prefix}/inner.conf");
    let first = done.stdout.find(&format!("# configuration file {path}:\n")).expect("the main file");
    let second = done.stdout.find(&format!("# configuration file {inner}:\n")).expect("the included file");
    assert!(first < second);
    assert!(done.stdout.contains("# kept comment\n") && done.stdout.contains("sendfile on; # inner comment\n"));
}

#[test]
fn globals_come_before_the_file() {
    let (_dir, path, prefix, log) = conf("events { }\n");
    let globals = format!("worker_processes 3; pid {prefix}/globals.pid;");
    let done = with(&["-t", "-c", &path, "-p", &prefix, "-e", &log, "-g", &globals]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let done = with(&["-t", "-c", &path, "-p", &prefix, "-e", &log, "-g", "nonsense on;"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("unknown directive \"nonsense\" in command line"), "{}", done.stderr);
}

#[test]
fn signals_need_a_master() {
    let (dir, path, prefix, log) = conf("events { }\npid @DIR@/none.pid;\n");
    let done = with(&["-s", "reload", "-c", &path, "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(1));
    let wanted = format!("[error] open() \"{}/none.pid\" failed (2: No such file or directory)", dir.path().display());
    assert!(done.stderr.contains(&wanted), "{}", done.stderr);
}

#[test]
fn the_signal_option_reaches_the_master() {
    let site = Site::new();
    let mut server = Setup::server(&site, "return 200 before;").main("pid @DIR@/server.pid;").run();
    let conf = server.path("nginx.conf").display().to_string();
    let (prefix, log) = (server.path("").display().to_string(), server.path("error.log").display().to_string());
    let order = |name: &str| {
        let done = with(&["-s", name, "-c", &conf, "-p", &prefix, "-e", &log]);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    };
    server.edit("return 200 before", "return 200 after");
    order("reload");
    freerun_testkit::eventually("the new configuration", || server.get("/").text() == "after");
    order("quit");
    assert_eq!(server.wait().code(), Some(0));
    assert!(!server.path("server.pid").exists(), "the pid file goes with the master");
}

/// To end a server, and to rotate its logs, the file of its process id is enough.
#[test]
fn a_broken_configuration_keeps_no_server_from_ending() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let mut server = Setup::server(&site, "return 200 here;").main("pid @DIR@/server.pid;").freerun();
    let conf = server.path("nginx.conf").display().to_string();
    let (prefix, log) = (server.path("").display().to_string(), server.path("error.log").display().to_string());
    let order = |name: &str| with(&["-s", name, "-c", &conf, "-p", &prefix, "-e", &log]);
    server.edit("return 200 here", "nonsense on; return 200 here");
    let done = order("reload");
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    fs::remove_file(server.path("error.log")).expect("removing");
    for name in ["reopen", "quit"] {
        let done = order(name);
        assert_eq!(done.code, Some(0), "{name}: {}", done.stderr);
        assert!(done.stderr.contains("unknown directive \"nonsense\""), "{}", done.stderr);
    }
    assert_eq!(server.wait().code(), Some(0));
    // Of a file that cannot be read to its end, no other server is guessed.
    fs::write(&conf, "http {").expect("writing");
    assert_eq!(order("stop").code, Some(1));
}

/// `-s reload` returns when the new configuration is in use, or says why it is not.
#[test]
fn a_reload_tells_its_result() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let server = Setup::server(&site, "return 200 one;").main("pid @DIR@/server.pid; worker_processes 1;").freerun();
    let conf = server.path("nginx.conf").display().to_string();
    let (prefix, log) = (server.path("").display().to_string(), server.path("error.log").display().to_string());
    let reload = || with(&["-s", "reload", "-c", &conf, "-p", &prefix, "-e", &log]);
    let mut client = server.connect();
    assert_eq!(client.get("/").text(), "one");
    server.edit("return 200 one", "return 200 two");
    let done = reload();
    assert_eq!((done.code, client.get("/").text().as_str()), (Some(0), "two"), "{}", done.stderr);

    // Another process has the address: the file is good, and cannot be used.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binding");
    let address = taken.local_addr().expect("an address");
    server.edit("return 200 two", &format!("listen {address}; return 200 three"));
    let done = reload();
    assert_eq!(done.code, Some(1));
    let why = format!(
        "nginx: [emerg] the server did not take the new configuration: bind() to {address} failed (98: Address already in use)"
    );
    assert!(done.stderr.lines().any(|line| line == why), "{}", done.stderr);
    assert_eq!(client.get("/").text(), "two");

    // Another number of loops is there at once; another user comes with the next worker, if the master may choose it.
    let may_choose = rustix::process::geteuid().is_root();
    server.edit(&format!("listen {address}; "), "");
    server.edit(
        "worker_processes 1;",
        if may_choose { "worker_processes 7; user daemon;" } else { "worker_processes 7;" },
    );
    let done = reload();
    assert_eq!((done.code, client.get("/").text().as_str()), (Some(0), "three"), "{}", done.stderr);
    assert!(!done.stderr.contains("worker_processes"), "{}", done.stderr);
    let later = "nginx: [warn] another \"user\" takes effect when a worker is started";
    assert_eq!(done.stderr.contains(later), may_choose, "{}", done.stderr);
}

/// A script that has ordered a reload is told what it waits for: opening a pipe waits until somebody reads it.
#[test]
fn a_reload_that_takes_long_says_so() {
    if !require::freerun() {
        return;
    }
    let server = Setup::server(&Site::new(), "return 200 one;").main("pid @DIR@/server.pid;").freerun();
    let (pipe, told) = (server.path("pipe"), server.path("told"));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    server.edit("return 200 one", &format!("access_log {}; return 200 two", pipe.display()));
    let mut order = std::process::Command::new(Kind::Freerun.program().expect("freerun"))
        .args(["-s", "reload", "-c"])
        .arg(server.path("nginx.conf"))
        .arg("-p")
        .arg(server.path(""))
        .stdin(std::process::Stdio::null())
        .stderr(fs::File::create(&told).expect("a file"))
        .spawn()
        .expect("it starts");
    let slow =
        "nginx: [warn] the server has the signal, but has not said for 5 seconds whether it took the configuration";
    freerun_testkit::eventually("it says what it waits for", || {
        fs::read_to_string(&told).is_ok_and(|text| text.contains(slow))
    });
    assert_eq!(server.get("/").text(), "one", "the configuration before is in use meanwhile");
    let _reader = fs::File::open(&pipe).expect("the pipe");
    assert_eq!(order.wait().expect("it ends").code(), Some(0));
    assert_eq!(server.get("/").text(), "two");
}

/// Ends the daemon of this pid file where the test did not come to it.
struct Daemon(PathBuf);

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = fs::read_to_string(&self.0).ok().and_then(|pid| pid.trim().parse().ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended just now.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

/// Lines of the error log and of the access log go to one file through two descriptors.
#[test]
fn a_file_for_all_that_is_printed_gets_all_of_it() {
    if !require::freerun() {
        return;
    }
    let port = freerun_testkit::ports::free();
    let (dir, path, prefix, _) = conf(&format!(
        "daemon off; error_log stderr;\npid @DIR@/server.pid;\nevents {{ }}\nhttp {{ access_log /dev/stdout;\n\
         client_body_temp_path @DIR@/body; server {{ listen 127.0.0.1:{port}; root @DIR@; }} }}\n"
    ));
    let file = fs::File::create(dir.path().join("log")).expect("a file");
    let mut child = std::process::Command::new(Kind::Freerun.program().expect("freerun"))
        .args(["-c", &path, "-p", &prefix])
        .stdin(std::process::Stdio::null())
        .stdout(file.try_clone().expect("the same file"))
        .stderr(file)
        .spawn()
        .expect("it starts");
    let _end = Daemon(dir.path().join("server.pid"));
    let address = ([127, 0, 0, 1], port).into();
    freerun_testkit::eventually("it serves", || freerun_testkit::TestClient::try_connect(address).is_ok());
    let mut client = freerun_testkit::TestClient::connect(address);
    // Each line is written behind those of the requests before.
    for number in 1..=4 {
        client.get("/none");
        freerun_testkit::eventually("all lines are there", || {
            let text = fs::read_to_string(dir.path().join("log")).unwrap_or_default();
            let of_errors = text.matches("request: \"GET /none").count();
            text.matches("\"GET /none").count() - of_errors == number && of_errors == number
        });
    }
    drop(_end);
    child.wait().expect("it ends");
}

#[test]
fn a_daemon_leaves_the_terminal() {
    let port = freerun_testkit::ports::free();
    let (dir, path, prefix, log) = conf(&format!(
        "daemon on;\npid @DIR@/server.pid;\nevents {{ }}\nhttp {{ access_log off; client_body_temp_path @DIR@/body;\n\
         server {{ listen 127.0.0.1:{port}; return 200 daemon; }} }}\n"
    ));
    let done = with(&["-c", &path, "-p", &prefix, "-e", &log]);
    let _daemon = Daemon(dir.path().join("server.pid"));
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    freerun_testkit::eventually("the pid file", || dir.path().join("server.pid").exists());
    let mut client = freerun_testkit::TestClient::connect(([127, 0, 0, 1], port).into());
    assert_eq!(client.get("/").text(), "daemon");
    let done = with(&["-s", "stop", "-c", &path, "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    freerun_testkit::eventually("the end", || !dir.path().join("server.pid").exists());
}

#[test]
fn a_taken_port_is_an_error() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binding");
    let port = taken.local_addr().expect("address").port();
    let (_dir, path, prefix, log) = conf(&format!(
        "daemon off;\npid @DIR@/server.pid;\nevents {{ }}\nhttp {{ access_log off; client_body_temp_path @DIR@/body;\n\
         server {{ listen 127.0.0.1:{port}; }} }}\n"
    ));
    let done = with(&["-c", &path, "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(1));
    let wanted = format!("[emerg] bind() to 127.0.0.1:{port} failed (98: Address already in use)");
    assert!(done.stderr.contains(&wanted), "{}", done.stderr);
}

/// What `-t` says of a server that listens there.
fn tested(address: &str) -> ProgramOutput {
    let (_dir, path, prefix, log) = conf(&format!(
        "pid @DIR@/server.pid;\nevents {{ }}\nhttp {{ access_log off; client_body_temp_path @DIR@/body;\n\
         proxy_temp_path @DIR@/a; fastcgi_temp_path @DIR@/b; uwsgi_temp_path @DIR@/c; scgi_temp_path @DIR@/d;\n\
         server {{ listen {address}; }} }}\n"
    ));
    with(&["-t", "-c", &path, "-p", &prefix, "-e", &log])
}

#[test]
fn a_test_tries_to_bind() {
    let folder = TempDir::new("cli-sockets");
    let socket = |name: &str| folder.path().join(name).display().to_string();
    // An address of nobody here (RFC 5737), and a folder that is not there.
    let foreign = "192.0.2.1:80".to_owned();
    let nowhere = format!("unix:{}", socket("none/s"));
    for (address, why) in [(foreign, "99: Cannot assign requested address"), (nowhere, "2: No such file or directory")]
    {
        let done = tested(&address);
        let wanted = format!("nginx: [emerg] bind() to {address} failed ({why})");
        assert!(done.code == Some(1) && done.stderr.contains(&wanted), "{}", done.stderr);
        assert!(!done.stderr.contains("test is successful"), "{}", done.stderr);
    }
    // What is in use is most likely so by the server that runs with this configuration.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binding");
    let taken_path = socket("taken");
    let _taken_socket = std::os::unix::net::UnixListener::bind(&taken_path).expect("binding");
    let address = taken.local_addr().expect("address").to_string();
    for address in [address, format!("unix:{taken_path}"), format!("unix:{}", socket("free"))] {
        let done = tested(&address);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
    }
    let left: Vec<_> = fs::read_dir(folder.path()).expect("reading").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["taken"], "a test leaves nothing behind");
}

#[test]
fn a_test_of_what_runs_changes_nothing() {
    let site = Site::new();
    let server = Setup::server(&site, "listen unix:@DIR@/own.sock; return 200 running;").run();
    let path = |name: &str| server.path(name).display().to_string();
    let (conf, prefix, log) = (path("nginx.conf"), path(""), path("error.log"));
    let done = with(&["-t", "-c", &conf, "-p", &prefix, "-e", &log]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(server.get("/").text(), "running");
    let mut client = freerun_testkit::TestClient::try_connect_unix(&server.path("own.sock")).expect("connecting");
    assert_eq!(client.get("/").text(), "running");
}

/// What a distribution's main file sets of TLS, for all servers that may be added.
const FOR_ALL_SERVERS: &str = "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; # no SSLv3
ssl_prefer_server_ciphers on;";

#[test]
fn settings_of_tls_are_accepted_where_nobody_asks_for_it() {
    let site = Site::new();
    let server = Setup::server(&site, "return 200 plain;").http(FOR_ALL_SERVERS).run();
    assert_eq!(server.get("/").text(), "plain");
    if !require::freerun() {
        return;
    }
    let text = |listen: &str| {
        format!(
            "pid @DIR@/server.pid;\nevents {{ }}\nhttp {{ access_log off; client_body_temp_path @DIR@/body;\n\
             {FOR_ALL_SERVERS}\nserver {{ listen {listen}; proxy_ssl_verify on; }} }}\n"
        )
    };
    let (_dir, path, prefix, log) = conf(&text("unix:@DIR@/s"));
    let done = with(&["-t", "-c", &path, "-p", &prefix, "-e", &log]);
    assert!(done.code == Some(0) && !done.stderr.contains("[warn]"), "{}", done.stderr);
    let (_dir, path, prefix, log) = conf(&text("unix:@DIR@/s ssl"));
    let done = with(&["-t", "-c", &path, "-p", &prefix, "-e", &log]);
    let wanted = "no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive";
    assert!(done.code == Some(1) && done.stderr.contains(wanted), "{}", done.stderr);
}

#[test]
fn warnings_are_errors_if_that_is_asked_for() {
    let text = "events { }
        http {
            upstream backend.invalid { server 127.0.0.1:81; }
            server { listen 127.0.0.1:81; location / { proxy_pass http://backnd.invalid; } }
        }";
    let (_dir, conf, prefix, log) = conf(text);
    let test = |more: &[&str]| with(&[&["-c", &conf, "-p", &prefix, "-e", &log][..], more].concat());
    let lenient = test(&["-t"]);
    assert_eq!(lenient.code, Some(0), "{}", lenient.stderr);
    for options in [&["-t", "--strict"][..], &["--strict", "-T"], &["--strict", "-tq"]] {
        let strict = test(options);
        assert_eq!(strict.code, Some(1), "{}", strict.stderr);
        assert!(strict.stderr.contains("did you mean the upstream \"backend.invalid\"?"), "{}", strict.stderr);
        assert!(!strict.stderr.contains("is successful"), "{}", strict.stderr);
    }
    std::fs::write(&conf, text.replace("backnd", "backend")).expect("writing");
    // Who is not root is told that the directive `user` has no effect only if it is there.
    let right = test(&["-t", "--strict"]);
    assert_eq!(right.code, Some(0), "{}", right.stderr);
    let alone = test(&["--strict"]);
    assert!(alone.stderr.contains("\"--strict\" goes with \"-t\""), "{}", alone.stderr);
}
