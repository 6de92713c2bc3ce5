//! Certificates, keys and trust that a configuration names by files: each pair is made once.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use freerun_conf::{Cx, Problem};
use freerun_tls::load::{CertificateKey, CertifiedKey, Chain, LoadError, Problem as PemProblem, inline, unopened};
use freerun_tls::verify::{TrustError, TrustSource};

use super::files::{ConfigurationFiles, KnownFile, Secret, SecretFiles, full_path};
use super::inherited_pairs::{Contents, Inheritance};
use super::values::{FileName, PasswordFile};

/// The pairs of certificates and keys that were made already; lives in the configuration's context.
#[derive(Default)]
struct Pairs(HashMap<PairFiles, MadePair>);

/// Files that directives name for a pair: the certificate, its key, and the file with passwords. Another server without
/// that file may not be able to use the same encrypted key.
type PairFiles = (FileName, FileName, Option<PasswordFile>);

/// A pair with what it was made of.
#[derive(Clone)]
pub(super) struct MadePair {
    pub(super) key: CertifiedKey,
    pub(super) files: FilePair,
}

/// A certificate and its key as files, or `data:`, that a configuration names.
#[derive(Debug, Clone)]
pub struct FilePair {
    /// The full path of the certificate.
    pub certificate: String,
    /// The full path of the key.
    pub key: String,
    passwords: Option<PasswordFile>,
    /// Interval at which the files are looked at for a change while the server runs (`watch`); `None`: they are not.
    pub watch: Option<Duration>,
}

impl FilePair {
    /// A pair of these paths, which is not watched and has no passwords.
    pub fn new(certificate: &str, key: &str) -> FilePair {
        FilePair { certificate: certificate.to_owned(), key: key.to_owned(), passwords: None, watch: None }
    }

    /// A name that pairs of other files do not have.
    pub fn name(&self) -> String {
        format!("{} with {}", self.certificate, self.key)
    }

    /// Whether it is made of files that are all among these.
    pub fn is_among(&self, files: &SecretFiles) -> bool {
        [&self.certificate, &self.key].iter().all(|path| files.contains_key(*path))
    }

    /// The certificate and the key, made of what is known of the files.
    ///
    /// # Errors
    /// They cannot be used, or not together: nginx's line.
    pub fn make(&self, files: &SecretFiles) -> Result<CertifiedKey, String> {
        let read = |path: &str| match inline(path.as_bytes()) {
            Some(contents) => Ok(Secret::new(contents.to_vec())),
            None => files.get(path).map_or_else(|| Err(io::ErrorKind::NotFound.into()), KnownFile::contents),
        };
        let passwords = self.passwords.as_ref().map_or(&[][..], PasswordFile::passwords);
        make(&self.certificate, &self.key, passwords, read).map_err(|unusable| unusable.line)
    }
}

/// The pairs of files of the configuration that is being read. Those whose names have variables are not among them.
pub fn file_pairs(cx: &mut Cx) -> Vec<FilePair> {
    cx.extensions.get_or_default::<Pairs>().0.values().map(|made| made.files.clone()).collect()
}

/// A certificate with its key, which directives with this prefix name: `proxy_`, for example.
pub(super) fn pair(
    prefix: &str,
    certificate: &FileName,
    key: &FileName,
    passwords: Option<&PasswordFile>,
    cx: &mut Cx,
) -> Result<MadePair, Problem> {
    let named: PairFiles = (certificate.clone(), key.clone(), passwords.cloned());
    if let Some(made) = cx.extensions.get_or_default::<Pairs>().0.get(&named) {
        return Ok(made.clone());
    }
    let key_path = key_path(&key.written, &key.path, |name| full_path(name, cx));
    let key_path = key_path.map_err(|why| key.spot.blamed(Problem::new(why)))?;
    let passwords = passwords.map_or(&[][..], PasswordFile::passwords);
    let known = match (read_path(&certificate.path, cx), read_path(&key_path, cx)) {
        (Ok(certificate), Ok(key)) => Some(Contents::of(&certificate, &key, passwords)),
        _ => None,
    };
    let inheritance = cx.extensions.get_or_default::<Inheritance>();
    let made = match known.as_ref().and_then(|contents| inheritance.get(contents)) {
        Some(made) => made,
        None => {
            let made = make(&certificate.path, &key_path, passwords, |path| read_path(path, cx));
            let made = made.map_err(|Unusable { whose, line, help }| {
                let named = if whose == UnusableFile::Key { key } else { certificate };
                let help = match help {
                    Some(NO_FILE) if named.written.starts_with('/') => Some("there is no such file"),
                    help => help,
                };
                let help = help.map(|help| help.replace(PASSWORD_FILE, &format!("{prefix}{PASSWORD_FILE}")));
                named.spot.blamed(Problem::new(line).hint_if(help))
            })?;
            if let Some(contents) = known {
                cx.extensions.get_or_default::<Inheritance>().put(&contents, &made);
            }
            made
        }
    };
    let (certificate, passwords, watch) = (certificate.path.clone(), named.2.clone(), certificate.watch);
    let files = FilePair { certificate, key: key_path, passwords, watch };
    let made = MadePair { key: made, files };
    cx.extensions.get_or_default::<Pairs>().0.insert(named, made.clone());
    Ok(made)
}

