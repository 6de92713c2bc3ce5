//! Pebble: a CA for tests, by the makers of Let's Encrypt.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use freerun_testkit::{Application, Client, TempDir, Tls, ports};

/// The release that is built. Debian's is older: it has neither renewal information nor profiles.
const RELEASE: &str = "v2.10.1";
/// How long building it may take.
const BUILD: Duration = Duration::from_secs(300);

/// The program: what `FREERUN_TEST_PEBBLE` names, or else built once, by Go, in the folder of builds.
///
/// `None`, and a line on standard error, where there is no Go or it cannot build.
pub(crate) fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| match std::env::var_os("FREERUN_TEST_PEBBLE") {
        Some(given) => Ok(PathBuf::from(given)),
        None => build(),
    });
    match program {
        Ok(path) => Some(path),
        Err(why) => {
            eprintln!("skipped: no Pebble: {why}");
            None
        }
    }
}

fn build() -> Result<PathBuf, String> {
    // Beside what cargo builds, so that it is built once.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pebble-{RELEASE}"));
    let program = folder.join("pebble");
    if program.is_file() {
        return Ok(program);
    }
    let go = ["go", "/usr/local/go/bin/go", "/usr/lib/go/bin/go"]
        .into_iter()
        .find(|go| Command::new(go).arg("version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok());
    let mut build = Command::new(go.ok_or("no Go")?)
        .args(["install", &format!("github.com/letsencrypt/pebble/v2/cmd/pebble@{RELEASE}")])
        .env("GOBIN", &folder)
        .env("GOTOOLCHAIN", "local")
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        match build.try_wait() {
            Ok(Some(status)) if status.success() && program.is_file() => return Ok(program),
            Ok(Some(status)) => return Err(format!("go install: {status}")),
            Ok(None) if begun.elapsed() < BUILD => std::thread::sleep(Duration::from_millis(50)),
            _ => {
                let _ = build.kill();
                let _ = build.wait();
                return Err("go install takes too long".to_owned());
            }
        }
    }
}

/// A CA, which may run or not. Its addresses stay when it is started again, and everything that it knew is gone then.
pub(crate) struct Ca {
    folder: TempDir,
    acme: u16,
    management: u16,
    /// The ports where it looks for answers to challenges: HTTP, TLS.
    pub(crate) answers: (u16, u16),
    /// The certificate that has issued the one of its own server.
    pub(crate) root: String,
    variables: Vec<(String, String)>,
    running: Option<Application>,
}

impl Ca {
    /// A CA that does not run yet. `more` is added to its configuration: JSON that begins with a comma.
    pub(crate) fn new(more: &str) -> Ca {
        let folder = TempDir::new("pebble");
        let (acme, management) = (ports::free(), ports::free());
        let answers = (ports::free(), ports::free());
        let key = || rcgen::KeyPair::generate().expect("a key");
        let mut root = rcgen::CertificateParams::new(Vec::new()).expect("no names");
        root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        root.distinguished_name.push(rcgen::DnType::CommonName, "root of the CA's server");
        let root_key = key();
        let root_pem = root.self_signed(&root_key).expect("a certificate").pem();
        let server_key = key();
        let server = rcgen::CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("names");
        let server = server.signed_by(&server_key, &rcgen::Issuer::new(root, root_key)).expect("a certificate");
        let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).expect("a file");
        write("cert.pem", server.pem());
        write("key.pem", server_key.serialize_pem());
        let at = folder.path().display().to_string();
        write(
            "pebble.json",
            format!(
                r#"{{"pebble": {{"listenAddress": "127.0.0.1:{acme}", "managementListenAddress": "127.0.0.1:{management}",
                "certificate": "{at}/cert.pem", "privateKey": "{at}/key.pem", "httpPort": {}, "tlsPort": {},
                "retryAfter": {{"authz": 1, "order": 1}},
                "profiles": {{"default": {{"description": "90 days", "validityPeriod": 7776000}},
                "short": {{"description": "6 days", "validityPeriod": 518400}}}}{more}}}}}"#,
                answers.0, answers.1
            ),
        );
        let variables = vec![("PEBBLE_VA_NOSLEEP".to_owned(), "1".to_owned()), variable("PEBBLE_AUTHZREUSE", "0")];
        Ca { folder, acme, management, answers, root: root_pem, variables, running: None }
    }

    /// A CA that runs.
    pub(crate) fn started() -> Ca {
        let mut ca = Ca::new("");
        ca.start();
        ca
    }

    /// Sets a variable of its environment.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push(variable(name, value));
    }

    /// Starts it, or starts it again.
    pub(crate) fn start(&mut self) {
        self.running = None;
        let mut command = Command::new(program().expect("asked for before"));
        command.arg("-config").arg(self.folder.path().join("pebble.json")).current_dir(self.folder.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.running = Some(Application::start(command, &format!("127.0.0.1:{}", self.acme), TempDir::new("output")));
    }

    /// The URL of its directory.
    pub(crate) fn uri(&self) -> String {
        format!("https://localhost:{}/dir", self.acme)
    }

    /// Asks its management interface, and gives the body of the answer.
    pub(crate) fn manage(&self, method: &str, path: &str, body: &str) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], self.management));
        let mut client = Client::connect(address).tls(&Tls::new());
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let response = client.response_to(method);
        assert_eq!(response.status, 200, "{}", response.text());
        response.text()
    }
}

fn variable(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}
