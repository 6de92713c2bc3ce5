//! OCSP responses about the server's own certificates, which clients get with the certificate (`ssl_stapling`).

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, OnceLock};

use freerun_conf::{Cx, Problem};
use freerun_runtime::files::SocketPaths;
use freerun_runtime::log::{ErrorLog, Level, clock};
use freerun_runtime::loops;
use freerun_runtime::pool::CpuPool;
use freerun_tls::digest::sha256;
use freerun_tls::load::{CertifiedKey, unopened};
use freerun_tls::verify::{
    OcspAnswer, OcspStatus, PeerCertificate, Signer, TrustStore, check_ocsp_response, ocsp_answer, ocsp_request,
    status_word,
};

use super::ask::OcspQuestion;
use super::responder::Responder;
use super::spec::{OcspResolver, OcspSpec, written};
use crate::configuration::generation::Generation;
use crate::configuration::zones::ZoneTable;
use crate::tls::objects::read;
use crate::tls::values::{FileName, Spot};
use crate::tls::words::problem;

/// The longest use of a response before another is fetched, in seconds.
const LONGEST: i64 = 3600;

/// Time before a response's end at which another is fetched, and pause after an attempt, in seconds.
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
    /// Time of the next fetch, in seconds since 1970.
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
    /// Empty if the response never changes, or if it is not known yet where it comes from.
    source: OnceLock<StapleSource>,
    /// Parts to make the source of, for a certificate that comes while the server runs.
    recipe: Option<Arc<Recipe>>,
}

/// Responder for a certificate, and the facts that its response is checked by.
#[derive(Debug)]
struct StapleSource {
    responder: Responder,
    resolving: Option<OcspResolver>,
    certificate: Vec<u8>,
    issuer: Vec<u8>,
    signer: Signer,
    file: String,
}

impl Stapling {
    fn new(staple: Arc<Staple>, source: Option<StapleSource>) -> Stapling {
        let source = source.map(OnceLock::from).unwrap_or_default();
        Stapling { staple, source, recipe: None }
    }

    /// The stapling for a certificate that comes in the place of another one while the server runs.
    pub(in crate::tls) fn later(key: &CertifiedKey, recipe: Arc<Recipe>) -> Stapling {
        let staple = Arc::new(Staple::new(key));
        Stapling { staple, source: OnceLock::new(), recipe: Some(recipe) }
    }

    /// The certificate that has the responses.
    pub(in crate::tls) fn key(&self) -> &CertifiedKey {
        &self.staple.key
    }

    /// Has to be called on a loop when a client wants a response. What is stapled is brought up to date, which the client
    /// does not wait for: if there is no response yet, it gets none.
    pub fn wanted(self: &Arc<Stapling>, generation: &Arc<Generation>) {
        if self.source.get().is_none() && self.recipe.is_none() {
            return;
        }
        let Some(fetch) = self.staple.begin(clock::now().secs) else { return };
        // The generation itself is not held: a responder may take minutes to answer, and a reload may come meanwhile.
        let (this, pool, log) = (self.clone(), generation.pools.handshakes().clone(), generation.error_log.clone());
        let (files, default) = (generation.files.clone(), generation.pools.default().clone());
        loops::spawn(0, "fetching an OCSP response", async move {
            let paths = SocketPaths { files: &files, pool: &default, client: 0 };
            this.fetch(fetch, &pool, paths, &log).await;
        });
    }

    /// Finds out where the response comes from, if that is not known. An issuer is looked for by its signature, which takes
    /// too long for a loop.
    async fn find_source(self: &Arc<Stapling>, pool: &CpuPool, log: &ErrorLog) -> Option<&StapleSource> {
        if self.source.get().is_none() {
            let recipe = self.recipe.clone()?;
            let this = self.clone();
            let find = move || recipe.source(&this.staple.key);
            let found = pool.run_in_lane(0, std::future::pending(), find).await.ok()?;
            match found {
                Ok(source) => drop(self.source.set(source)),
                Err(why) => {
                    // It would not be found by another attempt.
                    self.staple.due.store(NEVER, Relaxed);
                    log.write(Level::Warn, None, format_args!("\"ssl_stapling\" ignored, {why}"));
                }
            }
        }
        self.source.get()
    }

