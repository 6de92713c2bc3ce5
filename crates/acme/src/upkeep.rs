//! A certificate over time: ordered, kept, renewed.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use freerun_conf::text_of_os;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::facts::{self, Facts};
use crate::host::{Host, Level, Pair};
use crate::order::{self, Failure, Issuer};
use crate::schedule::{Schedule, Step, jitter};
use crate::settings::{CertificateSettings, IssuerSettings};
use crate::state::{self, CertificateFile, Damage, MAX_CERTIFICATE, certificate_name, checked_pair};
use crate::status_board::{Board, CertificateState, CertificateStatus};
use crate::turns::Turns;

/// The longest sleep of the thread before it looks at the clock again, which may have been set meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(10 * 60);

/// Upkeep of one certificate.
pub(crate) struct Upkeep {
    pub(crate) host: Arc<dyn Host>,
    pub(crate) board: Arc<Board>,
    pub(crate) turns: Turns,
    pub(crate) issuer: Rc<Issuer>,
    pub(crate) certificate: CertificateSettings,
    /// Tells that the clock should be looked at.
    pub(crate) nudge: Rc<Notify>,
    /// Whether the host has a certificate of this issuer. It is so from the beginning where the settings of the issuer have
    /// changed, but not its CA.
    pub(crate) has_come: Rc<Cell<bool>>,
}

impl Upkeep {
    /// Keeps the certificate for as long as it is wanted.
    pub(crate) async fn run(self) {
        let mut status = CertificateStatus::new(self.certificate.clone());
        let mut schedule = Schedule::default();
        let stored = load(&*self.host, self.issuer.settings(), &self.certificate);
        let is_stored = stored.is_some();
        let pair = stored.or_else(|| self.held());
        let mut held = pair.as_ref().and_then(|pair| facts::of_chain(&pair.chain));
        if let (Some(facts), Some(pair)) = (&held, &pair) {
            schedule.found(facts.validity);
            status.state = CertificateState::Valid;
            // What the server has may be of another CA, or not there: a reload can change the CA behind a name, or take a
            // certificate away and bring it back.
            if is_stored {
                self.host.issued(&self.certificate, pair);
            }
        }
        self.has_come.set(held.is_some());
        drop(pair);
        loop {
            let now = self.host.now();
            let step = schedule.next(now);
            status.not_after = schedule.not_after();
            status.renewal_window = schedule.window();
            status.next_attempt = Some(schedule.next_attempt(now));
            self.board.set(status.clone());
            match step {
                Step::Wait(until) => self.sleep(until.duration_since(now).unwrap_or_default()).await,
                Step::AskWindow => self.ask_window(&mut schedule, held.as_ref()).await,
                Step::Order => {
                    let turn = self.turns.take(&self.certificate.identifiers).await;
                    let before = status.state;
                    debug_assert!(before != CertificateState::Ordering, "two orders of a certificate are in progress");
                    status.state = CertificateState::Ordering;
                    status.next_attempt = None;
                    self.board.set(status.clone());
                    let replaces = held.as_ref().and_then(|facts| facts.identifier.clone());
                    let (issuer, certificate) = (self.issuer.clone(), self.certificate.clone());
                    let ordered = guarded(async move { order::order(&issuer, &certificate, replaces).await }).await;
                    drop(turn);
                    match ordered.and_then(|pair| self.take(&mut schedule, pair)) {
                        Ok(facts) => {
                            held = Some(facts);
                            status.state = CertificateState::Valid;
                            status.last_error = None;
                        }
                        Err(failure) => {
                            status.state = match failure.waits_until {
                                Some(_) if status.last_error.is_none() => before,
                                _ => CertificateState::Failed,
                            };
                            status.last_error = Some(failure.text.clone());
                            self.failed(&mut schedule, &failure);
                        }
                    }
                }
            }
        }
    }

    /// The certificate that the server uses, where it is of this issuer and not on disk.
    fn held(&self) -> Option<Pair> {
        let pair = self.has_come.get().then(|| self.host.held(&self.certificate))??;
        checked_pair(&pair, &self.certificate.identifiers).ok()?;
        // The folder may have changed.
        store(&*self.host, self.issuer.settings(), &self.certificate, &pair);
        self.log(Level::Info, "the certificate in use is kept");
        Some(pair)
    }

    async fn sleep(&self, length: Duration) {
        // Either is a reason to look again.
        let _ = timeout(length.min(LONGEST_SLEEP), self.nudge.notified()).await;
    }

