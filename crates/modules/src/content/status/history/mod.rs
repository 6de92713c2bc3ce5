//! The history of the last fifteen minutes, which a page that is opened after an incident shows, and the problems of that
//! time. A thread of its own takes a sample each five seconds, so that no request waits for it.

pub mod figures;
mod recorder;
mod ring;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use freerun_conf::Cx;
use freerun_http::build::route_list::WantsRouteList;
use freerun_proxy::cached::clock::unix_now;
use freerun_serve::configuration::generation::Generation;
use freerun_serve::configuration::object_places::{ObjectPlaces, WantsObjectPlaces};
use freerun_serve::configuration::parts::Parts;
use freerun_serve::configuration::zones::ZoneTable;
use freerun_serve::loops::shared::SharedState;

use self::figures::HistoryFigures;
use self::recorder::Recorder;
use super::figures::Figures;
use super::problems::baselines::{Baselines, CounterSample, CounterSamples};
use super::problems::problem_log::ProblemLog;
use super::problems::{self, ProblemContext};

/// The time between two samples.
const INTERVAL: Duration = Duration::from_secs(5);

/// The history of a worker. It goes on over reloads, and begins anew with another worker.
#[derive(Default)]
pub struct StatusHistory {
    /// Whether there is a thread that takes samples.
    is_sampled: AtomicBool,
    /// The rows of values. The lock is held by the thread that takes samples, and by threads of pools that show them; no
    /// loop takes it.
    samples: Mutex<Samples>,
    /// The knowledge that figures of the present are judged by.
    published: ArcSwap<KnownPast>,
}

#[derive(Default)]
struct Samples {
    recorder: Recorder,
    counters: CounterSamples,
}

/// The facts of the past that judge the present. It is made anew with each sample.
#[derive(Default)]
struct KnownPast {
    baselines: Baselines,
    log: ProblemLog,
}

impl StatusHistory {
    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the problems to figures of this moment.
    fn judge(&self, figures: &mut Figures, shared: &SharedState) {
        let past = self.published.load();
        let context = ProblemContext {
            now: unix_now().cast_signed(),
            at: Instant::now(),
            baselines: past.baselines.clone(),
            log: past.log.clone(),
            places: shared.generation.load().parts.get::<ObjectPlaces>().unwrap_or_default(),
        };
        figures.problems = problems::of(figures, &context);
        figures.past_problems = past.log.past(&figures.problems, context.now);
    }

    /// Takes a sample. It may take some milliseconds, in which no loop waits.
    fn sample(&self, shared: &SharedState) {
        let mut figures = Figures::collect(shared);
        self.judge(&mut figures, shared);
        let now = unix_now().cast_signed();
        let mut samples = self.samples();
        // Of a worker that has just started, all counters were 0 when it did.
        let is_new = samples.counters.is_empty() && shared.started.elapsed() < INTERVAL;
        if is_new {
            samples.counters.add(CounterSample::at_start(shared.started));
        }
        samples.recorder.add(&figures, now, is_new);
        let baselines = samples.counters.add(CounterSample::of(&figures, Instant::now()));
        drop(samples);
        let log = self.published.load().log.with(&figures.problems, now);
        self.published.store(Arc::new(KnownPast { baselines, log }));
    }

    /// The history as JSON shows it. It may wait for a sample, so a loop never calls it.
    fn show(&self) -> HistoryFigures {
        self.samples().recorder.show(INTERVAL.as_secs())
    }

    /// Has samples taken from now on, as long as the configuration that serves has this history.
    ///
    /// # Errors
    /// There can be no thread for it.
    pub fn begin(self: &Arc<StatusHistory>, shared: &Arc<SharedState>) -> std::io::Result<()> {
        if self.is_sampled.swap(true, AcqRel) {
            return Ok(());
        }
        let (history, shared) = (Arc::downgrade(self), Arc::downgrade(shared));
        let started = std::thread::Builder::new().name("status".to_owned()).spawn(move || sample_on(&history, &shared));
        if let Err(error) = started {
            self.is_sampled.store(false, Release);
            return Err(error);
        }
        Ok(())
    }
}

/// The history of a configuration that has a location which shows it.
pub fn of(generation: &Generation) -> Option<Arc<StatusHistory>> {
    generation.parts.get::<StatusHistory>()
}

/// The present figures, with the problems that they show.
pub fn judged_figures(shared: &SharedState) -> Figures {
    let mut figures = Figures::collect(shared);
    match of(&shared.generation.load()) {
        Some(history) => history.judge(&mut figures, shared),
        None => figures.problems = problems::of(&figures, &ProblemContext::new(unix_now().cast_signed())),
    }
    figures
}

/// The history of a generation as JSON shows it. It may wait, so a loop never calls it.
pub fn show(generation: &Generation) -> HistoryFigures {
    of(generation).unwrap_or_default().show()
}

/// Takes samples until the worker ends, or serves by a configuration without this history.
fn sample_on(history: &Weak<StatusHistory>, shared: &Weak<SharedState>) {
    loop {
        let (Some(history), Some(shared)) = (history.upgrade(), shared.upgrade()) else { return };
        if !of(&shared.generation.load()).is_some_and(|current| Arc::ptr_eq(&current, &history)) {
            return;
        }
        history.sample(&shared);
        drop((history, shared));
        std::thread::sleep(INTERVAL);
    }
}

/// Whether a location of the configuration that is being read shows the state. It lives in the configuration's context.
#[derive(Default)]
struct ShowsState(bool);

/// Notes that a location of the configuration that is being read shows the state.
pub fn want(cx: &mut Cx) {
    cx.extensions.get_or_default::<ShowsState>().0 = true;
    cx.extensions.get_or_default::<WantsRouteList>().0 = true;
    cx.extensions.get_or_default::<WantsObjectPlaces>().0 = true;
}

/// Gives the configuration that was read the history, if a location shows it.
pub fn declare(cx: &mut Cx) {
    if cx.extensions.remove::<ShowsState>().is_some_and(|shows| shows.0) {
        let history = cx.extensions.get_or_default::<ZoneTable>().keep("status history", StatusHistory::default);
        cx.extensions.get_or_default::<Parts>().insert(history);
    }
}
