//! Certificates, keys and trust that a configuration names by files: each pair is made once.

use std::collections::HashMap;
use std::io;

use freerun_conf::{Cx, Problem};
use freerun_tls::load::{CertifiedKey, Chain, Key, inline, passwords, unopened};
use freerun_tls::verify::{Source, TrustError};
use zeroize::Zeroizing;

use super::files::{ConfigurationFiles, Secret};
use super::values::FileName;
use super::words::unreadable;

/// The pairs of certificates and keys that were made already; lives in the configuration's context.
#[derive(Default)]
struct Pairs(HashMap<(FileName, FileName), CertifiedKey>);

/// The passwords in a password file, if there is one.
pub(super) fn passwords_of(file: Option<&FileName>, cx: &mut Cx) -> Result<Vec<Zeroizing<Vec<u8>>>, Problem> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let read = read(file, cx).map_err(|(path, error)| unreadable(&format!("open() \"{path}\" failed"), &error))?;
    Ok(passwords(read.bytes()))
}

/// A certificate with its key.
pub(super) fn pair<P: AsRef<[u8]>>(
    certificate: &FileName,
    key: &FileName,
    passwords: &[P],
    cx: &mut Cx,
) -> Result<CertifiedKey, Problem> {
    let both = (certificate.clone(), key.clone());
    if let Some(made) = cx.extensions.get_or_default::<Pairs>().0.get(&both) {
        return Ok(made.clone());
    }
    let failed = |error: freerun_tls::load::LoadError| Problem::new(error.words(&certificate.path, &key.path));
    let open = |what: &str, (path, error): (String, io::Error)| {
        let said = unopened(&path, &error);
        Problem::new(format!("cannot load {what} \"{path}\": BIO_new_file() failed (SSL: {said})"))
    };
    let pem = read(certificate, cx).map_err(|error| open("certificate", error))?;
    let chain = Chain::from_pem(pem.bytes()).map_err(failed)?;
    let pem = read(key, cx).map_err(|error| open("certificate key", error))?;
    let private = Key::from_pem(pem.bytes(), passwords).map_err(failed)?;
    let made = CertifiedKey::new(&chain, &private).map_err(failed)?;
    cx.extensions.get_or_default::<Pairs>().0.insert(both, made.clone());
    Ok(made)
}

/// The contents of a file, or of a value `data:`.
pub(super) fn read(file: &FileName, cx: &mut Cx) -> Result<Secret, (String, io::Error)> {
    if let Some(contents) = inline(file.path.as_bytes()) {
        return Ok(Secret::new(contents.to_vec()));
    }
    cx.extensions.get_or_default::<ConfigurationFiles>().get(&file.path).map_err(|error| (file.path.clone(), error))
}

/// Adds a file of trusted certificates or of revocation lists.
pub(super) fn add(
    file: &FileName,
    source: Source,
    cx: &mut Cx,
    add: impl FnOnce(&[u8]) -> Result<(), TrustError>,
) -> Result<(), Problem> {
    let pem = read(file, cx).map_err(|(path, error)| Problem::new(source.unopened(&path, &error)))?;
    add(pem.bytes()).map_err(|error| Problem::new(error.words(&file.path)))
}