/// Which of two files cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnusableFile {
    Certificate,
    Key,
}

/// Reason why a certificate and a key cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unusable {
    /// Which of them is to blame.
    pub(super) whose: UnusableFile,
    /// nginx's line.
    pub(super) line: String,
    /// Advice on how to repair it.
    pub(super) help: Option<&'static str>,
}

/// A certificate with its key, from these paths or `data:` values, which `read` gives the contents of.
pub(super) fn make<P: AsRef<[u8]>>(
    certificate: &str,
    key: &str,
    passwords: &[P],
    mut read: impl FnMut(&str) -> io::Result<Secret>,
) -> Result<CertifiedKey, Unusable> {
    let failed = |error: LoadError| {
        let whose = match error {
            LoadError::Key(_) | LoadError::Mismatch(_) => UnusableFile::Key,
            _ => UnusableFile::Certificate,
        };
        let mismatch = matches!(error, LoadError::Mismatch(_));
        let help =
            mismatch.then_some("the key is not that of the certificate, or the file has the certificate of a CA first");
        Unusable { whose, line: error.words(certificate, key), help }
    };
    let open = |whose, what: &str, path: &str, error: io::Error| {
        let said = unopened(path, &error);
        let help = match error.kind() {
            io::ErrorKind::NotFound => Some(NO_FILE),
            io::ErrorKind::PermissionDenied => Some("the user who starts the server has to be able to read the file"),
            _ => None,
        };
        Unusable { whose, line: format!("cannot load {what} \"{path}\": BIO_new_file() failed (SSL: {said})"), help }
    };
    let pem = read(certificate).map_err(|error| open(UnusableFile::Certificate, "certificate", certificate, error))?;
    let chain = Chain::from_pem(pem.bytes()).map_err(|error| {
        let help = help_for_certificate(&error, pem.bytes());
        Unusable { help, ..failed(error) }
    })?;
    let pem = read(key).map_err(|error| open(UnusableFile::Key, "certificate key", key, error))?;
    let private = CertificateKey::from_pem(pem.bytes(), passwords).map_err(|error| {
        let help = help_for_key(&error, pem.bytes());
        Unusable { help, ..failed(error) }
    })?;
    CertifiedKey::new(&chain, &private).map_err(failed)
}

/// Help for a file that is not there; with an absolute path there is no more to say than nginx's line does.
const NO_FILE: &str = "there is no such file; a relative path begins in the folder of the configuration";

/// The directive that names passwords, as texts of help have it, without the prefix of its family.
const PASSWORD_FILE: &str = "ssl_password_file";

/// Help for a file without contents.
const EMPTY: &str = "the file is empty, or is a folder";

fn help_for_certificate(error: &LoadError, pem: &[u8]) -> Option<&'static str> {
    match error {
        LoadError::Certificate(PemProblem::NoStartLine) if pem.trim_ascii().is_empty() => Some(EMPTY),
        LoadError::Certificate(PemProblem::NoStartLine) if has(pem, b"PRIVATE KEY-----") => {
            Some("the file has a key and no certificate: were the files of the two directives swapped?")
        }
        LoadError::Certificate(PemProblem::NoStartLine) => Some(
            "a certificate begins with \"-----BEGIN CERTIFICATE-----\"; openssl x509 -inform DER makes that of others",
        ),
        _ => None,
    }
}

