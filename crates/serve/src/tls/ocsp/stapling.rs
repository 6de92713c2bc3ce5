//! What responders say of the server's own certificates, which clients are told with the certificate (`ssl_stapling`).

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::SystemTime;

use freerun_conf::{Cx, Problem};
use freerun_runtime::log::Level;
use freerun_runtime::loops;
use freerun_tls::digest::sha256;
use freerun_tls::load::{CertifiedKey, unopened};
use freerun_tls::verify::{
    OcspAnswer, OcspStatus, PeerCertificate, Signer, Trust, check_ocsp_response, ocsp_answer, ocsp_request, status_word,
};

use super::ask::Asking;
use super::responder::Responder;
use super::spec::{OcspSpec, Resolving, written};
use crate::generation::Generation;
use crate::tls::objects::read;
use crate::tls::values::{FileName, Spot};
use crate::tls::words::problem;
use crate::zones::ZoneTable;

/// How long a response is used at most before it is asked for again, in seconds.
const LONGEST: i64 = 3600;

/// How long before its end a response is asked for again, and how long nothing is asked after an attempt, in seconds.
const PAUSE: i64 = 300;

/// A moment that never comes.
const NEVER: i64 = i64::MAX;

/// A certificate with the response that is stapled to it. It outlives a configuration, so that clients get a response
/// without interruption.
#[derive(Debug)]
struct Staple {
    key: CertifiedKey,
    /// Whether somebody is changing it: one fetch at a time is enough for all loops.
    is_busy: AtomicBool,
    /// When it has to be fetched again, in seconds since 1970.
    due: AtomicI64,
    /// Until when the stapled response holds, in seconds since 1970; [`NEVER`] also if there is none.
    until: AtomicI64,
}

/// A fetch: no other begins before this value is dropped.
struct Fetch(Arc<Staple>);

impl Drop for Fetch {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Release);
    }
}

impl Staple {
    fn new(key: &CertifiedKey) -> Staple {
        let key = key.with_own_staple();
        Staple { key, is_busy: AtomicBool::new(false), due: AtomicI64::new(0), until: AtomicI64::new(NEVER) }
    }

    /// A certificate with a response that never changes.
    fn fixed(key: &CertifiedKey, response: Vec<u8>) -> Staple {
        let staple = Staple::new(key);
        staple.key.staple(Some(response));
        staple.due.store(NEVER, Relaxed);
        staple
    }

    /// Lets go of a response whose time is over, and begins a fetch if one is due at this time.
    fn begin(self: &Arc<Staple>, now: i64) -> Option<Fetch> {
        let is_due = || self.due.load(Relaxed) <= now;
        let is_over = || self.until.load(Relaxed) < now;
        if !is_due() && !is_over() || self.is_busy.swap(true, Acquire) {
            return None;
        }
        let fetch = Fetch(self.clone());
        // Somebody else may just have ended a fetch.
        if is_over() {
            self.key.staple(None);
            self.until.store(NEVER, Relaxed);
        }
        is_due().then(|| {
            self.due.store(now.saturating_add(PAUSE), Relaxed);
            fetch
        })
    }
}

impl Fetch {
    /// Staples a response, which holds until then.
    fn done(self, response: Vec<u8>, next_update: Option<i64>, now: i64) {
        let until = next_update.unwrap_or(NEVER);
        let due = now.saturating_add(LONGEST).min(until.saturating_sub(PAUSE)).max(now.saturating_add(PAUSE));
        self.0.key.staple(Some(response));
        self.0.until.store(until, Relaxed);
        self.0.due.store(due, Relaxed);
    }
}

/// A certificate of a server, and where the response comes from that is stapled to it.
#[derive(Debug)]
pub struct Stapling {
    staple: Arc<Staple>,
    /// `None` if the response never changes.
    source: Option<Source>,
}

/// Where a response comes from.
#[derive(Debug)]
struct Source {
    responder: Responder,
    resolving: Option<Resolving>,
    certificate: Vec<u8>,
    issuer: Vec<u8>,
    signer: Signer,
    file: String,
}

impl Stapling {
    /// Has to be called on a loop when a client wants a response. What is stapled is brought up to date, which the client
    /// does not wait for: if there is no response yet, it gets none.
    pub fn wanted(self: &Arc<Stapling>, generation: &Arc<Generation>) {
        if self.source.is_none() {
            return;
        }
        let Some(fetch) = self.staple.begin(unix_time()) else { return };
        let (this, generation) = (self.clone(), generation.clone());
        loops::spawn(0, "fetching an OCSP response", async move { this.fetch(fetch, &generation).await });
    }

