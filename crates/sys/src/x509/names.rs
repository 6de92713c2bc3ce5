//! Names of subjects and issuers, as OpenSSL 3 prints them.

use super::hosts::string_bytes;
use super::writer::written;
use super::{Errors, lc};
use std::ffi::{CStr, c_char, c_int, c_ulong};
use std::fmt::Write;
use std::sync::Once;

/// Attributes that OpenSSL 3 has names for and this library has not. They are in qualified certificates and those with
/// extended validation, among others.
const FURTHER_ATTRIBUTES: [(&CStr, &CStr); 12] = [
    (c"0.9.2342.19200300.100.1.44", c"uid"),
    (c"1.2.643.3.131.1.1", c"INN"),
    (c"1.2.643.100.1", c"OGRN"),
    (c"1.2.643.100.3", c"SNILS"),
    (c"1.2.643.100.5", c"OGRNIP"),
    (c"1.3.6.1.4.1.311.60.2.1.1", c"jurisdictionL"),
    (c"1.3.6.1.4.1.311.60.2.1.2", c"jurisdictionST"),
    (c"1.3.6.1.4.1.311.60.2.1.3", c"jurisdictionC"),
    (c"2.5.4.97", c"organizationIdentifier"),
    (c"2.5.4.98", c"c3"),
    (c"2.5.4.99", c"n3"),
    (c"2.5.4.100", c"dnsName"),
];

/// Makes [`FURTHER_ATTRIBUTES`] known to the library.
fn know_further_attributes() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (identifier, name) in FURTHER_ATTRIBUTES {
            // SAFETY: the texts end with a NUL; the library copies them, and has a lock for its table.
            unsafe { lc::OBJ_create(identifier.as_ptr(), name.as_ptr(), name.as_ptr()) };
        }
        drop(Errors::take());
    });
}

/// A name in the form of RFC 2253, the last part first: `CN=a,O=b`.
///
/// # Safety
/// `name` is a name that is alive.
pub(super) unsafe fn rfc2253(name: *const lc::X509_NAME) -> String {
    know_further_attributes();
    written(|to| {
        // SAFETY: the caller vouches for the name.
        unsafe { lc::X509_NAME_print_ex(to, name, 0, lc::XN_FLAG_RFC2253 as c_ulong) }
    })
}

/// A name in the form of `X509_NAME_oneline` in OpenSSL 3: `/O=b/CN=a`, with `+` between the attributes of one part.
/// The bytes of the attributes stand as they are, whatever they encode.
///
/// # Safety
/// `name` is a name that is alive.
pub(super) unsafe fn one_line(name: *const lc::X509_NAME) -> String {
    know_further_attributes();
    let mut line = String::new();
    let mut part = None;
    // SAFETY: the caller vouches for the name; entries and what is in them are borrowed from it, and are not null for
    // numbers below the count.
    unsafe {
        for at in 0..lc::X509_NAME_entry_count(name) {
            let entry = lc::X509_NAME_get_entry(name, at);
            let own_part = Some(lc::X509_NAME_ENTRY_set(entry));
            line.push(if part == own_part { '+' } else { '/' });
            part = own_part;
            line.push_str(&attribute(lc::X509_NAME_ENTRY_get_object(entry)));
            line.push('=');
            push_escaped(&mut line, &string_bytes(lc::X509_NAME_ENTRY_get_data(entry)));
        }
    }
    drop(Errors::take());
    line
}

/// The short name of an attribute, or its numbers.
///
/// # Safety
/// `object` is an identifier that is alive.
unsafe fn attribute(object: *const lc::ASN1_OBJECT) -> String {
    let mut numbers: [c_char; 80] = [0; 80];
    // SAFETY: the caller vouches for the identifier. Names of known ones live for ever; the numbers of others are
    // written to the buffer as far as they fit, with a NUL.
    let text = unsafe {
        let known = lc::OBJ_obj2nid(object);
        let name = lc::OBJ_nid2sn(known);
        if known != lc::NID_undef && !name.is_null() {
            CStr::from_ptr(name)
        } else {
            lc::OBJ_obj2txt(numbers.as_mut_ptr(), numbers.len() as c_int, object, 1);
            CStr::from_ptr(numbers.as_ptr())
        }
    };
    text.to_string_lossy().into_owned()
}

fn push_escaped(line: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'/' | b'+' => line.extend(['\\', char::from(byte)]),
            b' '..=b'~' => line.push(char::from(byte)),
            _ => _ = write!(line, "\\x{byte:02X}"),
        }
    }
}
