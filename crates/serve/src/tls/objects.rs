//! Certificates, keys and trust that a configuration names by files: each pair is made once.

use std::collections::HashMap;
use std::io;

use freerun_conf::{Cx, Problem};
use freerun_tls::load::{CertifiedKey, Chain, Key, LoadError, inline, unopened};
use freerun_tls::verify::{Source, TrustError};

use super::files::{ConfigurationFiles, Secret};
use super::values::{FileName, PasswordFile};

/// The pairs of certificates and keys that were made already; lives in the configuration's context.
#[derive(Default)]
struct Pairs(HashMap<(FileName, FileName), CertifiedKey>);

/// A certificate with its key.
pub(super) fn pair(
    certificate: &FileName,
    key: &FileName,
    passwords: Option<&PasswordFile>,
    cx: &mut Cx,
) -> Result<CertifiedKey, Problem> {
    let both = (certificate.clone(), key.clone());
    if let Some(made) = cx.extensions.get_or_default::<Pairs>().0.get(&both) {
        return Ok(made.clone());
    }
    let key = &key_file(key, cx)?;
    let failed = |error: LoadError| {
        let blamed = match error {
            LoadError::Key(_) | LoadError::Mismatch(_) => key.spot,
            _ => certificate.spot,
        };
        blamed.blamed(Problem::new(error.words(&certificate.path, &key.path)))
    };
    let open = |what: &str, name: &FileName, error: io::Error| {
        let (path, said) = (&name.path, unopened(&name.path, &error));
        let message = format!("cannot load {what} \"{path}\": BIO_new_file() failed (SSL: {said})");
        name.spot.blamed(Problem::new(message))
    };
    let pem = read(certificate, cx).map_err(|error| open("certificate", certificate, error))?;
    let chain = Chain::from_pem(pem.bytes()).map_err(failed)?;
    let pem = read(key, cx).map_err(|error| open("certificate key", key, error))?;
    let passwords = passwords.map_or(&[][..], PasswordFile::passwords);
    let private = Key::from_pem(pem.bytes(), passwords).map_err(failed)?;
    let made = CertifiedKey::new(&chain, &private).map_err(failed)?;
    cx.extensions.get_or_default::<Pairs>().0.insert(both, made.clone());
    Ok(made)
}

/// The file that the value of `ssl_certificate_key` names, which may also be an engine or a store of OpenSSL.
fn key_file(key: &FileName, cx: &mut Cx) -> Result<FileName, Problem> {
    let written = &key.written;
    let refused = |why: &str| {
        let message = format!("cannot load certificate key \"{written}\": {why}");
        Err(key.spot.blamed(Problem::new(message)))
    };
    if let Some(engine) = written.strip_prefix("engine:") {
        return match engine.contains(':') {
            false => refused("invalid syntax"),
            true => refused("engines are not supported"),
        };
    }
    let Some(store) = written.strip_prefix("store:") else { return Ok(key.clone()) };
    match store.strip_prefix("file:") {
        Some(path) => Ok(FileName::new(path.strip_prefix("//").unwrap_or(path), key.spot, cx)),
        None => refused("of all stores, \"store:file:\" alone is supported"),
    }
}

/// The contents of a file, or of a value `data:`.
pub(super) fn read(file: &FileName, cx: &mut Cx) -> io::Result<Secret> {
    if let Some(contents) = inline(file.path.as_bytes()) {
        return Ok(Secret::new(contents.to_vec()));
    }
    cx.extensions.get_or_default::<ConfigurationFiles>().get(&file.path)
}

/// Adds a file of trusted certificates or of revocation lists.
pub(super) fn add(
    file: &FileName,
    source: Source,
    cx: &mut Cx,
    add: impl FnOnce(&[u8]) -> Result<(), TrustError>,
) -> Result<(), Problem> {
    let failed = |message| file.spot.blamed(Problem::new(message));
    let pem = read(file, cx).map_err(|error| failed(source.unopened(&file.path, &error)))?;
    add(pem.bytes()).map_err(|error| failed(error.words(&file.path)))
}
