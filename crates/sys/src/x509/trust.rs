//! Trust that a `TRUSTED CERTIFICATE` block gives its certificate.

use super::certificate::IssuerCheck;
use super::rules::CertificatePurpose;
use super::{Certificate, Errors, lc, take_buffer};
use std::ffi::c_int;
use std::ptr::null_mut;

/// Trust in a certificate for one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PurposeTrust {
    /// The certificate is trusted.
    Trusted,
    /// The certificate may not be used.
    Rejected,
    /// Nothing; it is trusted if it is its own issuer.
    Nothing,
}

const PURPOSES: [CertificatePurpose; 2] = [CertificatePurpose::Client, CertificatePurpose::Server];

/// The usage that stands for a purpose in such a block.
fn usage(purpose: CertificatePurpose) -> c_int {
    match purpose {
        CertificatePurpose::Client => lc::NID_client_auth,
        CertificatePurpose::Server => lc::NID_server_auth,
    }
}

impl Certificate {
    /// The block's trust in this certificate for this purpose, after [`Certificate::settle_trust`].
    pub(super) fn said(&self, purpose: CertificatePurpose) -> PurposeTrust {
        // SAFETY: the certificate is alive and only read.
        match unsafe { lc::X509_check_trust(self.as_ptr(), usage(purpose), 0) } {
            lc::X509_TRUST_TRUSTED => PurposeTrust::Trusted,
            lc::X509_TRUST_REJECTED => PurposeTrust::Rejected,
            _ => PurposeTrust::Nothing,
        }
    }

    /// Rewrites what is said of the certificate so that this library understands it as OpenSSL 3 does. What is said of
    /// `anyExtendedKeyUsage` holds for every purpose. A certificate that is trusted for other purposes only is rejected
    /// for this one.
    ///
    /// # Safety
    /// Nobody else uses the certificate yet.
    pub(super) unsafe fn settle_trust(&self) {
        let settings = self.settings();
        if settings.is_empty() {
            return;
        }
        // The settings are a sequence, in which the list of trusted usages comes first, if there is one.
        let trust_is_limited = contents(&settings).and_then(<[u8]>::first) == Some(&SEQUENCE);
        // SAFETY: the certificate is alive and only read.
        let any = unsafe { lc::X509_check_trust(self.as_ptr(), lc::NID_anyExtendedKeyUsage, 0) };
        let said = PURPOSES.map(|purpose| match (self.said(purpose), any) {
            (PurposeTrust::Rejected, _) | (_, lc::X509_TRUST_REJECTED) => PurposeTrust::Rejected,
            (PurposeTrust::Trusted, _) | (_, lc::X509_TRUST_TRUSTED) => PurposeTrust::Trusted,
            _ if trust_is_limited => PurposeTrust::Rejected,
            _ => PurposeTrust::Nothing,
        });
        let rejected = said.contains(&PurposeTrust::Rejected);
        // SAFETY: the caller vouches that the certificate may be changed.
        unsafe {
            lc::X509_trust_clear(self.as_ptr());
            lc::X509_reject_clear(self.as_ptr());
        }
        for (purpose, said) in PURPOSES.into_iter().zip(said) {
            // The library looks at nothing else once there are settings for another purpose.
            let trusted = said == PurposeTrust::Trusted
                || said == PurposeTrust::Nothing && rejected && self.issued(self) != IssuerCheck::No;
            // SAFETY: the certificate may be changed (see above); the identifier lives for ever.
            unsafe {
                let usage = lc::OBJ_nid2obj(usage(purpose));
                if trusted {
                    lc::X509_add1_trust_object(self.as_ptr(), usage);
                } else if said == PurposeTrust::Rejected {
                    lc::X509_add1_reject_object(self.as_ptr(), usage);
                }
            }
        }
        drop(Errors::take());
    }

    /// The bytes behind the certificate in a `TRUSTED CERTIFICATE` block: DER, or nothing.
    fn settings(&self) -> Vec<u8> {
        let mut der = null_mut();
        // SAFETY: the certificate is alive; the library allocates the buffer and says how long it is.
        let length = unsafe { lc::i2d_X509_AUX(self.as_ptr(), &mut der) };
        // SAFETY: `der` is null or what the library has just allocated.
        let both = unsafe { take_buffer(der, usize::try_from(length).unwrap_or(0)) };
        let own = self.to_der().len();
        both.get(own..).unwrap_or_default().to_vec()
    }
}

/// The tag of a sequence in DER.
const SEQUENCE: u8 = 0x30;

/// The contents of an element of DER that has a tag of one byte.
fn contents(der: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = der.get(1..)?.split_first()?;
    // Above 127 it says how many bytes the length has.
    if length < 0x80 { Some(rest) } else { rest.get(usize::from(length & 0x7f)..) }
}
