//! The exporter: its handle, which loops give spans to, and its thread.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use freerun_runtime::log::Level;
use freerun_runtime::{loops, timer};
use tokio::sync::watch;

use crate::export::{Collector, ExportError, Signal};
use crate::figures::{SpanCounts, TelemetryFigures, add};
use crate::host::ExporterHost;
use crate::otlp::{MetricPoints, PartialSuccess, metrics_requests, trace_request};
use crate::queue::SpanQueue;
use crate::settings::ExporterSettings;

/// The time for exports after the end, unless [`Exporter::stop`] says another one.
const FLUSH: Duration = Duration::from_secs(3);

/// The time beyond that in which the thread has to end.
const GRACE: Duration = Duration::from_secs(1);

/// The pauses before a batch that could be sent again is sent again. Then it is given up.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// The time between two lines in the log about exports that fail.
const SILENCE: Duration = Duration::from_secs(60);

/// Reads the metrics of the server, in the text format of Prometheus. It is called on the exporter's thread.
pub type MetricSource = Arc<dyn Fn() -> String + Send + Sync>;

/// The configuration that exports follow from now on.
struct ExportPlan {
    settings: ExporterSettings,
    host: ExporterHost,
}

/// The exporter of a worker: a handle, shared by all its clones. It is kept over reloads.
#[derive(Clone)]
pub struct Exporter(Arc<ExporterState>);

struct ExporterState {
    queue: SpanQueue,
    figures: TelemetryFigures,
    plan: ArcSwapOption<ExportPlan>,
    metrics: OnceLock<MetricSource>,
    /// The number of spans of the export that goes on.
    in_flight: AtomicUsize,
    /// Taken by the control thread, to start and to end the thread.
    running: Mutex<Option<ExporterThread>>,
}

/// A running thread, as its owner sees it. Dropping this ends it.
struct ExporterThread {
    /// The time that exports may take after the end; sending it or dropping the sender is the end.
    stop: watch::Sender<Duration>,
    ended: mpsc::Receiver<()>,
}

impl Default for Exporter {
    fn default() -> Exporter {
        Exporter(Arc::new(ExporterState {
            queue: SpanQueue::new(),
            figures: TelemetryFigures::default(),
            plan: ArcSwapOption::empty(),
            metrics: OnceLock::new(),
            in_flight: AtomicUsize::new(0),
            running: Mutex::new(None),
        }))
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Exporter({:?})", self.counts())
    }
}

impl Exporter {
    /// Takes an encoded span. It never waits: a span that finds no room is dropped and counted. Returns whether it was taken.
    pub fn push(&self, span: Box<[u8]>) -> bool {
        let is_taken = self.0.queue.push(span);
        if !is_taken {
            add(&self.0.figures.dropped, 1);
        }
        is_taken
    }

    /// The counts of this moment.
    pub fn counts(&self) -> SpanCounts {
        self.0.figures.counts(self.0.queue.len())
    }

    /// Exports as these settings say from now on, and starts the thread if it does not run. Spans that wait go to the new
    /// collector.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn update(&self, settings: ExporterSettings, host: ExporterHost) -> io::Result<()> {
        let batch = settings.batch_size.max(1);
        self.0.queue.set_bounds(batch.saturating_mul(settings.batch_count.max(1)), batch);
        self.0.plan.store(Some(Arc::new(ExportPlan { settings, host })));
        let mut running = self.running();
        if running.is_none() {
            *running = Some(ExporterThread::start(self.0.clone())?);
        }
        drop(running);
        // The interval may be another one.
        self.0.queue.bell.notify_one();
        Ok(())
    }

    /// Sets the source of metrics, once. Without one, none are exported.
    pub fn set_metrics(&self, source: MetricSource) {
        // The source of the same worker is the same.
        let _ = self.0.metrics.set(source);
    }

    /// Takes no more spans. Those that wait are exported within a bounded time, and nobody waits for that.
    pub fn end(&self) {
        self.0.queue.set_bounds(0, 1);
        drop(self.running().take());
    }

    /// Exports the spans that wait, for `patience` at most, and ends the thread; waits for that.
    pub fn stop(&self, patience: Duration) {
        let running = self.running().take();
        if let Some(ExporterThread { stop, ended }) = running {
            // A thread that has ended does not take it.
            let _ = stop.send(patience);
            drop(stop);
            // The thread drops its sender at its end. A thread that is later than that ends with the process.
            let _ = ended.recv_timeout(patience + GRACE);
        }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<ExporterThread>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExporterThread {
    fn start(state: Arc<ExporterState>) -> io::Result<ExporterThread> {
        let (stop, stopped) = watch::channel(FLUSH);
        let (end, ended) = mpsc::channel();
        loops::epoch();
        std::thread::Builder::new().name("otel".to_owned()).spawn(move || {
            let log = state.plan.load().as_ref().map(|plan| plan.host.log.clone());
            if let Err(error) = loops::block_on(run(&state, stopped))
                && let Some(log) = log
            {
                log.write(Level::Alert, None, format_args!("otel: nothing is exported: {error}"));
            }
            drop(end);
        })?;
        Ok(ExporterThread { stop, ended })
    }
}

/// Waits until the owner wants the thread to end.
async fn wait_for_stop(stop: &mut watch::Receiver<Duration>) {
    // Either the time has come, or the sender has gone.
    let _ = stop.changed().await;
}

/// Exports until the owner wants an end, and then what waits, for a bounded time.
async fn run(state: &ExporterState, stop: watch::Receiver<Duration>) {
    let mut own_stop = stop.clone();
    let give_up = async {
        wait_for_stop(&mut own_stop).await;
        let patience = *own_stop.borrow();
        timer::sleep(patience).await;
    };
    let mut work = Work { state, stop, collector: Collector::default(), report: FailureReport::default() };
    tokio::select! {
        biased;
        () = work.run() => {}
        () = give_up => {
            let lost = state.in_flight.swap(0, Relaxed) + state.queue.len();
            add(&state.figures.failed, lost);
            if let Some(plan) = &*state.plan.load()
                && lost > 0
            {
                let line = format_args!("otel: {lost} spans were not exported before the end, no answer in time");
                plan.host.log.write(Level::Error, None, line);
            }
        }
    }
}

/// The work of the thread.
struct Work<'s> {
    state: &'s ExporterState,
    stop: watch::Receiver<Duration>,
    collector: Collector,
    report: FailureReport,
}

