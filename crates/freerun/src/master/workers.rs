//! The worker as the master looks after it: what it says, its end, the next one, and those that were told to go.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use freerun_runtime::log::{Errno, Level};
use freerun_serve::listen::ListenKey;
use freerun_sys::memory;

use super::listeners::Listeners;
use super::quic_boxes::{HALF, QuicBoxes};
use super::reload::BUILD_PATIENCE;
use super::supervise::{Process, describe, level_of};
use super::{EndOrder, Master, ServingWorker};
use crate::bundle::{FromWorker, ToWorker};
use crate::error::Error;

/// The most workers that may be finishing their requests after `WINCH`. With more, the oldest one ends at once.
const MAX_LEAVING: usize = 16;

/// The most of them that may have message boxes of QUIC. With more, the oldest of these ends at once: the next worker needs its
/// number.
const MAX_NUMBERED: usize = HALF as usize - 1;

const _: () = assert!(0 < MAX_NUMBERED && MAX_NUMBERED < MAX_LEAVING, "workers leave one after the other");

/// The time that a worker that ends has to exit with its code.
const EXIT: Duration = Duration::from_millis(200);

/// Waits a moment until a process has ended by itself, and ends it otherwise.
fn end(process: &mut Process) -> Option<ExitStatus> {
    let deadline = Instant::now() + EXIT;
    let mut status = process.exited();
    while status.is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
        status = process.exited();
    }
    status.or_else(|| process.kill())
}

impl Master {
    /// Closes the sockets of these removed addresses.
    pub(super) fn close_removed(&mut self, addresses: &[ListenKey]) {
        self.current.removed.remove(addresses);
        if let Some((pending, _)) = &mut self.pending {
            pending.removed.remove(addresses);
        }
    }

    /// Gives memory back to the system: reading and sending a configuration takes much, and the master keeps little of
    /// it.
    pub(super) fn give_memory_back(&self) {
        // A worker in this process has loops, which would wait for this.
        if !matches!(self.serving, ServingWorker::Here(_)) {
            memory::give_back();
        }
    }

    pub(super) fn log_started(&self) {
        if let ServingWorker::Process(process) = &self.serving {
            self.log(Level::Notice, format_args!("start worker process {}", process.id()));
        }
    }

    /// Handles a message from the worker.
    pub(super) fn hear(&mut self) -> Result<(), Error> {
        let ServingWorker::Process(process) = &self.serving else { return Ok(()) };
        let worker = process.id();
        match process.channel.receive::<FromWorker>() {
            Ok((FromWorker::Applied { number, result }, _)) => {
                self.building = None;
                if let Some((state, _)) = self.pending.take_if(|(state, _)| state.bundle.number == number) {
                    self.settle(state, result);
                } else if self.starting {
                    result.map_err(Error::Configuration)?;
                    self.begun()?;
                } else if let Err(error) = result {
                    self.log(Level::Alert, format_args!("worker process {worker}: {error}"));
                    self.worker_ended()?;
                } else {
                    self.end_takeover(Ok(()));
                }
                Ok(())
            }
            Ok((FromWorker::Closed(addresses), _)) => {
                self.close_removed(&addresses);
                Ok(())
            }
            Ok((FromWorker::Alive { loops_live }, _)) => {
                self.asked = false;
                if loops_live {
                    self.manager.alive();
                }
                Ok(())
            }
            // The worker's end of the socket closes when it dies; SIGCHLD may come a moment later.
            Err(Error::Gone) => self.worker_ended(),
            Err(error) => {
                self.log(Level::Alert, format_args!("worker process {worker}: {error}"));
                self.worker_ended()
            }
        }
    }

    /// Handles deadlines and the end of the worker.
    pub(super) fn look_after_worker(&mut self) -> Result<(), Error> {
        let now = Instant::now();
        if let ServingWorker::Process(process) = &mut self.serving
            && let Some(status) = process.exited()
        {
            self.note_exit(status.into())?;
        }
        self.look_after_leaving(now);
        let limits = [self.pending.as_ref().map(|(_, limit)| *limit), self.takeover];
        if limits.iter().flatten().any(|limit| now >= *limit) {
            self.log(Level::Alert, format_args!("the worker does not answer"));
            self.worker_ended()?;
            self.end_takeover(Err("no worker serves by it"));
        }
        match (&self.serving, self.ending) {
            (ServingWorker::Process(_), Some(EndOrder::Stop(kill))) if now >= kill => self.worker_ended(),
            (ServingWorker::Nobody(start), None) if now >= *start && !self.upgrade.paused => self.restart(),
            _ => Ok(()),
        }
    }

    /// Makes sure that the worker has ended, and logs it.
    fn worker_ended(&mut self) -> Result<(), Error> {
        let ServingWorker::Process(process) = &mut self.serving else { return Ok(()) };
        // A worker that ends in order closes its socket before.
        let status = end(process);
        self.note_exit(status)
    }

