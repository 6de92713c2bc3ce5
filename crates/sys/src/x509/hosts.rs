//! The hosts that a certificate is for.

use super::{Certificate, Errors, lc, take_buffer};
use std::ffi::c_int;
use std::net::IpAddr;
use std::ptr::{NonNull, null_mut};

/// The names in an extension.
struct GeneralNames(NonNull<lc::GENERAL_NAMES>);

impl Drop for GeneralNames {
    fn drop(&mut self) {
        // SAFETY: the list and what is in it are ours and are freed once.
        unsafe { lc::GENERAL_NAMES_free(self.0.as_ptr()) };
    }
}

impl Certificate {
    /// Whether the certificate is for this host, as OpenSSL's `X509_check_host` has it without flags; nginx calls that
    /// with `proxy_ssl_name`. One of the DNS names has to match, or, if there are none, one of the common names. A `*`
    /// stands for the first label or for its beginning or end. A host that begins with `.` means all hosts below it.
    /// The text of an IP address is a name like others here, and the certificate's IP addresses do not count.
    pub fn matches_host(&self, host: &str) -> bool {
        // For an empty name the library would look for the end of the text.
        if host.is_empty() {
            return false;
        }
        // SAFETY: the certificate is alive; the text is only read, as far as its length says.
        let found = unsafe { lc::X509_check_host(self.as_ptr(), host.as_ptr().cast(), host.len(), 0, null_mut()) } == 1;
        drop(Errors::take());
        // The library does not have `*` for a part of the label.
        found || self.presented_names().iter().any(|pattern| partial_wildcard_matches(pattern, host.as_bytes()))
    }

    /// The names that count: DNS names, or common names if there are none.
    fn presented_names(&self) -> Vec<Vec<u8>> {
        let names = self.dns_names();
        if names.is_empty() { self.common_names() } else { names }
    }

    /// The DNS names among the alternative names of the subject, as they are written in the certificate. They are
    /// anybody's bytes.
    pub fn dns_names(&self) -> Vec<Vec<u8>> {
        // SAFETY: a name of the kind `GEN_DNS` is in this field.
        self.alternative_names(lc::GEN_DNS, |name| unsafe { string_bytes(name.d.dNSName) })
    }

    /// The IP addresses among the alternative names of the subject; those that have neither 4 nor 16 bytes are left out.
    pub fn ip_addresses(&self) -> Vec<IpAddr> {
        // SAFETY: a name of the kind `GEN_IPADD` is in this field.
        let written = self.alternative_names(lc::GEN_IPADD, |name| unsafe { string_bytes(name.d.iPAddress.cast()) });
        let address = |bytes: Vec<u8>| {
            let v4 = <[u8; 4]>::try_from(bytes.as_slice()).map(IpAddr::from);
            v4.or_else(|_| <[u8; 16]>::try_from(bytes.as_slice()).map(IpAddr::from)).ok()
        };
        written.into_iter().filter_map(address).collect()
    }

    /// The alternative names of the subject that are of this kind, as `read` takes them out.
    fn alternative_names(&self, kind: c_int, read: impl Fn(&lc::GENERAL_NAME) -> Vec<u8>) -> Vec<Vec<u8>> {
        let mut critical: c_int = 0;
        // SAFETY: the certificate is alive; what the library gives is ours, or null.
        let names = unsafe { lc::X509_get_ext_d2i(self.as_ptr(), lc::NID_subject_alt_name, &mut critical, null_mut()) };
        drop(Errors::take());
        let Some(names) = NonNull::new(names.cast()).map(GeneralNames) else { return Vec::new() };
        let list: *const lc::OPENSSL_STACK = names.0.as_ptr().cast_const().cast();
        // SAFETY: the list is alive, and its elements are of this type.
        unsafe {
            let elements = (0..lc::OPENSSL_sk_num(list)).map(|at| lc::OPENSSL_sk_value(list, at));
            let names = elements.filter_map(|element| element.cast::<lc::GENERAL_NAME>().as_ref());
            names.filter(|name| name.type_ == kind).map(read).collect()
        }
    }