    async fn fetch(self: Arc<Stapling>, fetch: Fetch, pool: &CpuPool, paths: SocketPaths<'_>, log: &ErrorLog) {
        let Some(source) = self.find_source(pool, log).await else { return };
        let asking = OcspQuestion {
            responder: &source.responder,
            resolving: source.resolving.as_ref(),
            paths,
            log,
            connection: None,
            file: Some(&source.file),
        };
        let Some(request) = ocsp_request(&source.certificate, &source.issuer) else {
            return asking.tell(Level::Error, None, "the question about the certificate cannot be written");
        };
        let Some((response, address)) = asking.ask(&request).await else { return };
        let this = self.clone();
        let judge = move || (this.source.get().map(|source| source.judge(&response)), response);
        let judged = pool.run_in_lane(0, std::future::pending(), judge).await;
        let tell = |what: &dyn std::fmt::Display| asking.tell(Level::Error, Some(&address), what);
        match judged {
            Ok((Some(Ok(answer)), response)) => match answer.status {
                OcspStatus::Good => fetch.done(response, answer.next_update, clock::now().secs),
                other => {
                    tell(&format_args!("certificate status \"{}\" in the OCSP response", status_word(other)));
                }
            },
            Ok((Some(Err(error)), _)) => tell(&error),
            Ok((None, _)) | Err(_) => {}
        }
    }
}

impl StapleSource {
    /// Verifies a response and returns its answer. It takes as long as the verification of a signature.
    fn judge(&self, response: &[u8]) -> Result<OcspAnswer, freerun_tls::verify::OcspError> {
        ocsp_answer(response, &self.certificate, &self.issuer, self.signer, clock::now().secs)
    }
}

/// Source of the responses for the certificates of a server.
pub(in crate::tls) struct Staples<'s> {
    spec: &'s OcspSpec,
    /// The response that is stapled to all of them, if it is in a file.
    response: Option<Vec<u8>>,
    trust: &'s TrustStore,
}

impl<'s> Staples<'s> {
    /// `None` if the server staples none. An issuer is looked for in the chain of a certificate and in `trust`.
    ///
    /// # Errors
    /// The file with the response cannot be used, in nginx's words.
    pub(in crate::tls) fn of(
        spec: &'s OcspSpec,
        trust: &'s TrustStore,
        cx: &mut Cx,
    ) -> Result<Option<Staples<'s>>, Problem> {
        if !spec.stapling {
            return Ok(None);
        }
        let file = spec.stapling_file.as_ref().filter(|file| !file.is_empty());
        let response = file.map(|file| response_in(file, cx)).transpose()?;
        Ok(Some(Staples { spec, response, trust }))
    }

    /// The certificate with its response. Servers that staple other responses to the same certificate have another one.
    /// `shown` is where the certificate comes from. `None`, with a warning, if no responder is known.
    pub(in crate::tls) fn stapled(
        &self,
        shown: &str,
        spot: Spot,
        key: &CertifiedKey,
        cx: &mut Cx,
    ) -> Option<Arc<Stapling>> {
        if let Some(response) = &self.response {
            let known_by = format!("{:?}", sha256(response));
            let staple = kept(key, &known_by, cx, |key| Staple::fixed(key, response.clone()));
            return Some(Arc::new(Stapling::new(staple, None)));
        }
        match self.source(shown, key, cx) {
            Ok(source) => {
                let StapleSource { responder, signer, issuer, .. } = &source;
                let known_by = format!("{} {signer:?} {:?} {}", responder.place, sha256(issuer), responder.path);
                let staple = kept(key, &known_by, cx, Staple::new);
                Some(Arc::new(Stapling::new(staple, Some(source))))
            }
            Err(why) => {
                ignore(why, spot, cx);
                None
            }
        }
    }

    /// The parts to make sources of, for the certificates that replace one while the server runs; it has `now` stapled
    /// to it. `None` if nothing can be stapled to them: a response in a file is for no certificate but the first.
    pub(in crate::tls) fn recipe(&self, shown: &str, now: Option<&Stapling>) -> Option<Arc<Recipe>> {
        self.response.is_none().then(|| {
            Arc::new(Recipe {
                known: now.and_then(|stapling| stapling.source.get()).map(|source| source.responder.clone()),
                directive: written(&self.spec.stapling_responder).map(|url| url.text.clone()),
                signer: signer(self.spec),
                resolving: self.spec.resolving.clone(),
                trust: self.trust.clone(),
                file: shown.to_owned(),
            })
        })
    }

    /// The source of the response for a certificate; or the reason why there is none, in nginx's words.
    fn source(&self, shown: &str, key: &CertifiedKey, cx: &mut Cx) -> Result<StapleSource, String> {
        let (certificate, issuer) = with_issuer(key, self.trust, shown)?;
        let responder = match written(&self.spec.stapling_responder) {
            Some(url) => Responder::of_directive(&url.text, cx),
            None => Responder::of_own_certificate(&named_responder(&certificate, shown)?, cx),
        };
        let responder = responder.map_err(|bad| format!("{bad} in the certificate \"{shown}\""))?;
        let resolving = self.spec.resolving.clone();
        Ok(StapleSource {
            responder,
            resolving,
            certificate,
            issuer,
            signer: signer(self.spec),
            file: shown.to_owned(),
        })
    }
}

