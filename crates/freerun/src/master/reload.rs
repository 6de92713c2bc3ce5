//! Reading the configuration again while the server runs.

use std::time::{Duration, Instant};

use freerun_runtime::log::Level;

use super::state::{self, Opening, State};
use super::watch::Watch;
use super::{Master, ServingWorker};
use crate::console;
use crate::error::Error;

/// The longest time that a worker takes to build a configuration.
pub const BUILD_PATIENCE: Duration = Duration::from_secs(120);

impl Master {
    /// Reads the configuration again, and has the worker use it.
    pub(super) fn reload(&mut self) -> Result<(), Error> {
        self.manager.reloading();
        self.reload_waiters.begin();
        if let Err(why) = self.try_reload() {
            self.manager.refused(self.current.bundle.number);
            self.reload_waiters.end(Err(&why));
            return Ok(());
        }
        // After `WINCH` there is no worker; it starts with the new configuration.
        self.resume()
    }

    /// Reads the configuration, and gives it to the worker. Errors have been logged when this returns.
    ///
    /// # Errors
    /// The configuration is refused, for this reason.
    fn try_reload(&mut self) -> Result<(), String> {
        // Names are looked up and files read, one after the other, and meanwhile nobody is heard.
        let _working = self.manager.while_working();
        self.log(Level::Notice, format_args!("reconfiguring"));
        let log = self.current.log.clone();
        let tell = |failure: &_| console::log_failure(&log, failure);
        let earlier = (self.current.bundle.recorded.secrets.clone(), self.current.inherited.clone());
        let draft = state::read(&self.input, self.embedded.as_ref(), earlier, self.secrets.clone(), tell)?;
        let number = self.number + 1;
        let opening = Opening {
            number,
            input: &self.input,
            before: Some(&self.current),
            adopted: None,
            quic_secret: self.current.bundle.quic_secret.clone(),
            writer: &self.writer,
            log: &log,
        };
        let state = draft.open(opening)?;
        self.number = number;
        if state.bundle.identity != self.current.bundle.identity {
            let what = "another \"user\" takes effect when a worker is started";
            log.write(Level::Warn, None, format_args!("{what}"));
            self.reload_waiters.note(what.to_owned());
        }
        self.give_boxes(state.listens_for_quic());
        if let ServingWorker::Process(process) = &self.serving
            && !process.writable.has_all_of(&state.writable)
        {
            let why = "the configuration writes to folders that the worker's sandbox forbids: a new worker takes over";
            log.write(Level::Notice, None, format_args!("{why}"));
            self.adopt(state);
            self.replace_worker();
            self.takeover = Some(Instant::now() + BUILD_PATIENCE);
            return Ok(());
        }
        let told = match &mut self.serving {
            ServingWorker::Here(worker) => {
                let applied = state.duplicates().and_then(|fds| worker.apply(&state.bundle, fds));
                self.settle(state, applied.map_err(|error| error.to_string()));
                return Ok(());
            }
            ServingWorker::Process(process) => process.send_bundle(&state.bundle, &state.descriptors()),
            // The master has checked the configuration; the next worker starts with it.
            ServingWorker::Nobody(_) => {
                self.settle(state, Ok(()));
                return Ok(());
            }
        };
        match told {
            Ok(()) => self.pending = Some((state, Instant::now() + BUILD_PATIENCE)),
            Err(error) => self.settle(state, Err(error.to_string())),
        }
        Ok(())
    }

    /// Notes that a configuration is in use from now on, or that it failed.
    pub(super) fn settle(&mut self, state: State, result: Result<(), String>) {
        let others = self.upgrade.others();
        if let Err(error) = result {
            self.log(Level::Emerg, format_args!("the new configuration is not used: {error}"));
            state.listeners.unlink(Some(&self.current.listeners), others, &self.current.log);
            drop(state);
            self.give_memory_back();
            self.manager.refused(self.current.bundle.number);
            self.reload_waiters.end(Err(&error));
            return;
        }
        self.adopt(state);
        self.tell_in_use();
    }

    /// Makes this the configuration of the master.
    fn adopt(&mut self, state: State) {
        self.watch = Watch::of(&state, self.secrets.clone());
        let old = std::mem::replace(&mut self.current, state);
        // Dropping the old configuration closes the sockets that are not needed any more: the worker has closed them
        // already.
        old.listeners.unlink(Some(&self.current.listeners), self.upgrade.others(), &self.current.log);
        drop(old);
        self.give_memory_back();
        if let Err(error) = self.update_pid_file() {
            self.log(Level::Emerg, format_args!("{error}"));
        }
    }

    /// Tells everybody who waits for it that the configuration is in use.
    fn tell_in_use(&mut self) {
        self.log(Level::Notice, format_args!("configuration {} is in use", self.current.bundle.number));
        self.manager.ready(self.current.bundle.number);
        self.reload_waiters.end(Ok(()));
    }

    /// Ends the wait for a worker that the last reload has started. It serves now, or it never will for this reason: then
    /// the next worker starts with the new configuration.
    pub(super) fn end_takeover(&mut self, result: Result<(), &str>) {
        if self.takeover.take().is_none() {
            return;
        }
        match result {
            Ok(()) => self.tell_in_use(),
            Err(why) => {
                self.manager.ready(self.current.bundle.number);
                self.reload_waiters.end(Err(why));
            }
        }
    }
}
