//! A single run of the library's verification.

use super::findings::Findings;
use super::rules::{CertificatePurpose, ChainRules, VerifyError};
use super::stack::CertificateStack;
use super::words::openssl_code;
use super::{Certificate, CertificateStore, lc};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;

/// A verification, which keeps pointers to the store and to the certificates.
pub(super) struct VerifyRun<'a> {
    context: NonNull<lc::X509_STORE_CTX>,
    inputs: PhantomData<&'a CertificateStore>,
}

/// Under which number a verification keeps the pointer to its findings.
fn findings_index() -> Option<c_int> {
    static INDEX: OnceLock<Option<c_int>> = OnceLock::new();
    *INDEX.get_or_init(|| {
        // SAFETY: nothing is passed that the library would keep.
        let index = unsafe { lc::X509_STORE_CTX_get_ex_new_index(0, null_mut(), null_mut(), None, None) };
        (index >= 0).then_some(index)
    })
}

/// Notes a finding, and lets the verification go on.
unsafe extern "C" fn note(fine: c_int, context: *mut lc::X509_STORE_CTX) -> c_int {
    if let (0, Some(index)) = (fine, findings_index()) {
        // SAFETY: the library passes the verification that calls. `VerifyRun::verify` keeps a pointer to its findings under
        // this number for as long as the library verifies, and does not use them in the meantime.
        let (findings, code, depth) = unsafe {
            let findings = lc::X509_STORE_CTX_get_ex_data(context, index).cast::<Findings>().as_mut();
            (findings, lc::X509_STORE_CTX_get_error(context), lc::X509_STORE_CTX_get_error_depth(context))
        };
        if let Some(findings) = findings {
            findings.note(VerifyError { code: openssl_code(code), depth: u32::try_from(depth).unwrap_or(0) });
        }
    }
    1
}

impl<'a> VerifyRun<'a> {
    /// `sent` are the certificates from which the chain may be built. `None`: there is no memory for it.
    pub(super) fn new(
        store: &'a CertificateStore,
        own: &'a Certificate,
        sent: &'a CertificateStack<'a>,
        rules: &ChainRules,
    ) -> Option<Self> {
        // SAFETY: the function has no preconditions; what it gives is ours.
        let context = NonNull::new(unsafe { lc::X509_STORE_CTX_new() })?;
        let run = Self { context, inputs: PhantomData };
        let at = context.as_ptr();
        let purpose = match rules.purpose {
            CertificatePurpose::Client => c"ssl_client",
            CertificatePurpose::Server => c"ssl_server",
        };
        // SAFETY: the verification is ours; the store, the certificate and the list outlive it and are only read.
        unsafe {
            if lc::X509_STORE_CTX_init(at, store.as_ptr(), own.as_ptr(), sent.as_ptr()) != 1
                || lc::X509_STORE_CTX_set_default(at, purpose.as_ptr()) != 1
            {
                return None;
            }
            let parameters = lc::X509_STORE_CTX_get0_param(at);
            lc::X509_VERIFY_PARAM_set_depth(parameters, c_int::try_from(rules.depth).unwrap_or(c_int::MAX));
            lc::X509_VERIFY_PARAM_set_time_posix(parameters, rules.now);
            if rules.lists {
                let flags = lc::X509_V_FLAG_CRL_CHECK | lc::X509_V_FLAG_CRL_CHECK_ALL;
                lc::X509_VERIFY_PARAM_set_flags(parameters, flags as _);
            }
            lc::X509_STORE_CTX_set_verify_cb(at, Some(note));
        }
        Some(run)
    }

    /// Builds no chain: the peer's certificate is trusted if the store has exactly this one. `nothing` is an empty
    /// list.
    pub(super) fn trust_exactly(&mut self, nothing: &'a CertificateStack<'a>) {
        // SAFETY: the verification is ours; the list outlives it and is only read.
        unsafe {
            lc::X509_STORE_CTX_set0_trusted_stack(self.context.as_ptr(), nothing.as_ptr());
            let parameters = lc::X509_STORE_CTX_get0_param(self.context.as_ptr());
            lc::X509_VERIFY_PARAM_set_flags(parameters, lc::X509_V_FLAG_PARTIAL_CHAIN as _);
        }
    }

    /// Verifies, and adds what is found to the findings. Where the library gives up without a finding, that is one.
    pub(super) fn verify(&mut self, findings: &mut Findings) -> bool {
        let at = self.context.as_ptr();
        let Some(index) = findings_index() else { return false };
        let pointer: *mut Findings = findings;
        // SAFETY: the verification is ours. The callback uses the findings, which outlive the call. Nobody else uses
        // them in the meantime, and the pointer is taken back.
        let (result, last) = unsafe {
            if lc::X509_STORE_CTX_set_ex_data(at, index, pointer.cast::<c_void>()) != 1 {
                return false;
            }
            let result = lc::X509_verify_cert(at);
            lc::X509_STORE_CTX_set_ex_data(at, index, null_mut());
            (result, lc::X509_STORE_CTX_get_error(at))
        };
        if result != 1 && last != lc::X509_V_OK {
            findings.note(VerifyError { code: openssl_code(last), depth: 0 });
        }
        result == 1 && last == lc::X509_V_OK
    }

    /// The issuer of a certificate in the store.
    pub(super) fn issuer(&self, certificate: &Certificate) -> Option<Certificate> {
        let mut issuer = null_mut();
        // SAFETY: both are alive; the library says whether it has given a reference, which is ours then.
        unsafe {
            let found = lc::X509_STORE_CTX_get1_issuer(&mut issuer, self.context.as_ptr(), certificate.as_ptr()) == 1;
            if found { NonNull::new(issuer).map(|issuer| Certificate::own(issuer)) } else { None }
        }
    }

    /// The chain that has been built, the peer's certificate first.
    pub(super) fn chain(&self) -> Vec<Certificate> {
        // SAFETY: the verification is ours; the list belongs to it, and may be null.
        let list: *const lc::OPENSSL_STACK =
            unsafe { lc::X509_STORE_CTX_get0_chain(self.context.as_ptr()) }.cast_const().cast();
        if list.is_null() {
            return Vec::new();
        }
        // SAFETY: the list is alive and has certificates in it that are alive; each value gets a reference of its own.
        unsafe {
            let elements = (0..lc::OPENSSL_sk_num(list)).map(|at| lc::OPENSSL_sk_value(list, at));
            elements.filter_map(|element| Some(Certificate::share(NonNull::new(element.cast())?))).collect()
        }
    }
}

impl Drop for VerifyRun<'_> {
    fn drop(&mut self) {
        // SAFETY: the object was made by `new` and is freed once.
        unsafe { lc::X509_STORE_CTX_free(self.context.as_ptr()) };
    }
}