impl Work<'_> {
    async fn run(&mut self) {
        let mut known = None;
        let mut spans_due = loops::now();
        let mut metrics_due = loops::now();
        loop {
            let Some(plan) = self.state.plan.load_full() else { return };
            if known.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &plan)) {
                self.collector.reset();
                spans_due = loops::now() + plan.settings.interval;
                metrics_due = loops::now() + plan.settings.metrics.unwrap_or_default();
                known = Some(plan.clone());
            }
            let due = plan.settings.metrics.map_or(spans_due, |_| spans_due.min(metrics_due));
            let is_stopping = tokio::select! {
                biased;
                () = wait_for_stop(&mut self.stop) => true,
                () = timer::sleep_until(due) => false,
                () = self.state.queue.bell.notified() => false,
            };
            let now = loops::now();
            let is_spans_due = is_stopping || now >= spans_due;
            while self.state.queue.has_batch() || is_spans_due && self.state.queue.len() > 0 {
                let batch = self.state.queue.take_batch();
                if batch.is_empty() {
                    // A span is about to come in.
                    break;
                }
                self.export_spans(&plan, &batch).await;
            }
            if is_spans_due {
                spans_due = loops::now() + plan.settings.interval;
            }
            if let Some(interval) = plan.settings.metrics
                && (is_stopping || now >= metrics_due)
            {
                self.export_metrics(&plan).await;
                metrics_due = loops::now() + interval;
            }
            if is_stopping {
                return;
            }
        }
    }

    async fn export_spans(&mut self, plan: &ExportPlan, batch: &[Box<[u8]>]) {
        let count = batch.len();
        self.state.in_flight.store(count, Relaxed);
        let message = trace_request(&plan.settings.resource, batch);
        let mut pauses = PAUSES.iter();
        let result = loop {
            let error = match self.attempt(plan, Signal::Traces, message.clone()).await {
                Ok(taken) => break Ok(taken),
                Err(error) => error,
            };
            let Some(pause) = pauses.next().filter(|_| error.may_be_repeated()) else { break Err(error) };
            self.report.failed(plan, &error, self.state);
            tokio::select! {
                biased;
                () = wait_for_stop(&mut self.stop) => break Err(error),
                () = timer::sleep(*pause) => {}
            }
        };
        self.state.in_flight.store(0, Relaxed);
        let figures = &self.state.figures;
        match result {
            Ok(PartialSuccess { rejected, message }) => {
                let rejected = usize::try_from(rejected).unwrap_or(count).min(count);
                add(&figures.exported, count - rejected);
                add(&figures.failed, rejected);
                if rejected > 0 {
                    self.report.failed(plan, &ExportError::Refused(message), self.state);
                } else {
                    self.report.succeeded(plan);
                }
            }
            Err(error) => {
                add(&figures.failed, count);
                self.report.failed(plan, &error, self.state);
            }
        }
    }

    /// Exports the metrics once. If it fails, the next ones come anyway.
    async fn export_metrics(&mut self, plan: &ExportPlan) {
        let Some(source) = self.state.metrics.get() else { return };
        let points = MetricPoints::parse(&source());
        for message in metrics_requests(&plan.settings.resource, &points, unix_nanos()) {
            match self.attempt(plan, Signal::Metrics, message).await {
                Ok(_) => self.report.succeeded(plan),
                Err(error) => return self.report.failed(plan, &error, self.state),
            }
        }
    }

    async fn attempt(
        &mut self,
        plan: &ExportPlan,
        signal: Signal,
        message: Vec<u8>,
    ) -> Result<PartialSuccess, ExportError> {
        let result = self.collector.export(&plan.settings, &plan.host, signal, message).await;
        if result.is_err() {
            add(&self.state.figures.errors, 1);
        }
        result
    }
}

/// The present time in nanoseconds since 1970.
fn unix_nanos() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Lines of the log about failures: the first one at once, then one a minute, and one when exports work again.
#[derive(Default)]
struct FailureReport {
    last: Option<Instant>,
}

impl FailureReport {
    fn failed(&mut self, plan: &ExportPlan, error: &ExportError, state: &ExporterState) {
        let now = loops::now();
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < SILENCE) {
            return;
        }
        self.last = Some(now);
        let SpanCounts { dropped, failed, waiting, .. } = state.figures.counts(state.queue.len());
        let collector = plan.settings.endpoint.authority();
        let line = format_args!(
            "otel: export to {collector} failed: {error}; {waiting} spans wait, {failed} have failed, {dropped} were dropped"
        );
        plan.host.log.write(Level::Error, None, line);
    }

    fn succeeded(&mut self, plan: &ExportPlan) {
        if self.last.take().is_some() {
            let collector = plan.settings.endpoint.authority();
            plan.host.log.write(Level::Notice, None, format_args!("otel: export to {collector} works again"));
        }
    }
}
