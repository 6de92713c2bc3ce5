//! Pebble: a CA for tests, by the makers of Let's Encrypt.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use freerun_testkit::{Application, TempDir, TestClient, Tls, ports, require, within};

/// The release that is built. Debian's is older: it has neither renewal information nor profiles.
const RELEASE: &str = "v2.10.1";
/// How long building it may take.
const BUILD: Duration = Duration::from_secs(300);
/// The longest time for its second address to listen after the first.
const START: Duration = Duration::from_secs(20);

/// The program.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// Whether it has renewal information and profiles.
    pub(crate) complete: bool,
}

/// The program: what `FREERUN_TEST_PEBBLE` names, or else built once, by Go, in the folder of builds, or else Debian's.
///
/// `None`, and a line on standard error, where there is none of these.
pub(crate) fn program() -> Option<&'static Program> {
    static PROGRAM: OnceLock<Option<Program>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        if let Some(given) = std::env::var_os("FREERUN_TEST_PEBBLE") {
            return Some(Program { path: PathBuf::from(given), complete: true });
        }
        match build() {
            Ok(path) => Some(Program { path, complete: true }),
            Err(why) => {
                eprintln!("Pebble is not built: {why}");
                let path = PathBuf::from("pebble");
                starts(&path, "-version").then_some(Program { path, complete: false })
            }
        }
    });
    require::need("pebble", program.is_some(), "no Pebble");
    program.as_ref()
}

/// Whether there is a program of this name. Pebble ends at once with an option that it does not know, too.
fn starts(program: &Path, option: &str) -> bool {
    Command::new(program).arg(option).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn build() -> Result<PathBuf, String> {
    // Beside what cargo builds, so that it is built once.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pebble-{RELEASE}"));
    let program = folder.join("pebble");
    if program.is_file() {
        return Ok(program);
    }
    let mut build = Command::new("go")
        .args(["install", &format!("github.com/letsencrypt/pebble/v2/cmd/pebble@{RELEASE}")])
        .env("GOBIN", &folder)
        .env("GOTOOLCHAIN", "local")
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| format!("go: {error}"))?;
    if within(BUILD, || build.try_wait().is_ok_and(|status| status.is_some())) && program.is_file() {
        return Ok(program);
    }
    let _ = build.kill();
    build.wait().map_or_else(|error| Err(error.to_string()), |status| Err(format!("go install: {status}")))
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
                "retryAfter": {{"authz": 1, "order": 1}}, "certificateValidityPeriod": 7776000{more}}}}}"#,
                answers.0, answers.1
            ),
        );
        // Without these it waits, refuses good nonces and leaves out challenges by chance.
        let settings = [("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")];
        let variables = settings.map(|(name, value)| variable(name, value)).to_vec();
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
        let mut command = Command::new(&program().expect("asked for before").path);
        command.arg("-config").arg(self.folder.path().join("pebble.json")).current_dir(self.folder.path());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        self.running = Some(Application::start(command, &format!("127.0.0.1:{}", self.acme), TempDir::new("output")));
        // It listens there from another thread.
        let managed = within(START, || TcpStream::connect(("127.0.0.1", self.management)).is_ok());
        assert!(managed, "Pebble's management interface does not listen");
    }

    /// The URL of its directory.
    pub(crate) fn uri(&self) -> String {
        format!("https://localhost:{}/dir", self.acme)
    }

    /// Asks its management interface, and gives the body of the answer.
    pub(crate) fn manage(&self, method: &str, path: &str, body: &str) -> String {
        let address = SocketAddr::from(([127, 0, 0, 1], self.management));
        let mut client = TestClient::connect(address).tls(&Tls::new());
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
