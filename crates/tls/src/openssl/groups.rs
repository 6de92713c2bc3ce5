//! `ssl_ecdh_curve`: the groups that keys are agreed in.

use super::{Remark, ValueError};
use freerun_proto::tls::names;

/// A group: an elliptic curve, a group of Diffie-Hellman's, a key encapsulation mechanism, or two of them together.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// The number that stands for it in a handshake.
    pub id: u16,
    /// Its names besides the name that nginx shows.
    others: &'static [&'static str],
    /// Whether freerun has it.
    pub usable: bool,
}

impl Group {
    /// The name that nginx shows in `$ssl_curve`.
    pub fn name(&self) -> &'static str {
        names::group(self.id).unwrap_or_default()
    }

    /// The group with this name. OpenSSL 3.5 reads names in whatever case, so that is done here.
    pub fn named(name: &str) -> Option<&'static Group> {
        GROUPS.iter().find(|group| group.has_name(name))
    }

    fn has_name(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name) || self.others.iter().any(|other| other.eq_ignore_ascii_case(name))
    }
}

const fn ours(id: u16, others: &'static [&'static str]) -> Group {
    Group { id, others, usable: true }
}

const fn theirs(id: u16, others: &'static [&'static str]) -> Group {
    Group { id, others, usable: false }
}

/// The groups that OpenSSL 3 has names for. The hybrid groups and the groups of ML-KEM are known since OpenSSL 3.5.
pub static GROUPS: &[Group] = &[
    ours(4588, &[]),                     // X25519MLKEM768
    ours(4587, &[]),                     // SecP256r1MLKEM768
    theirs(4589, &[]),                   // SecP384r1MLKEM1024
    ours(513, &[]),                      // MLKEM768
    ours(514, &[]),                      // MLKEM1024
    theirs(512, &[]),                    // MLKEM512
    ours(29, &[]),                       // X25519
    ours(23, &["secp256r1", "P-256"]),   // prime256v1
    ours(24, &["P-384"]),                // secp384r1
    ours(25, &["P-521"]),                // secp521r1
    theirs(30, &[]),                     // X448
    theirs(26, &[]),                     // brainpoolP256r1
    theirs(27, &[]),                     // brainpoolP384r1
    theirs(28, &[]),                     // brainpoolP512r1
    theirs(31, &[]),                     // brainpoolP256r1tls13
    theirs(32, &[]),                     // brainpoolP384r1tls13
    theirs(33, &[]),                     // brainpoolP512r1tls13
    theirs(256, &[]),                    // ffdhe2048
    theirs(257, &[]),                    // ffdhe3072
    theirs(258, &[]),                    // ffdhe4096
    theirs(259, &[]),                    // ffdhe6144
    theirs(260, &[]),                    // ffdhe8192
    theirs(1, &["K-163"]),               // sect163k1
    theirs(2, &[]),                      // sect163r1
    theirs(3, &["B-163"]),               // sect163r2
    theirs(4, &[]),                      // sect193r1
    theirs(5, &[]),                      // sect193r2
    theirs(6, &["K-233"]),               // sect233k1
    theirs(7, &["B-233"]),               // sect233r1
    theirs(8, &[]),                      // sect239k1
    theirs(9, &["K-283"]),               // sect283k1
    theirs(10, &["B-283"]),              // sect283r1
    theirs(11, &["K-409"]),              // sect409k1
    theirs(12, &["B-409"]),              // sect409r1
    theirs(13, &["K-571"]),              // sect571k1
    theirs(14, &["B-571"]),              // sect571r1
    theirs(15, &[]),                     // secp160k1
    theirs(16, &[]),                     // secp160r1
    theirs(17, &[]),                     // secp160r2
    theirs(18, &[]),                     // secp192k1
    theirs(19, &["secp192r1", "P-192"]), // prime192v1
    theirs(20, &[]),                     // secp224k1
    theirs(21, &["P-224"]),              // secp224r1
    theirs(22, &[]),                     // secp256k1
];

/// The groups that `auto` stands for.
pub const AUTO: &str = "X25519MLKEM768:X25519:P-256:P-384:P-521";

/// Longest name that OpenSSL looks at.
const LONGEST_NAME: usize = 63;

/// Reason for which OpenSSL refuses a list. The text is OpenSSL's, as nginx logs it in `(SSL: …)`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GroupsError {
    /// A name that is not known.
    #[error("error:0A080106:SSL routines::passed invalid argument:group '{0}' cannot be set")]
    Unknown(String),
    /// A name that is empty or too long, or a group that is named twice. OpenSSL gives no reason.
    #[error("")]
    Malformed,
}

