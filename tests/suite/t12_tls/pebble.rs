//! Pebble: a CA for tests, by the makers of Let's Encrypt. Debian has it.

use freerun_testkit::{Application, TempDir, certificates, ports, require};
use std::ffi::OsString;
use std::fs;
use std::process::Command;

/// The program: what `FREERUN_TEST_PEBBLE` names, or else that of the system.
fn program() -> Option<OsString> {
    let given = std::env::var_os("FREERUN_TEST_PEBBLE");
    given.or_else(|| require::program("pebble").map(Into::into))
}

/// A CA, which may run or not. Its addresses stay when it is started again, and everything that it knew is gone then.
pub(crate) struct Ca {
    program: OsString,
    folder: TempDir,
    port: u16,
    /// The port where it looks at challenges of http-01.
    pub(crate) http: u16,
    /// The port where it looks at challenges of tls-alpn-01.
    pub(crate) tls: u16,
    running: Option<Application>,
}

impl Ca {
    /// A CA that does not run yet; `None` if the program is missing.
    pub(crate) fn new() -> Option<Ca> {
        let program = program()?;
        let folder = TempDir::new("pebble");
        let [port, management, http, tls] = std::array::from_fn(|_| ports::free());
        let certs = certificates().folder().display();
        let text = format!(
            r#"{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",
                 "certificate": "{certs}/ec.crt", "privateKey": "{certs}/ec.key", "httpPort": {http}, "tlsPort": {tls},
                 "ocspResponderURL": "", "externalAccountBindingRequired": false}}}}"#
        );
        fs::write(folder.path().join("pebble.json"), text).expect("a file");
        Some(Ca { program, folder, port, http, tls, running: None })
    }

    /// A CA that runs; `None` if the program is missing.
    pub(crate) fn started() -> Option<Ca> {
        let mut ca = Ca::new()?;
        ca.start();
        Some(ca)
    }

    /// Starts it.
    pub(crate) fn start(&mut self) {
        let mut command = Command::new(&self.program);
        command.arg("-config").arg(self.folder.path().join("pebble.json")).current_dir(self.folder.path());
        command.envs([("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_AUTHZREUSE", "0")]);
        self.running = Some(Application::start(command, &format!("127.0.0.1:{}", self.port), TempDir::new("output")));
    }

    /// Ends it.
    pub(crate) fn stop(&mut self) {
        self.running = None;
    }

    /// The URL of its directory.
    pub(crate) fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.port)
    }

    /// The block `acme_issuer` for it, of this name, with these lines more.
    pub(crate) fn issuer(&self, name: &str, lines: &str) -> String {
        format!(
            "acme_issuer {name} {{ uri {}; ssl_trusted_certificate @CERTS@/ca.crt;
                                   accept_terms_of_service; state_path @DIR@/state-{name}; {lines} }}\n",
            self.directory()
        )
    }
}