    async fn fetch(self: Arc<Stapling>, fetch: Fetch, generation: &Generation) {
        let Some(source) = &self.source else { return };
        let asking = Asking {
            responder: &source.responder,
            resolving: source.resolving.as_ref(),
            log: &generation.error_log,
            connection: None,
            file: Some(&source.file),
        };
        let Some(request) = ocsp_request(&source.certificate, &source.issuer) else { return };
        let Some((response, address)) = asking.ask(&request).await else { return };
        let this = self.clone();
        let judge = move || (this.source.as_ref().map(|source| source.judge(&response)), response);
        let judged = generation.pools.handshakes().run_in_lane(0, std::future::pending(), judge).await;
        let tell = |what: &dyn std::fmt::Display| asking.tell(Level::Error, Some(&address), what);
        match judged {
            Ok((Some(Ok(answer)), response)) => match answer.status {
                OcspStatus::Good => fetch.done(response, answer.next_update, unix_time()),
                other => {
                    tell(&format_args!("certificate status \"{}\" in the OCSP response", status_word(other)));
                }
            },
            Ok((Some(Err(error)), _)) => tell(&error),
            Ok((None, _)) | Err(_) => {}
        }
    }
}

impl Source {
    /// What a response says. It takes as long as the verification of a signature.
    fn judge(&self, response: &[u8]) -> Result<OcspAnswer, freerun_tls::verify::OcspError> {
        ocsp_answer(response, &self.certificate, &self.issuer, self.signer, unix_time())
    }
}

/// The time in seconds since 1970.
pub(super) fn unix_time() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Has responses stapled to the certificates of a server, if it staples any: those `keys` that are known when the
/// configuration is read are replaced by those that have responses. They are told apart from those of servers that staple others. An issuer is looked for in the chain of a
/// certificate and in `trust`.
///
/// # Errors
/// The file with the response cannot be used, in nginx's words.
pub(in crate::tls) fn stapled(
    spec: &OcspSpec,
    files: &[FileName],
    keys: &mut [Option<CertifiedKey>],
    trust: &Trust,
    cx: &mut Cx,
) -> Result<Vec<Arc<Stapling>>, Problem> {
    let mut all = Vec::new();
    if !spec.stapling {
        return Ok(all);
    }
    let file = spec.stapling_file.as_ref().filter(|file| !file.is_empty());
    let response = file.map(|file| response_in(file, cx)).transpose()?;
    let known = keys.iter_mut().zip(files).filter_map(|(key, file)| Some((key.as_mut()?, file)));
    for (key, file) in known {
        let stapling = match &response {
            Some(response) => {
                let staple =
                    kept(key, &format!("{:?}", sha256(response)), cx, |key| Staple::fixed(key, response.clone()));
                Stapling { staple, source: None }
            }
            None => match source(spec, file, key, trust, cx) {
                Ok(source) => {
                    let Source { responder, signer, issuer, .. } = &source;
                    let known_by = format!("{} {signer:?} {:?} ", responder.place, sha256(issuer));
                    let staple = kept(key, &(known_by + &responder.path), cx, Staple::new);
                    Stapling { staple, source: Some(source) }
                }
                Err(why) => {
                    ignore(why, file.spot, cx);
                    continue;
                }
            },
        };
        *key = stapling.staple.key.clone();
        all.push(Arc::new(stapling));
    }
    Ok(all)
}

/// The certificate with what is stapled to it, which servers share that have the same chain and response, in this
/// configuration and in the one that runs.
fn kept(key: &CertifiedKey, response: &str, cx: &mut Cx, make: impl FnOnce(&CertifiedKey) -> Staple) -> Arc<Staple> {
    let mut name = String::new();
    for digest in key.chain().map(sha256) {
        // Writing to a string does not fail.
        let _ = write!(name, "{digest:?}");
    }
    name.push_str(response);
    cx.extensions.get_or_default::<ZoneTable>().keep(&name, || make(key))
}