    fn note_exit(&mut self, status: Option<ExitStatus>) -> Result<(), Error> {
        let ServingWorker::Process(process) = &self.serving else { return Ok(()) };
        let what = status.map_or_else(|| "is gone".to_owned(), describe);
        let level = status.map_or(Level::Alert, level_of);
        self.log(level, format_args!("worker process {} {what}", process.id()));
        self.tell_gone(process.number);
        self.current.removed = Listeners::default();
        let pause = self.backoff.after_process(process);
        self.serving = ServingWorker::Nobody(Instant::now() + pause);
        if self.starting && self.ending.is_none() {
            return Err(Error::Configuration("the worker ended before it served".into()));
        }
        if self.ending.is_none() {
            self.current.bundle.respawned = self.current.bundle.respawned.saturating_add(1);
        }
        if let Some((state, _)) = self.pending.take() {
            self.settle(state, Err("the worker ended while it read it".into()));
        }
        self.end_takeover(Err("the worker ended before it served"));
        Ok(())
    }

    pub(super) fn restart(&mut self) -> Result<(), Error> {
        let states = self.take_states();
        self.start_worker(states);
        Ok(())
    }

    /// Starts a worker with the current configuration and the states of the one before, or the way to them.
    fn start_worker(&mut self, states: Option<OwnedFd>) {
        let wants_boxes = self.current.listens_for_quic();
        let started = Process::spawn(&self.current, None).and_then(|mut process| {
            self.give_boxes_to(&mut process, wants_boxes);
            if let Some(states) = states {
                process.channel.send(&ToWorker::Predecessor, &[states.as_fd()])?;
            }
            process.send_bundle(&self.current.bundle, &self.current.descriptors())?;
            Ok(process)
        });
        match started {
            Ok(process) => {
                self.serving = ServingWorker::Process(Box::new(process));
                self.asked = false;
                self.building = Some(Instant::now() + BUILD_PATIENCE);
                self.log_started();
                self.give_memory_back();
            }
            Err(error) => {
                self.log(Level::Alert, format_args!("{error}"));
                self.serving = ServingWorker::Nobody(Instant::now() + self.backoff.after(Duration::ZERO));
            }
        }
    }

    /// Starts another worker, which gets the states of the present worker. The present one finishes its requests and
    /// ends. The sockets stay: a connection that comes meanwhile waits for the new worker.
    pub(super) fn replace_worker(&mut self) {
        let ends = UnixStream::pair().map_err(Error::call("socketpair()"));
        let handed = ends.and_then(|(old, new)| {
            if let ServingWorker::Process(process) = &self.serving {
                process.channel.send(&ToWorker::Successor, &[old.as_fd()])?;
            }
            Ok(OwnedFd::from(new))
        });
        // The states are not essential: without them the new worker begins with empty ones.
        let states = handed.map_err(|error: Error| self.log(Level::Alert, format_args!("{error}"))).ok();
        self.let_worker_go();
        self.start_worker(states);
    }

    /// Gives the worker the message boxes, if it has none yet and needs them.
    pub(super) fn give_boxes(&mut self, wants_boxes: bool) {
        let serving = std::mem::replace(&mut self.serving, ServingWorker::Nobody(Instant::now()));
        self.serving = match serving {
            ServingWorker::Process(mut process) => {
                self.give_boxes_to(&mut process, wants_boxes);
                ServingWorker::Process(process)
            }
            other => other,
        };
    }

    /// Gives this worker the message boxes. Without them it serves HTTP/3, but not through a change of the binary.
    fn give_boxes_to(&mut self, process: &mut Process, wants_boxes: bool) {
        if !wants_boxes || process.number.is_some() {
            return;
        }
        let others = self.upgrade.others();
        if self.quic_boxes.is_none() {
            match QuicBoxes::make() {
                Ok(boxes) => self.quic_boxes = Some(boxes),
                Err(error) => return self.log(Level::Alert, format_args!("socketpair() failed ({})", Errno(&error))),
            }
        }
        if self.own_numbers().count_ones() >= HALF.into() {
            // It was told to end when the worker before this one was told to go.
            self.end_oldest_numbered();
        }
        let own = self.own_numbers();
        let Some(boxes) = &mut self.quic_boxes else { return };
        let Some(number) = boxes.next_number(own) else {
            debug_assert!(false, "a worker has a number that is not its master's: {own:#b}");
            return;
        };
        let of_other = if others.old_binary || others.new_binary { boxes.of_other_binary() } else { 0 };
        let message = ToWorker::Boxes { process: number, living: own | of_other };
        if let Err(error) = process.channel.send(&message, &boxes.descriptors(number)) {
            return self.log(Level::Alert, format_args!("{error}"));
        }
        process.number = Some(number);
        self.tell_living(1 << number);
    }

    /// The numbers of this master's workers, each with a bit.
    fn own_numbers(&self) -> u8 {
        let numbers = self.processes().filter_map(|process| process.number);
        numbers.fold(0, |all, number| all | 1 << number)
    }

    /// The workers of this master.
    fn processes(&self) -> impl Iterator<Item = &Process> {
        let serving = if let ServingWorker::Process(process) = &self.serving { Some(&**process) } else { None };
        serving.into_iter().chain(&self.leaving)
    }

