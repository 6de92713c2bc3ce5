//! Certificates for the servers, made by the `openssl` command.

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bench::Bench;
use crate::error::{Error, ErrorContext, Result};
use crate::spec::Certificate;

/// The kind of a certificate's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// RSA with 2048 bits.
    Rsa2048,
    /// ECDSA on the curve P-256.
    EcdsaP256,
}

impl Key {
    /// The names of the files.
    fn file(self) -> &'static str {
        match self {
            Key::Rsa2048 => "rsa-2048",
            Key::EcdsaP256 => "ecdsa-p256",
        }
    }

    /// The arguments of `openssl req` for such a key (openssl-req(1)).
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Key::Rsa2048 => &["-newkey", "rsa:2048"],
            Key::EcdsaP256 => &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Key::Rsa2048 => "RSA-2048",
            Key::EcdsaP256 => "ECDSA P-256",
        })
    }
}

/// A certificate that is signed by itself, with such a key; made in the scratch folder unless an earlier call has made it.
pub fn prepare(bench: &Bench, key: Key) -> Result<Certificate> {
    make(bench.machine.program("openssl")?, &bench.scratch.folder("certificates")?, key)
}

/// The same with the program `openssl` and in `folder`.
pub fn make(openssl: &Path, folder: &Path, key: Key) -> Result<Certificate> {
    let file = |end: &str| folder.join(format!("{}.{end}", key.file()));
    let files = Certificate { certificate: file("crt"), key: file("key") };
    if files.certificate.is_file() && files.key.is_file() {
        return Ok(files);
    }
    let mut command = Command::new(openssl);
    command.args(["req", "-x509", "-nodes", "-days", "3650", "-subj", "/CN=bench"]);
    command.args(["-addext", "subjectAltName=DNS:bench"]).args(key.arguments());
    command.arg("-keyout").arg(&files.key).arg("-out").arg(&files.certificate).stdin(Stdio::null());
    let output = command.output().doing(openssl.display())?;
    if output.status.success() {
        Ok(files)
    } else {
        Err(Error::Setup(format!("no certificate: {}", String::from_utf8_lossy(&output.stderr).trim())))
    }
}
