//! Files that a configuration names for TLS: certificates, private keys, passwords.
//!
//! Keys are mostly readable by root alone, and the worker has given up its rights. So the master reads these files while it
//! reads the configuration, and the worker gets their contents with the configuration's texts. A file is read once, under
//! however many names it stands in the configuration: it may be a FIFO.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use freerun_conf::Cx;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use crate::parts::Paths;

/// The contents of a file that may have a private key: they are overwritten when the last holder drops them, and shown
/// nowhere.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// The contents as a secret.
    pub fn new(contents: Vec<u8>) -> Secret {
        Secret(Arc::new(Zeroizing::new(contents)))
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Secret({} bytes)", self.0.len())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
        Vec::<u8>::deserialize(from).map(Secret::new)
    }
}

/// Files by their full paths.
pub type SecretFiles = BTreeMap<String, Secret>;

/// The files of a configuration; lives in its context. The master reads them and notes their contents; the worker has the
/// notes, so that both see the same.
#[derive(Debug, Clone, Default)]
pub struct ConfigurationFiles {
    /// The function that reads a file, of so many bytes at most, which may wait. If it is `None`, only known files are there.
    pub read: Option<fn(&str) -> io::Result<Vec<u8>>>,
    /// The known files.
    pub known: SecretFiles,
}

impl ConfigurationFiles {
    /// The contents of a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn get(&mut self, path: &str) -> io::Result<Secret> {
        if let Some(known) = self.known.get(path) {
            return Ok(known.clone());
        }
        let read = self.read.ok_or(io::ErrorKind::NotFound)?;
        let secret = Secret::new(read(path)?);
        self.known.insert(path.to_owned(), secret.clone());
        Ok(secret)
    }
}

/// The full path of a file that a directive of TLS names: relative ones begin at the folder of the configuration.
pub fn full_path(name: &str, cx: &mut Cx) -> String {
    if name.starts_with('/') {
        return name.to_owned();
    }
    format!("{}{name}", cx.extensions.get_or_default::<Paths>().conf_prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    static READS: AtomicU32 = AtomicU32::new(0);

    fn read(path: &str) -> io::Result<Vec<u8>> {
        READS.fetch_add(1, Ordering::Relaxed);
        if path == "/there" { Ok(b"key".to_vec()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    #[test]
    fn a_file_is_read_once_and_then_known_without_reading() {
        let mut master = ConfigurationFiles { read: Some(read), ..ConfigurationFiles::default() };
        for _ in 0..2 {
            assert_eq!(master.get("/there").unwrap().bytes(), b"key");
        }
        assert_eq!(READS.load(Ordering::Relaxed), 1);
        assert_eq!(master.get("/closed").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let mut worker = ConfigurationFiles { read: None, known: master.known.clone() };
        assert_eq!(worker.get("/there").unwrap().bytes(), b"key");
        assert_eq!(worker.get("/closed").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!format!("{worker:?}").contains("key"), "contents are not shown");
    }
}