    async fn ask_window(&self, schedule: &mut Schedule, held: Option<&Facts>) {
        let Some(identifier) = held.and_then(|facts| facts.identifier.clone()) else {
            return schedule.asked(self.host.now(), None);
        };
        let issuer = self.issuer.clone();
        let answer = guarded(async move { order::ask_window(&issuer, &identifier).await }).await;
        let answer = answer.unwrap_or_else(|failure| {
            // Without an answer the certificate is renewed by its own time.
            self.log(Level::Info, &format!("no answer when to renew: {}", failure.text));
            None
        });
        schedule.asked(self.host.now(), answer);
    }

    /// Takes a certificate that was issued.
    fn take(&self, schedule: &mut Schedule, pair: Pair) -> Result<Facts, Failure> {
        let facts = facts::of_chain(&pair.chain).ok_or_else(|| Failure::new("the CA's certificate cannot be read"))?;
        store(&*self.host, self.issuer.settings(), &self.certificate, &pair);
        schedule.issued(self.host.now(), facts.validity);
        self.log(Level::Notice, "a certificate was issued");
        self.host.issued(&self.certificate, &pair);
        self.has_come.set(true);
        Ok(facts)
    }

    fn failed(&self, schedule: &mut Schedule, failure: &Failure) {
        let now = self.host.now();
        if let Some(until) = failure.waits_until {
            return schedule.waits(now, until);
        }
        schedule.failed(now, failure.retry_after, jitter());
        let pause = schedule.next_attempt(now).duration_since(now).unwrap_or_default();
        let ended = schedule.not_after().is_none_or(|end| end <= now);
        // As long as the certificate in use has not ended, nobody notices.
        let level = if ended { Level::Error } else { Level::Warn };
        self.log(level, &format!("no certificate, next attempt in {} s: {}", pause.as_secs(), failure.text));
    }

    fn log(&self, level: Level, line: &str) {
        log(&*self.host, &self.certificate, level, line);
    }
}

/// Does something in a task of its own, which ends with this. The library panics where a CA sends it a URL that is
/// none, and that is a failure like others.
async fn guarded<T: 'static>(work: impl Future<Output = Result<T, Failure>> + 'static) -> Result<T, Failure> {
    let mut tasks = JoinSet::new();
    tasks.spawn_local(work);
    match tasks.join_next().await {
        Some(Ok(done)) => done,
        _ => Err(Failure::new("what the CA sent made the ACME library panic")),
    }
}

fn log(host: &dyn Host, certificate: &CertificateSettings, level: Level, line: &str) {
    let first = certificate.identifiers.first().map(ToString::to_string).unwrap_or_default();
    let key = certificate.key.name();
    host.log(level, &format!("{} ({key}): {line}", log_words(&certificate.issuer, &first)));
}

/// The words that lines of the log about a certificate begin with: its issuer, and the first name that it is for.
pub fn log_words(issuer: &str, first_name: &str) -> String {
    format!("acme issuer \"{issuer}\", certificate \"{first_name}\"")
}

/// Reads a certificate of an earlier run, which may have ended.
pub(crate) fn load(host: &dyn Host, issuer: &IssuerSettings, certificate: &CertificateSettings) -> Option<Pair> {
    let folder = issuer.state_path.as_ref()?;
    let name = certificate_name(&issuer.uri, certificate);
    let unused = |why: String| {
        log(host, certificate, Level::Warn, &format!("{} is not used: {why}", text_of_os(&folder.join(&name))));
    };
    let bytes = state::read(folder, &name, MAX_CERTIFICATE).inspect_err(|error| unused(error.to_string())).ok()??;
    let usable = || {
        let file = CertificateFile::parse(&bytes)?;
        if !file.is_about(&issuer.uri, certificate) {
            return Err(Damage::Other);
        }
        checked_pair(&file.pair, &certificate.identifiers)?;
        Ok(file.pair)
    };
    usable().inspect_err(|damage| unused(damage.to_string())).ok()
}

fn store(host: &dyn Host, issuer: &IssuerSettings, certificate: &CertificateSettings, pair: &Pair) {
    let Some(folder) = &issuer.state_path else { return };
    let file = CertificateFile::new(&issuer.uri, certificate, pair.clone());
    if let Err(error) = state::replace(folder, &certificate_name(&issuer.uri, certificate), &file.to_text()) {
        let line = format!("the certificate cannot be written to {}: {error}", text_of_os(&folder));
        log(host, certificate, Level::Error, &line);
    }
}