/// Parts to make the source of a response of, for a certificate that comes while the server runs.
#[derive(Debug)]
pub(in crate::tls) struct Recipe {
    /// The responder for the certificate before it. Its addresses were looked up when the configuration was read, which
    /// cannot be done now.
    known: Option<Responder>,
    /// `ssl_stapling_responder`
    directive: Option<String>,
    signer: Signer,
    resolving: Option<OcspResolver>,
    trust: TrustStore,
    file: String,
}

impl Recipe {
    /// The source of the response for a certificate; or the reason why there is none.
    fn source(&self, key: &CertifiedKey) -> Result<StapleSource, String> {
        let shown = self.file.as_str();
        let (certificate, issuer) = with_issuer(key, &self.trust, shown)?;
        let responder = match (&self.known, &self.directive) {
            (Some(known), Some(_)) => known.clone(),
            (None, Some(url)) => return Err(format!("the addresses of \"{url}\" are not known")),
            (known, None) => {
                let url = named_responder(&certificate, shown)?;
                let named = Responder::of_client_certificate(&url);
                let named = named.map_err(|bad| format!("{bad} in the certificate \"{shown}\""))?;
                match known {
                    Some(known) if known.place == named.place => Responder { known: known.known.clone(), ..named },
                    _ if named.known.is_empty() && self.resolving.is_none() => {
                        return Err(format!(
                            "host not found in OCSP responder \"{named}\" in the certificate \"{shown}\""
                        ));
                    }
                    _ => named,
                }
            }
        };
        let (resolving, file) = (self.resolving.clone(), self.file.clone());
        Ok(StapleSource { responder, resolving, certificate, issuer, signer: self.signer, file })
    }
}

/// The signer that a response needs.
fn signer(spec: &OcspSpec) -> Signer {
    if spec.stapling_verify { Signer::Authorised } else { Signer::Anybody }
}

/// A certificate and its issuer's certificate.
fn with_issuer(key: &CertifiedKey, trust: &TrustStore, shown: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let certificate = key.chain().next().unwrap_or_default().to_vec();
    let issuer = trust.issuer(&certificate, key.chain().skip(1), clock::now().secs);
    let issuer = issuer.ok_or_else(|| format!("issuer certificate not found for certificate \"{shown}\""))?;
    Ok((certificate, issuer))
}

/// The URL of the responder that a certificate names.
fn named_responder(certificate: &[u8], shown: &str) -> Result<Vec<u8>, String> {
    let named = PeerCertificate::from_der(certificate).map(|own| own.ocsp_responders()).unwrap_or_default();
    named.into_iter().next().ok_or_else(|| format!("no OCSP responder URL in the certificate \"{shown}\""))
}

/// The certificate with its staple, in this configuration or in the running one. Servers share it if they have the same
/// chain and the same kind of response.
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

/// Reasons that were warned of already; lives in the configuration's context.
#[derive(Default)]
struct IgnoredWarnings(HashSet<String>);

/// Tells why nothing is stapled to a certificate, once for each.
fn ignore(why: String, spot: Spot, cx: &mut Cx) {
    if cx.extensions.get_or_default::<IgnoredWarnings>().0.insert(why.clone()) {
        cx.warn(spot.blamed(Problem::warning(format!("\"ssl_stapling\" ignored, {why}"))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::fixtures::certified;

    fn staple() -> Arc<Staple> {
        Arc::new(Staple::new(&certified("ec")))
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