/// The response in a file.
fn response_in(file: &FileName, cx: &mut Cx) -> Result<Vec<u8>, Problem> {
    let path = &file.path;
    let contents = read(file, cx).map_err(|error| {
        let said = unopened(path, &error);
        file.spot.blamed(problem(format!("BIO_new_file(\"{path}\") failed (SSL: {said})")))
    })?;
    check_ocsp_response(contents.bytes())
        .map_err(|said| file.spot.blamed(problem(format!("d2i_OCSP_RESPONSE_bio(\"{path}\") failed (SSL: {said})"))))?;
    Ok(contents.bytes().to_vec())
}

/// Where the response for a certificate comes from; or why there is none, in nginx's words.
fn source(spec: &OcspSpec, file: &FileName, key: &CertifiedKey, trust: &Trust, cx: &mut Cx) -> Result<Source, String> {
    let shown = file.shown();
    let certificate = key.chain().next().unwrap_or_default().to_vec();
    let issuer = trust.issuer(&certificate, key.chain().skip(1), unix_time());
    let issuer = issuer.ok_or_else(|| format!("issuer certificate not found for certificate \"{shown}\""))?;
    let responder = match written(&spec.stapling_responder) {
        Some(url) => Responder::of_directive(&url.text, cx),
        None => {
            let named = PeerCertificate::from_der(&certificate).map(|own| own.ocsp_responders()).unwrap_or_default();
            match named.first() {
                Some(url) => Responder::of_own_certificate(url, cx),
                None => return Err(format!("no OCSP responder URL in the certificate \"{shown}\"")),
            }
        }
    };
    let responder = responder.map_err(|bad| format!("{bad} in the certificate \"{shown}\""))?;
    let signer = if spec.stapling_verify { Signer::Authorised } else { Signer::Anybody };
    let (resolving, file) = (spec.resolving.clone(), shown.to_owned());
    Ok(Source { responder, resolving, certificate, issuer, signer, file })
}

/// What was told already; lives in the configuration's context.
#[derive(Default)]
struct Ignored(HashSet<String>);

/// Tells why nothing is stapled to a certificate, once for each.
fn ignore(why: String, spot: Spot, cx: &mut Cx) {
    if cx.extensions.get_or_default::<Ignored>().0.insert(why.clone()) {
        cx.warn(spot.blamed(Problem::warning(format!("\"ssl_stapling\" ignored, {why}"))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freerun_tls::load::{Chain, Key};

    fn staple() -> Arc<Staple> {
        let chain = Chain::from_pem(include_bytes!("../../../../tls/tests/fixtures/ec.crt")).expect("a chain");
        let none: &[&[u8]] = &[];
        let key = Key::from_pem(include_bytes!("../../../../tls/tests/fixtures/ec.key"), none).expect("a key");
        Arc::new(Staple::new(&CertifiedKey::new(&chain, &key).expect("a pair")))
    }

    #[test]
    fn one_fetch_goes_on_at_a_time_and_a_failed_one_is_repeated_later() {
        let staple = staple();
        let fetch = staple.begin(1000).expect("the first fetch");
        assert!(staple.begin(1000).is_none() && staple.begin(9000).is_none(), "it goes on");
        drop(fetch);
        assert!(staple.begin(1299).is_none());
        assert!(staple.begin(1300).is_some());
    }

    #[test]
    fn a_response_is_fetched_again_after_an_hour_or_before_its_end() {
        for (next_update, due) in [
            (None, 4600),
            (Some(100_000), 4600),
            (Some(4000), 3700),
            // As with nginx, not more often than every five minutes.
            (Some(1400), 1300),
            (Some(900), 1300),
        ] {
            let staple = staple();
            staple.begin(1000).expect("a fetch").done(b"good".to_vec(), next_update, 1000);
            assert_eq!(staple.due.load(Relaxed), due, "{next_update:?}");
            assert!(next_update == Some(900) || staple.begin(due - 1).is_none(), "{next_update:?}");
            assert!(staple.begin(due).is_some(), "{next_update:?}");
        }
    }

    #[test]
    fn a_response_that_is_not_followed_by_another_one_is_used_to_its_end() {
        let staple = staple();
        staple.begin(1000).expect("a fetch").done(b"good".to_vec(), Some(1500), 1000);
        drop(staple.begin(1300).expect("a fetch that fails"));
        assert!(staple.begin(1500).is_none());
        assert_eq!(staple.until.load(Relaxed), 1500);
        assert!(staple.begin(1501).is_none(), "it is too early for another attempt");
        assert_eq!(staple.until.load(Relaxed), NEVER, "but the old response is gone");
        assert!(staple.begin(1600).is_some());
    }
}