    /// Tells the workers that these processes may live, each with a bit: packets for them are passed on.
    pub(super) fn tell_living(&self, processes: u8) {
        for process in self.processes().filter(|process| process.number.is_some()) {
            // A worker that ends at this moment needs to know nothing.
            let _ = process.channel.send(&ToWorker::MayLive(processes), &[]);
        }
    }

    /// Tells all workers, of the other master as well, that the one with this number has ended.
    pub(super) fn tell_gone(&self, number: Option<u8>) {
        if let (Some(number), Some(boxes)) = (number, &self.quic_boxes) {
            boxes.tell_gone(number);
        }
    }

    /// Has the worker read the sockets of QUIC, which a new binary has read until its end.
    pub(super) fn read_quic_again(&self) {
        if let ServingWorker::Process(process) = &self.serving
            && process.number.is_some()
            && let Err(error) = process.channel.send(&ToWorker::ReadQuic, &[])
        {
            self.log(Level::Alert, format_args!("{error}"));
        }
    }

    /// Tells the worker to finish its requests and to end. From then on it is none that serves; the sockets stay.
    pub(super) fn let_worker_go(&mut self) {
        self.end_takeover(Err("the worker was told to end before it served"));
        let serving = std::mem::replace(&mut self.serving, ServingWorker::Nobody(Instant::now()));
        match serving {
            ServingWorker::Process(process) => {
                let _ = process.channel.send(&ToWorker::Quit { is_replaced: true }, &[]);
                // A worker that does not even get this away ends with the rest.
                if self.leaving.len() >= MAX_LEAVING {
                    let _ = self.leaving[0].channel.send(&ToWorker::Stop, &[]);
                }
                self.leaving.push(*process);
                let mut numbered = self.leaving.iter_mut().filter(|process| process.number.is_some());
                if let Some(oldest) = numbered.next()
                    && numbered.count() >= MAX_NUMBERED
                {
                    let _ = oldest.channel.send(&ToWorker::Stop, &[]);
                }
            }
            ServingWorker::Here(_) | ServingWorker::Nobody(_) => self.serving = serving,
        }
    }

    /// Makes sure that the oldest of the workers that were told to go and have message boxes has ended.
    fn end_oldest_numbered(&mut self) {
        let Some(place) = self.leaving.iter().position(|process| process.number.is_some()) else { return };
        let mut process = self.leaving.remove(place);
        let status = end(&mut process);
        self.log_leaving_exit(&process, status);
        self.tell_gone(process.number);
    }

    /// Logs that a worker that was told to go has ended.
    fn log_leaving_exit(&self, process: &Process, status: Option<ExitStatus>) {
        let (level, what) =
            status.map_or((Level::Alert, "is gone".to_owned()), |status| (level_of(status), describe(status)));
        self.log(level, format_args!("worker process {} {what}", process.id()));
    }

    /// Notes the ends of workers that were told to go; `TERM` ends the others in time.
    fn look_after_leaving(&mut self, now: Instant) {
        let kill = matches!(self.ending, Some(EndOrder::Stop(kill)) if now >= kill);
        let mut ended = Vec::new();
        let status = |process: &mut Process| process.exited().or_else(|| if kill { process.kill() } else { None });
        let leaving = std::mem::take(&mut self.leaving);
        for mut process in leaving {
            match status(&mut process) {
                Some(status) => ended.push((process, status)),
                None => self.leaving.push(process),
            }
        }
        for (process, status) in ended {
            self.log_leaving_exit(&process, Some(status));
            self.tell_gone(process.number);
        }
    }

    /// Gives the logs' new files to the workers that were told to go.
    pub(super) fn reopen_for_leaving(&self, names: &[String]) {
        let fds: Vec<_> = self.current.log_descriptors().collect();
        for process in &self.leaving {
            // A process that ends at this moment needs none.
            let _ = process.channel.send(&ToWorker::Reopen(names.to_vec()), &fds);
        }
    }

    /// Tells the service manager that the server lives, if its loops do.
    pub(super) fn look_whether_it_lives(&mut self) {
        let now = Instant::now();
        if !self.manager.has_to_look(now) {
            return;
        }
        let builds = self.starting || self.pending.is_some() || self.building.is_some_and(|limit| now < limit);
        let asked = match &mut self.serving {
            ServingWorker::Here(worker) => {
                if worker.loops_live() {
                    self.manager.alive();
                }
                return;
            }
            // It builds a configuration, for which it has its time.
            ServingWorker::Process(_) if builds => None,
            ServingWorker::Process(_) if self.asked => return,
            ServingWorker::Process(process) => Some(process.channel.send(&ToWorker::Ask, &[])),
            ServingWorker::Nobody(_) => None,
        };
        match asked {
            None => self.manager.alive(),
            Some(Ok(())) => self.asked = true,
            Some(Err(error)) => self.log(Level::Alert, format_args!("{error}")),
        }
    }
}
