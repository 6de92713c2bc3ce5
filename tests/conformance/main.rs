//! The npm package `http-cache-tests` against freerun's cache, with nginx beside it. `.ci/run` installs the package; where it is
//! not there, the test says so and passes.
//!
//! A test of the package counts when it passes and so do those that it depends on, which is how its own page shows results. By
//! that count nginx 1.22 has 92 of the 160 that the package calls required, Squid 120.
//!
//! `FREERUN_CACHE_TEST=id cargo test -p freerun-tests --test conformance rfc9111 -- --nocapture` shows one test.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use freerun_testkit::{Application, Kind, Setup, Site, TempDir, TestServer, ports, require};

/// Required tests that nginx passes, with its defaults.
const NGINX: usize = 92;
/// Those that freerun passes by nginx's rules.
const DEFAULTS: usize = 97;
/// Those that it passes by the rules of RFC 9111. Three of the others are for browsers alone; `304-etag-update-response-ETag` wants
/// a 304 with another strong `ETag` than the stored one to renew it, which section 4.3.4 forbids.
const RFC9111: usize = 148;

/// Where `.ci/run` has put the package: beside the tests' own folder for temporary files.
fn package() -> Option<PathBuf> {
    require::program("node")?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let folder = target.join("npm/node_modules/http-cache-tests");
    let why = format!("no {}; `.ci/run npm` installs it", folder.display());
    require::need("http-cache-tests", folder.is_dir(), &why).then_some(folder)
}

/// The package's server.
fn origin(package: &Path) -> Application {
    let dir = TempDir::new("http-cache-tests");
    let port = ports::free();
    let mut node = Command::new("node");
    node.current_dir(package).args(["--no-warnings", "server/server.mjs"]);
    node.env("npm_config_protocol", "http").env("npm_config_port", port.to_string());
    node.env("npm_config_pidfile", dir.path().join("pid"));
    Application::start(node, &format!("127.0.0.1:{port}"), dir)
}

/// Runs the tests until so many required ones have passed at some time, at most three times: the package's times are short for a
/// machine that is busy with something else.
#[track_caller]
fn expect(name: &str, package: &Path, server: &TestServer, expected: usize) {
    let mut never: Option<BTreeSet<String>> = None;
    let mut passed = 0;
    for _ in 0..3 {
        let run = required(package, server);
        println!("{name}\n{}", run.text);
        let of = run.passed + run.failed.len();
        let failed = match never.take() {
            Some(before) => before.intersection(&run.failed).cloned().collect(),
            None => run.failed,
        };
        passed = of - failed.len();
        if passed >= expected {
            return;
        }
        never = Some(failed);
    }
    panic!("{name}: {passed} required tests pass, {expected} are expected; these do not: {never:?}");
}

/// The required tests of a run.
struct Run {
    passed: usize,
    /// But for those that no server can pass.
    failed: BTreeSet<String>,
    /// All that was printed.
    text: String,
}

fn required(package: &Path, server: &TestServer) -> Run {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/run.mjs");
    let mut node = Command::new("node");
    node.arg("--no-warnings").arg(script).arg(package).arg(format!("http://{}", server.address()));
    node.args(std::env::var_os("FREERUN_CACHE_TEST"));
    let output = node.output().expect("node runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("required "));
    let number = line.and_then(|line| line.split(' ').nth(1)).and_then(|number| number.parse().ok());
    let failed = text.lines().filter_map(|line| line.strip_prefix("not required ")?.split(' ').next());
    let failed = failed.map(str::to_owned).collect();
    match number {
        Some(passed) => Run { passed, failed, text },
        None => panic!("no counts:\n{text}\n{}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn cache(origin: &Application, lines: &str, kind: Kind) -> TestServer {
    let location = format!(
        "location / {{ proxy_pass http://{}; proxy_cache z; proxy_cache_revalidate on; {lines} }}",
        origin.address()
    );
    Setup::server(&Site::new(), &location)
        .events("worker_connections 2048;")
        .http("proxy_cache_path @DIR@/cache levels=1:2 keys_zone=z:8m;")
        .start(kind)
}

#[test]
fn with_the_defaults_of_nginx() {
    let Some(package) = package() else { return };
    let origin = origin(&package);
    let server = cache(&origin, "", Kind::under_test());
    expect("nginx's rules", &package, &server, if server.kind() == Kind::Freerun { DEFAULTS } else { NGINX });
}

#[test]
fn nginx_itself() {
    if !require::nginx() {
        return;
    }
    let Some(package) = package() else { return };
    let origin = origin(&package);
    let server = cache(&origin, "", Kind::Nginx);
    expect("nginx", &package, &server, NGINX);
}

#[test]
fn with_the_rules_of_rfc9111() {
    if !require::freerun() {
        return;
    }
    let Some(package) = package() else { return };
    let origin = origin(&package);
    let server = cache(&origin, "proxy_cache_rfc9111 on;", Kind::Freerun);
    expect("the rules of RFC 9111", &package, &server, RFC9111);
}
