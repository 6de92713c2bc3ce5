//! The certificate of `freerun serve --tls internal`: it is issued by the local authority for a few days, and again long
//! before its end. To the configuration it is a pair of files, which are looked at like others (`watch`).

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use freerun_runtime::log::clock;
use freerun_serve::tls::files::{FileState, ReadFile, Stamp};
use freerun_tls::issue::{Authority, IssueError, IssuedCertificate};
use zeroize::Zeroizing;

/// The names of the files in the configuration.
pub const CERTIFICATE: &str = "internal.crt";
pub const KEY: &str = "internal.key";

/// The time for which a certificate is valid, in seconds: a week.
const LIFE: i64 = 7 * 24 * 3600;

/// The time between the issue of the next certificate and the end of this one, in seconds: two days.
const EARLY: i64 = 2 * 24 * 3600;

/// The names in the certificate: the machine's names, the address that is listened on, and further ones.
pub fn names(host: &str, address: SocketAddr, further: &[String]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let listening = Some(address.ip()).filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string());
    let host = [host.to_owned(), format!("{host}.local")].into_iter().filter(|_| !host.is_empty());
    for name in listening.into_iter().chain(host).chain(further.iter().cloned()) {
        if name.is_ascii() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The certificate that is used, and who issues the next one.
struct Leaf {
    authority: Authority,
    names: Vec<String>,
    issued: IssuedCertificate,
    /// Number of the certificates so far.
    number: i64,
}

impl Leaf {
    fn new(authority: Authority, names: Vec<String>, now: i64) -> Result<Leaf, IssueError> {
        let issued = authority.issue(&names, now, LIFE)?;
        Ok(Leaf { authority, names, issued, number: 1 })
    }

    /// Reads a file, unless its stamp is `known`. The certificate is looked at before the key, so it alone is renewed.
    fn read(&mut self, path: &str, known: Option<Stamp>, now: i64) -> io::Result<FileState> {
        if path == CERTIFICATE && self.issued.expires < now.saturating_add(EARLY) {
            self.issued = self.authority.issue(&self.names, now, LIFE).map_err(io::Error::other)?;
            self.number += 1;
        }
        let stamp = Stamp { device: 0, inode: 0, modified: (self.number, 0) };
        if known == Some(stamp) {
            return Ok(FileState::Unchanged);
        }
        let contents = match path {
            CERTIFICATE => self.issued.chain.as_bytes(),
            KEY => self.issued.key.as_bytes(),
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(FileState::Contents { contents: Zeroizing::new(contents.to_vec()), stamp, broken: None })
    }
}

/// The reader of the two files of the configuration; there are no others.
///
/// # Errors
/// No certificate can be made.
pub fn reader(authority: Authority, names: Vec<String>) -> Result<ReadFile, IssueError> {
    let leaf = Mutex::new(Leaf::new(authority, names, clock::now().secs)?);
    Ok(ReadFile(Arc::new(move |path, known| {
        let mut leaf = leaf.lock().unwrap_or_else(PoisonError::into_inner);
        leaf.read(path, known, clock::now().secs)
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;

    #[test]
    fn names_are_those_of_the_machine_and_the_address() {
        let further = ["a.example".to_owned(), "ä".to_owned()];
        let names = |address: &str| names("box", address.parse().expect("an address"), &further);
        assert_eq!(names("127.0.0.1:1"), ["localhost", "127.0.0.1", "::1", "box", "box.local", "a.example"]);
        assert_eq!(names("[::]:1"), ["localhost", "127.0.0.1", "::1", "box", "box.local", "a.example"]);
        assert_eq!(names("10.0.0.1:1"), ["localhost", "127.0.0.1", "::1", "10.0.0.1", "box", "box.local", "a.example"]);
    }

    #[test]
    fn a_certificate_is_renewed_in_time_and_with_its_key() {
        let authority = Authority::new("a", &[], NOW).expect("an authority");
        let mut leaf = Leaf::new(authority, vec!["localhost".to_owned()], NOW).expect("a certificate");
        let mut read = |path: &str, known, now| match leaf.read(path, known, now).expect("a file") {
            FileState::Unchanged => None,
            FileState::Contents { contents, stamp, .. } => Some((contents.to_vec(), stamp)),
        };
        let (first, stamp) = read(CERTIFICATE, None, NOW).expect("contents");
        let (key, same) = read(KEY, None, NOW).expect("contents");
        assert_eq!(stamp, same);
        let late = NOW + LIFE - EARLY;
        assert!(read(CERTIFICATE, Some(stamp), late).is_none() && read(KEY, Some(stamp), late + 1).is_none());
        let (second, other) = read(CERTIFICATE, Some(stamp), late + 1).expect("another one");
        let (other_key, same) = read(KEY, Some(stamp), late + 1).expect("its key");
        assert!(first != second && key != other_key && other == same && other != stamp);
    }
}
