//! Certificates for tests, made by the command `openssl` once for a process.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A folder of certificates, keys and revocation lists, in PEM. For each name there are `NAME.crt` and `NAME.key`:
///
/// | name | what it is |
/// |---|---|
/// | `ca` | an authority (EC), `CN=Authority` |
/// | `middle` | an authority signed by `ca`, `CN=Middle` |
/// | `strangers` | another authority, `CN=Strangers` |
/// | `rsa`, `ec` | certificates for `localhost` and `*.example.com`, signed by `ca`: RSA of 2048 bits and EC P-256 |
/// | `other` | one for `other.example.com` (EC), signed by `ca` |
/// | `foreign` | one for `localhost` (EC), signed by `strangers` |
/// | `named` | one without names but `CN=localhost` (EC), signed by `ca` |
/// | `self` | one for `localhost` (EC) that is signed by itself |
/// | `stale` | one for `localhost` (EC), signed by `ca`, that has expired |
/// | `withdrawn` | one for `localhost` (EC), signed by `ca`, that is on the list `ca.crl` |
/// | `below` | one for `localhost` (EC), signed by `middle`; `below-chain.crt` has `middle`, too |
/// | `client` | a client's (EC, serial number 0x1001), signed by `ca` |
/// | `client-rsa` | a client's (RSA), signed by `ca` |
/// | `client-other` | another client's (EC), signed by `strangers` |
/// | `client-below` | a client's (EC), signed by `middle`; `client-below-chain.crt` has `middle`, too |
/// | `client-stale` | a client's (EC), signed by `ca`, that has expired |
/// | `client-withdrawn` | a client's (EC), signed by `ca`, that is on the list `ca.crl` |
///
/// `ca.crl` and `middle.crl` are the authorities' revocation lists. `locked.key` is the key of `ec` in PKCS #8,
/// encrypted with the password `secret`; `old-locked.key` is the key of `rsa` in the old form with `DEK-Info`.
/// `secret.txt` has the password `secret` on its second line. `tickets-48.key` and `tickets-80.key` are for
/// `ssl_session_ticket_key`.
#[derive(Debug)]
pub struct Certificates {
    folder: PathBuf,
}

/// The certificates of this process; the first call makes them. In a configuration, `@CERTS@` stands for their folder.
///
/// # Panics
/// The command `openssl` is missing or fails.
pub fn certificates() -> &'static Certificates {
    static MADE: OnceLock<Certificates> = OnceLock::new();
    MADE.get_or_init(|| {
        remove_left();
        let folder = std::env::temp_dir().join(format!("{NAME}{}", std::process::id()));
        // A process of an earlier run may have had the same id.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let made = Certificates { folder };
        made.make();
        made
    })
}

/// Beginning of the name of a folder; the process's id follows.
const NAME: &str = "freerun-certificates-";

/// Removes the folders of processes that have ended: nothing drops a value that a whole process uses.
fn remove_left() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix(NAME)) else { continue };
        if !Path::new("/proc").join(id).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Extensions of certificates.
const CONFIGURATION: &str = "[req]\ndistinguished_name = empty\nprompt = no\n[empty]\n\
    [ca]\ndefault_ca = lists\n[lists]\ndefault_md = sha256\ndatabase = withdrawn.txt\nnew_certs_dir = .\n\
    serial = serial.txt\npolicy = any\nunique_subject = no\n[any]\norganizationName = optional\ncommonName = supplied\n\
    [authority]\nbasicConstraints = critical, CA:TRUE\nsubjectKeyIdentifier = hash\n\
    [plain]\nbasicConstraints = CA:FALSE\n\
    [local]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:localhost, DNS:*.example.com\n\
    [other]\nbasicConstraints = CA:FALSE\nsubjectAltName = DNS:other.example.com\n";

const EC: &[&str] = &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
const RSA: &[&str] = &["rsa:2048"];