/// Reads a list of groups with `:` between them, the most preferred first.
///
/// Three additions of OpenSSL 3.5 are read, too: `?` before a name (it may be unknown), `*`, and `/` in place of `:`.
/// `*` means that a key share is sent; this has no effect.
pub fn parse(text: &str) -> Result<Vec<&'static Group>, GroupsError> {
    let mut groups: Vec<&'static Group> = Vec::new();
    for element in text.split([':', '/']) {
        let element = element.trim();
        let name = element.trim_start_matches(['?', '*']);
        let may_be_unknown = element[..element.len() - name.len()].contains('?');
        if name.is_empty() || name.len() > LONGEST_NAME {
            return Err(GroupsError::Malformed);
        }
        match Group::named(name) {
            Some(group) if groups.contains(&group) => return Err(GroupsError::Malformed),
            Some(group) => groups.push(group),
            None if may_be_unknown => {}
            None => return Err(GroupsError::Unknown(element.to_owned())),
        }
    }
    if groups.is_empty() { Err(GroupsError::Malformed) } else { Ok(groups) }
}

/// Takes the groups that freerun has. The others are named in a warning; it is an error if none are left.
pub fn usable(text: &str, groups: &[&'static Group]) -> Result<(Vec<&'static Group>, Option<Remark>), ValueError> {
    let (usable, others): (Vec<_>, Vec<_>) = groups.iter().copied().partition(|group| group.usable);
    if usable.is_empty() {
        return Err(ValueError::ours(format!("none of the groups in \"{text}\" is supported")));
    }
    let names = others.into_iter().map(Group::name).collect::<Vec<_>>().join(" ");
    let remark = (!names.is_empty()).then(|| Remark::warn(format!("{names} not supported, ignored")));
    Ok((usable, remark))
}

/// Reads the argument of `ssl_ecdh_curve`: `auto` or a list, with nginx's line for what is refused.
pub fn ssl_ecdh_curve(text: &str) -> Result<(Vec<&'static Group>, Option<Remark>), ValueError> {
    let list = if text == "auto" { AUTO } else { text };
    let groups =
        parse(list).map_err(|error| ValueError::call("SSL_CTX_set1_curves_list", &[text], &error.to_string()))?;
    usable(text, &groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openssl::RemarkLevel;

    fn said(text: &str) -> Result<(String, Option<String>), String> {
        let (groups, remark) = ssl_ecdh_curve(text).map_err(|refused| refused.to_string())?;
        assert!(remark.iter().all(|remark| remark.level == RemarkLevel::Warn));
        let names = groups.iter().map(|group| group.name()).collect::<Vec<_>>().join(":");
        Ok((names, remark.map(|remark| remark.text)))
    }

    #[test]
    fn lists_that_are_accepted() {
        let cases = [
            ("auto", "X25519MLKEM768:X25519:prime256v1:secp384r1:secp521r1", None),
            ("P-256", "prime256v1", None),
            ("secp384r1 : x25519", "secp384r1:X25519", None),
            ("secp521r1:secp384r1:prime256v1", "secp521r1:secp384r1:prime256v1", None),
            (
                "X25519:X448:brainpoolP256r1:P-521",
                "X25519:secp521r1",
                Some("X448 brainpoolP256r1 not supported, ignored"),
            ),
            ("?foo:*X25519MLKEM768/?*X25519", "X25519MLKEM768:X25519", None),
        ];
        for (text, names, remark) in cases {
            assert_eq!(said(text), Ok((names.to_owned(), remark.map(str::to_owned))), "{text}");
        }
    }

    #[test]
    fn lists_that_are_refused() {
        let unknown = |text: &str, name: &str| {
            format!(
                "SSL_CTX_set1_curves_list(\"{text}\") failed (SSL: error:0A080106:SSL routines::passed invalid \
                 argument:group '{name}' cannot be set)"
            )
        };
        let malformed = |text: &str| format!("SSL_CTX_set1_curves_list(\"{text}\") failed");
        let long = "A".repeat(70);
        let cases = [
            ("foo", unknown("foo", "foo")),
            ("X25519: foo", unknown("X25519: foo", "foo")),
            ("auto:X25519", unknown("auto:X25519", "auto")),
            ("X25519,P-256", unknown("X25519,P-256", "X25519,P-256")),
            ("", malformed("")),
            (" ", malformed(" ")),
            ("P-256:", malformed("P-256:")),
            ("P-256::X25519", malformed("P-256::X25519")),
            ("X25519:X25519:foo", malformed("X25519:X25519:foo")),
            ("secp256r1:prime256v1", malformed("secp256r1:prime256v1")),
            (&long, malformed(&long)),
            ("X448:ffdhe2048", "none of the groups in \"X448:ffdhe2048\" is supported".to_owned()),
        ];
        for (text, expected) in cases {
            assert_eq!(said(text), Err(expected), "{text}");
        }
    }

    #[test]
    fn names_and_numbers_are_unique() {
        for (at, group) in GROUPS.iter().enumerate() {
            assert!(GROUPS[..at].iter().all(|other| other.id != group.id), "{at}");
            assert!(!group.name().is_empty() && Group::named(group.name()) == Some(group), "{at}");
            assert!(group.others.iter().all(|name| Group::named(name) == Some(group)), "{at}");
        }
    }
}