    /// The common names of the subject in UTF-8; those that cannot be written so are left out.
    pub fn common_names(&self) -> Vec<Vec<u8>> {
        let mut names = Vec::new();
        let mut at: c_int = -1;
        loop {
            // SAFETY: the certificate is alive; the name and its entries are borrowed from it.
            let text = unsafe {
                let subject = lc::X509_get_subject_name(self.as_ptr());
                at = lc::X509_NAME_get_index_by_NID(subject, lc::NID_commonName, at);
                if at < 0 {
                    break;
                }
                lc::X509_NAME_ENTRY_get_data(lc::X509_NAME_get_entry(subject, at))
            };
            let mut utf8 = null_mut();
            // SAFETY: the string is alive; the library allocates the buffer and says how long it is.
            let length = unsafe { lc::ASN1_STRING_to_UTF8(&mut utf8, text) };
            if let Ok(length) = usize::try_from(length) {
                // SAFETY: `utf8` is null or what the library has just allocated.
                names.push(unsafe { take_buffer(utf8, length) });
            }
        }
        drop(Errors::take());
        names
    }
}

/// The bytes of a string.
///
/// # Safety
/// `string` is null or a string that is alive.
pub(super) unsafe fn string_bytes(string: *const lc::ASN1_STRING) -> Vec<u8> {
    if string.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller vouches for the string; it has this number of bytes.
    unsafe {
        let (data, length) = (lc::ASN1_STRING_get0_data(string), lc::ASN1_STRING_length(string));
        match usize::try_from(length) {
            Ok(length) if !data.is_null() => std::slice::from_raw_parts(data, length).to_vec(),
            _ => Vec::new(),
        }
    }
}

/// Whether a pattern like `web*.example.com` or `*-web.example.com` matches. The pattern has at least three labels, and
/// the `*` begins or ends the first one without being all of it.
fn partial_wildcard_matches(pattern: &[u8], host: &[u8]) -> bool {
    let Some((first, rest)) = split_label(pattern) else { return false };
    let Some((label, host_rest)) = split_label(host) else { return false };
    let proper = rest.contains(&b'.') && is_host(first, true) && is_host(rest, false);
    if !proper || has_idna_prefix(first) || has_idna_prefix(label) || !rest.eq_ignore_ascii_case(host_rest) {
        return false;
    }
    let (prefix, suffix) = match (first.strip_suffix(b"*"), first.strip_prefix(b"*")) {
        (Some(prefix), None) => (prefix, &b""[..]),
        (None, Some(suffix)) => (&b""[..], suffix),
        _ => return false,
    };
    label.len() >= prefix.len() + suffix.len()
        && label[..prefix.len()].eq_ignore_ascii_case(prefix)
        && label[label.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
        && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

fn split_label(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = name.iter().position(|byte| *byte == b'.')?;
    Some((&name[..dot], &name[dot + 1..]))
}

fn has_idna_prefix(label: &[u8]) -> bool {
    label.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"xn--"))
}

/// Whether these are labels of letters, digits and hyphens, which neither begin nor end with a hyphen; one `*` may
/// stand in for something if `wildcard`.
fn is_host(name: &[u8], wildcard: bool) -> bool {
    let stars = name.iter().filter(|byte| **byte == b'*').count();
    stars <= usize::from(wildcard)
        && name.split(|byte| *byte == b'.').all(|label| {
            let ends = [label.first(), label.last()];
            !ends.contains(&None)
                && !ends.contains(&Some(&b'-'))
                && label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'*'))
        })
}

#[cfg(test)]
mod tests {
    use super::partial_wildcard_matches;

    #[test]
    fn a_star_may_be_a_part_of_the_first_label() {
        let matches = |pattern: &str, host: &str| partial_wildcard_matches(pattern.as_bytes(), host.as_bytes());
        for host in ["f.example.com", "foo.example.com", "F-1.EXAMPLE.com"] {
            assert!(matches("f*.example.com", host), "{host}");
        }
        assert!(matches("*o.example.com", "o.example.com") && matches("*o.example.com", "foo.example.com"));
        for (pattern, host) in [
            ("f*.example.com", "a.example.com"),
            ("f*.example.com", "f.a.example.com"),
            ("f*.example.com", "f_.example.com"),
            ("f*.example.com", "f"),
            ("f*.com", "f.com"),
            ("f*o.example.com", "foo.example.com"),
            ("f**.example.com", "f.example.com"),
            ("*f*.example.com", "f.example.com"),
            ("*.example.com", "f.example.com"),
            ("f*.*.com", "f.a.com"),
            ("f.a*.example.com", "f.a.example.com"),
            ("xn--f*.example.com", "xn--fo.example.com"),
            ("x*.example.com", "xn--a.example.com"),
            ("f*-.example.com", "f-.example.com"),
            ("f*..com", "f..com"),
            ("", ""),
            ("*", "a"),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }
}
