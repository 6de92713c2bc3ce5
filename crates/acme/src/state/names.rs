//! Names of the files in a state folder.

use freerun_tls::digest::sha256;

use crate::settings::CertificateSettings;

/// The name of a certificate's file: its first identifier, so that people find it, and a digest of all that it is, the
/// CA's URL included. Another CA, another list of names or another kind of key is another file.
pub(crate) fn certificate_name(uri: &str, certificate: &CertificateSettings) -> String {
    let mut identity = format!("{uri}\n{}\n", certificate.key.name());
    for identifier in &certificate.identifiers {
        identity.push_str(&format!("{identifier}\n"));
    }
    let first = certificate.identifiers.first().map(ToString::to_string).unwrap_or_default();
    // A file name has 255 bytes at most, a host name 253. No identifier has a slash, but the file system is no place to
    // rely on that.
    let readable: String =
        first.chars().take(64).map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    format!("{}-{}.pem", readable.trim_start_matches('.'), digest(&identity))
}

/// The name of the account's file.
pub(crate) fn account_name(uri: &str) -> String {
    format!("account-{}.json", digest(uri))
}

fn digest(text: &str) -> String {
    sha256(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Identifier, KeyKind};

    fn name(uri: &str, identifiers: &[&str], key: KeyKind) -> String {
        let identifiers = identifiers.iter().map(|text| Identifier::Dns((*text).to_owned())).collect();
        certificate_name(uri, &CertificateSettings { issuer: "any".to_owned(), identifiers, key })
    }

    #[test]
    fn what_differs_has_another_file() {
        let one = name("https://ca/", &["a.example"], KeyKind::EcdsaP256);
        assert!(one.starts_with("a.example-") && one.ends_with(".pem"), "{one}");
        assert_eq!(one, name("https://ca/", &["a.example"], KeyKind::EcdsaP256));
        assert_ne!(one, name("https://cb/", &["a.example"], KeyKind::EcdsaP256));
        assert_ne!(one, name("https://ca/", &["a.example"], KeyKind::Rsa2048));
        assert_ne!(one, name("https://ca/", &["a.example", "b.example"], KeyKind::EcdsaP256));
        assert_ne!(account_name("https://ca/"), account_name("https://cb/"));
    }

    #[test]
    fn a_name_stays_in_its_folder() {
        let name = name("https://ca/", &["../../etc/passwd"], KeyKind::EcdsaP256);
        assert!(!name.contains('/') && !name.starts_with('.'), "{name}");
        assert!(super::tests::name("", &[&"a".repeat(10_000)], KeyKind::EcdsaP256).len() < 255);
    }
}
