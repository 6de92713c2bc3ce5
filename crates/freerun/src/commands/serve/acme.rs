//! The certificate of `freerun serve --tls NAME`: it is ordered of a CA by ACME, as the lines of a configuration say it.

use std::fs::{self, DirBuilder};
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use freerun_acme::Identifier;
use freerun_conf::text_of_os;
use freerun_runtime::log::Errno;

use crate::cli::{SERVE_DIRECTORY, ServeAcme};
use crate::quoting::conf_quoted;

/// The word that is no name of a server, but of the local authority.
const INTERNAL: &str = "internal";

/// The folder of accounts and certificates below the folder of the program's data.
const FOLDER: &str = "acme";

/// Lines of the configuration.
#[derive(Debug, PartialEq, Eq)]
pub struct Lines {
    /// Directives of `http`.
    pub http: String,
    /// Directives of the server that serves the folder and listens at `https`.
    pub server: String,
}

impl ServeAcme {
    /// Refuses names that the CA gives nobody a certificate for. The default CA is open to the world: asking it for
    /// such a name only opens ports, and counts against the owner's limits there.
    ///
    /// # Errors
    /// There is such a name: a sentence about it.
    pub fn check_names(&self) -> Result<(), String> {
        self.names.iter().try_for_each(|name| {
            let hint = match freerun_conf::near(name, [INTERNAL].into_iter()) {
                Some(near) => format!("; did you mean \"--tls {near}\"?"),
                None if !name.is_ascii() => "; write it in the form xn--…".to_owned(),
                None => String::new(),
            };
            let refused =
                |why: &dyn std::fmt::Display| Err(format!("serve: no certificate for \"{name}\": {why}{hint}"));
            match Identifier::parse(name) {
                Err(why) => refused(&why),
                Ok(Identifier::Dns(host)) if self.directory == SERVE_DIRECTORY && !host.contains('.') => {
                    refused(&"a public name has a dot")
                }
                Ok(Identifier::Dns(host)) if self.directory == SERVE_DIRECTORY && host.contains('_') => {
                    refused(&"a public name has letters, digits, \"-\" and dots alone")
                }
                Ok(_) => Ok(()),
            }
        })
    }

    /// The directives for the certificate. `state` is the folder for accounts and certificates.
    ///
    /// # Errors
    /// A file is not there.
    pub fn lines(&self, https: SocketAddr, state: Option<&Path>) -> Result<Lines, String> {
        let state = state.map_or("off".to_owned(), |path| conf_quoted(&text_of_os(path)));
        let challenge = if self.http.is_some() { "http-01" } else { "tls-alpn-01" };
        let mut issuer = format!(
            "    acme_issuer ca {{\n        uri {};\n        challenge {challenge};\n        state_path {state};\n        \
             accept_terms_of_service;\n",
            conf_quoted(&self.directory)
        );
        if let Some(email) = &self.email {
            issuer += &format!("        contact {};\n", conf_quoted(email));
        }
        if let Some(file) = &self.ca {
            let failed = |error| format!("\"{}\" ({})", text_of_os(file), Errno(&error));
            let path = fs::canonicalize(file).map_err(failed)?;
            issuer += &format!("        ssl_trusted_certificate {};\n", conf_quoted(&text_of_os(&path)));
        }
        issuer += "    }\n";
        let names = self.names.iter().map(|name| conf_quoted(name)).collect::<Vec<_>>().join(" ");
        let port = if https.port() == 443 { String::new() } else { format!(":{}", https.port()) };
        let redirect = self.http.map(|address| {
            format!(
                "    server {{\n        listen {address};\n        return 301 https://$host{port}$request_uri;\n    }}\n"
            )
        });
        let server = format!(
            "        http2 on;\n        server_name {names};\n        ssl_certificate auto;\n        \
             error_page 497 =302 https://$http_host$request_uri;\n"
        );
        Ok(Lines { http: issuer + &redirect.unwrap_or_default(), server })
    }
}

/// The folder for accounts and certificates, below the folder of the program's data. It is made for this user alone.
///
/// # Errors
/// It cannot be made: the error has its name.
pub fn folder(data: Option<PathBuf>) -> Result<Option<PathBuf>, String> {
    let Some(data) = data else { return Ok(None) };
    let folder = data.join(FOLDER);
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| format!("\"{}\" cannot be made ({})", text_of_os(&folder), Errno(&error)))?;
    Ok(Some(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_nobody_gets_a_certificate_for_are_refused() {
        let check = |directory: &str, name: &str| {
            let names = vec!["a.example".to_owned(), name.to_owned()];
            ServeAcme { names, directory: directory.to_owned(), ca: None, email: None, http: None }.check_names()
        };
        let said = |name: &str| check(SERVE_DIRECTORY, name).expect_err(name);
        let told = "serve: no certificate for \"intenal\": a public name has a dot; did you mean \"--tls internal\"?";
        assert_eq!(said("intenal"), told);
        assert!(said("foo_bar.example").contains("letters, digits"));
        assert!(said("bücher.example").contains("xn--"));
        for name in ["", "*.a.example", "a b.example", "-a.example", "a..example", "https://a.example/", "1.2.3"] {
            said(name);
        }
        assert_eq!(check(SERVE_DIRECTORY, "www.A.example."), Ok(()));
        // A CA of one's own may know other names.
        assert_eq!(check("https://ca.local/", "my_box"), Ok(()));
        assert!(check("https://ca.local/", "a b").is_err());
    }

    #[test]
    fn no_text_leads_out_of_its_word() {
        let acme = ServeAcme {
            names: vec!["a\"; b".to_owned(), "\\".to_owned()],
            directory: "https://x/".to_owned(),
            ca: None,
            email: Some("a@b.example".to_owned()),
            http: None,
        };
        let lines = acme.lines("127.0.0.1:443".parse().unwrap(), None).expect("lines");
        assert!(lines.server.contains(r#"server_name "a\"; b" "\\";"#), "{}", lines.server);
        for part in ["uri \"https://x/\";", "challenge tls-alpn-01;", "state_path off;", "contact \"a@b.example\";"] {
            assert!(lines.http.contains(part), "{}", lines.http);
        }
        let with = ServeAcme { http: Some("127.0.0.1:80".parse().unwrap()), ..acme };
        let lines = with.lines("127.0.0.1:8443".parse().unwrap(), Some(Path::new("/s t"))).expect("lines");
        for part in
            ["challenge http-01;", "state_path \"/s t\";", "https://$host:8443$request_uri", "listen 127.0.0.1:80;"]
        {
            assert!(lines.http.contains(part), "{}", lines.http);
        }
        let none = ServeAcme { ca: Some("/none/ca.pem".into()), ..with };
        assert!(none.lines("127.0.0.1:8443".parse().unwrap(), None).is_err_and(|why| why.contains("/none/ca.pem")));
    }
}