fn help_for_key(error: &LoadError, pem: &[u8]) -> Option<&'static str> {
    match error {
        LoadError::Key(PemProblem::NoStartLine) if pem.trim_ascii().is_empty() => Some(EMPTY),
        LoadError::Key(PemProblem::NoStartLine) if has(pem, b"BEGIN CERTIFICATE-----") => {
            Some("the file has a certificate and no key: were the files of the two directives swapped?")
        }
        LoadError::Key(PemProblem::NoPassword) => {
            Some("the key is encrypted: \"ssl_password_file\" names the file with its password")
        }
        LoadError::Key(PemProblem::BadDecrypt) => Some("no password in the file of \"ssl_password_file\" fits"),
        _ => None,
    }
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The path of the file that a value of `ssl_certificate_key` names, which may also be an engine or a store of OpenSSL.
/// `path` is the value's path if it is the name of a file.
///
/// # Errors
/// The line for what is not there.
pub(super) fn key_path(written: &str, path: &str, full: impl FnOnce(&str) -> String) -> Result<String, String> {
    let refused = |why: &str| Err(format!("cannot load certificate key \"{written}\": {why}"));
    if let Some(engine) = written.strip_prefix("engine:") {
        return refused(if engine.contains(':') { "engines are not supported" } else { "invalid syntax" });
    }
    let Some(store) = written.strip_prefix("store:") else { return Ok(path.to_owned()) };
    match store.strip_prefix("file:") {
        Some(path) => Ok(full(path.strip_prefix("//").unwrap_or(path))),
        None => refused("of all stores, \"store:file:\" alone is supported"),
    }
}

/// The contents of a file, or of a value `data:`.
pub(super) fn read(file: &FileName, cx: &mut Cx) -> io::Result<Secret> {
    read_path(&file.path, cx)
}

fn read_path(path: &str, cx: &mut Cx) -> io::Result<Secret> {
    match inline(path.as_bytes()) {
        Some(contents) => Ok(Secret::new(contents.to_vec())),
        None => cx.extensions.get_or_default::<ConfigurationFiles>().get(path),
    }
}

/// Adds a file of trusted certificates or of revocation lists.
pub(super) fn add(
    file: &FileName,
    source: TrustSource,
    cx: &mut Cx,
    add: impl FnOnce(&[u8]) -> Result<(), TrustError>,
) -> Result<(), Problem> {
    let failed = |message| file.spot.blamed(Problem::new(message));
    let pem = read(file, cx).map_err(|error| failed(source.unopened(&file.path, &error)))?;
    add(pem.bytes()).map_err(|error| failed(error.words(&file.path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::files::{KnownFile, SecretFiles};
    use crate::tls::fixtures;
    use crate::tls::inherited_pairs::InheritedPairs;
    use crate::tls::values::Spot;
    use freerun_conf::Sources;

    /// Reads `/a` and `/b`, with the contents of these fixtures, after a configuration with these pairs. Tells the address of
    /// what was made of each.
    fn read(a: &str, b: &str, earlier: InheritedPairs) -> ([*const u8; 2], InheritedPairs) {
        let mut cx = Cx::new(Sources::default());
        let files = [("/a", a), ("/b", b)].into_iter().flat_map(|(path, name)| {
            ["crt", "key"].map(|end| {
                (format!("{path}.{end}"), KnownFile::read(fixtures::contents(&format!("{name}.{end}")), None))
            })
        });
        cx.extensions.insert(ConfigurationFiles::known(files.collect::<SecretFiles>()));
        cx.extensions.insert(Inheritance::after(earlier));
        let made = ["/a", "/b"].map(|path| {
            let [certificate, key] =
                ["crt", "key"].map(|end| FileName::new(&format!("{path}.{end}"), Spot::nowhere(), &mut cx));
            let made = pair("", &certificate, &key, None, &mut cx).expect("a pair");
            made.key.chain().next().expect("a certificate").as_ptr()
        });
        (made, cx.extensions.remove::<Inheritance>().expect("it was inserted").finish())
    }

    #[test]
    fn a_pair_is_made_anew_only_if_its_contents_have_changed() {
        let ([a, b], first) = read("ec", "rsa", InheritedPairs::default());
        assert_ne!(a, b);
        let ([same, changed], second) = read("ec", "ed25519", first.clone());
        assert_eq!(same, a);
        assert_ne!(changed, b);
        let ([moved, _], third) = read("rsa", "rsa", first.clone());
        assert_eq!(moved, b, "the names of files do not matter");
        drop((first, third));
        let ([_, again], _) = read("ec", "rsa", second.clone());
        let ([_, kept], _) = read("ec", "ed25519", second);
        assert_eq!(kept, changed);
        assert_ne!(again, changed, "what a configuration has not used is not kept for the next");
    }
}