impl Certificates {
    /// The path of a file in the folder.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The text of a file.
    ///
    /// # Panics
    /// There is no such file.
    pub fn text(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// The first certificate of a file, in DER.
    ///
    /// # Panics
    /// There is none.
    pub fn der(&self, file: &str) -> Vec<u8> {
        use rustls::pki_types::pem::PemObject;
        let first = rustls::pki_types::CertificateDer::from_pem_file(self.path(file));
        first.unwrap_or_else(|error| panic!("{file}: {error}")).to_vec()
    }

    /// The output of `openssl x509` for a certificate with these arguments, without the name of the field before `=`.
    ///
    /// # Panics
    /// The command fails.
    pub fn says(&self, file: &str, arguments: &[&str]) -> String {
        let said = self.openssl(&[&["x509", "-noout", "-in", file], arguments].concat());
        said.trim_end().split_once('=').map_or(said.trim_end(), |(_, value)| value).to_owned()
    }

    /// Runs `openssl` in the folder and returns its standard output.
    ///
    /// # Panics
    /// The command is missing or fails.
    pub fn openssl(&self, arguments: &[&str]) -> String {
        let output = Command::new("openssl").args(arguments).current_dir(&self.folder).output();
        let output = output.unwrap_or_else(|error| panic!("openssl: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {}: {said}", arguments.join(" "));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn make(&self) {
        self.write("openssl.cnf", CONFIGURATION);
        self.write("withdrawn.txt", "");
        self.write("serial.txt", "5001\n");
        self.authority("ca", "Authority", None);
        self.authority("strangers", "Strangers", None);
        self.authority("middle", "Middle", Some("ca"));
        // The certificates do not depend on each other.
        let signed: [(&str, &str, &str, &str, &[&str]); 11] = [
            ("rsa", "localhost", "local", "ca", RSA),
            ("ec", "localhost", "local", "ca", EC),
            ("other", "other.example.com", "other", "ca", EC),
            ("foreign", "localhost", "local", "strangers", EC),
            ("named", "localhost", "plain", "ca", EC),
            ("withdrawn", "localhost", "local", "ca", EC),
            ("below", "localhost", "local", "middle", EC),
            ("client", "Client, \"the first\"", "plain", "ca", EC),
            ("client-rsa", "Client of RSA", "plain", "ca", RSA),
            ("client-other", "Stranger", "plain", "strangers", EC),
            ("client-below", "Client below", "plain", "middle", EC),
        ];
        for (number, (name, common, extensions, by, key)) in (0x1000..).zip(signed) {
            let number = if name == "client" { 0x1001 } else { number + 0x100 };
            self.signed(name, common, extensions, Some(by), key, number);
        }
        self.signed("self", "localhost", "local", None, EC, 0x2000);
        self.signed("client-withdrawn", "Client withdrawn", "plain", Some("ca"), EC, 0x2001);
        self.expired("stale", "localhost", "local");
        self.expired("client-stale", "Client of old", "plain");
        for name in ["below", "client-below"] {
            self.write(&format!("{name}-chain.crt"), &(self.text(&format!("{name}.crt")) + &self.text("middle.crt")));
        }
        let withdrawn: HashMap<&str, String> = ["withdrawn", "client-withdrawn"]
            .map(|name| (name, self.says(&format!("{name}.crt"), &["-serial"])))
            .into();
        let line = |number: &String| format!("R\t491231000000Z\t250101000000Z\t{number}\tunknown\t/CN=withdrawn\n");
        self.write("withdrawn.txt", &withdrawn.values().map(line).collect::<String>());
        self.list("ca");
        self.write("withdrawn.txt", "");
        self.list("middle");
        self.write("secret.txt", "wrong\nsecret\n");
        let locked = ["-passout", "pass:secret"];
        self.openssl(
            &[&["pkcs8", "-topk8", "-v2", "aes-128-cbc", "-in", "ec.key", "-out", "locked.key"][..], &locked].concat(),
        );
        let old = ["rsa", "-in", "rsa.key", "-traditional", "-aes128", "-out", "old-locked.key"];
        self.openssl(&[&old[..], &locked].concat());
        self.openssl(&["rand", "-out", "tickets-48.key", "48"]);
        self.openssl(&["rand", "-out", "tickets-80.key", "80"]);
        self.readable();
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    fn authority(&self, name: &str, common: &str, by: Option<&str>) {
        self.signed(name, common, "authority", by, EC, 0x10 + common.len() as u32);
    }

    fn signed(&self, name: &str, common: &str, extensions: &str, by: Option<&str>, key: &[&str], number: u32) {
        let (crt, own_key) = (format!("{name}.crt"), format!("{name}.key"));
        let subject = format!("/O=Tests/CN={common}");
        let number = number.to_string();
        let mut arguments = vec!["req", "-x509", "-config", "openssl.cnf", "-nodes", "-days", "30", "-utf8"];
        arguments.extend(["-extensions", extensions, "-set_serial", &number, "-subj", &subject]);
        arguments.extend(["-out", &crt, "-keyout", &own_key, "-newkey"]);
        arguments.extend(key);
        let authority = by.map(|by| (format!("{by}.crt"), format!("{by}.key")));
        if let Some((crt, key)) = &authority {
            arguments.extend(["-CA", crt, "-CAkey", key]);
        }
        self.openssl(&arguments);
    }

    fn expired(&self, name: &str, common: &str, extensions: &str) {
        let (crt, key, request) = (format!("{name}.crt"), format!("{name}.key"), format!("{name}.csr"));
        let subject = format!("/O=Tests/CN={common}");
        let new =
            ["req", "-new", "-config", "openssl.cnf", "-nodes", "-subj", &subject, "-out", &request, "-keyout", &key];
        self.openssl(&[&new[..], &["-newkey"], EC].concat());
        let sign =
            ["ca", "-batch", "-config", "openssl.cnf", "-notext", "-in", &request, "-out", &crt, "-keyfile", "ca.key"];
        let times = ["-cert", "ca.crt", "-startdate", "20200101000000Z", "-enddate", "20200301000000Z"];
        self.openssl(&[&sign[..], &times, &["-extensions", extensions]].concat());
    }

    fn list(&self, name: &str) {
        let (crt, key, list) = (format!("{name}.crt"), format!("{name}.key"), format!("{name}.crl"));
        let arguments = ["ca", "-config", "openssl.cnf", "-gencrl", "-crldays", "30", "-keyfile", &key, "-cert", &crt];
        self.openssl(&[&arguments[..], &["-out", &list]].concat());
    }

    /// Lets every user read the folder: a test that wants a key to be root's makes a copy.
    fn readable(&self) {
        use std::os::unix::fs::PermissionsExt;
        let _ = fs::set_permissions(&self.folder, fs::Permissions::from_mode(0o755));
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_what_their_names_say() {
        let made = certificates();
        let holds = |file: &str, list: &[&str]| {
            let verify = [&["verify", "-CAfile", "ca.crt"], list, &[file]].concat();
            Command::new("openssl").args(verify).current_dir(made.folder()).output().expect("openssl").status.success()
        };
        let listed = ["-crl_check", "-CRLfile", "ca.crl"];
        let below = ["-untrusted", "middle.crt"];
        for good in ["rsa.crt", "ec.crt", "other.crt", "named.crt", "withdrawn.crt", "client.crt", "client-rsa.crt"] {
            assert!(holds(good, &[]), "{good}");
        }
        for bad in ["foreign.crt", "self.crt", "stale.crt", "below.crt", "client-other.crt", "client-stale.crt"] {
            assert!(!holds(bad, &[]), "{bad}");
        }
        assert!(holds("ec.crt", &listed) && holds("client.crt", &listed));
        assert!(!holds("withdrawn.crt", &listed) && !holds("client-withdrawn.crt", &listed));
        assert!(holds("below.crt", &below) && holds("client-below.crt", &below));
        assert_eq!(made.says("client.crt", &["-serial"]), "1001");
        assert_eq!(made.text("below-chain.crt").matches("BEGIN CERTIFICATE").count(), 2);
        assert!(made.text("locked.key").contains("ENCRYPTED PRIVATE KEY"));
        assert!(made.text("old-locked.key").contains("DEK-Info"));
    }
}
