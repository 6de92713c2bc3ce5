//! The order of waiting tasks. They are served in turn by mount, within a mount by client, within a client by file, and
//! within a file in the order they came.
//!
//! No mount, client or file may keep more than its cap ([`Caps`]) of threads busy at once. So the pool always has
//! threads left for the others, even when one of them hangs.
//!
//! Every operation is O(log n). An entry at its cap is taken out of its ring when a pick meets it (*parked*). Each
//! thread that becomes free brings back as many parked entries as could use it. So a pick never walks past the same
//! blocked entry twice.

use std::collections::{BTreeMap, HashMap};

use super::Tag;

/// The most threads that one mount, client or file may use at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caps {
    /// The cap of one mount: three quarters of the threads.
    pub(super) mount: usize,
    /// The cap of one client on one mount, or of one file: three quarters of the mount's cap, or it would take the
    /// mount's whole share.
    pub(super) single: usize,
}

impl Caps {
    pub(super) fn of(threads: usize) -> Caps {
        let part = |all: usize| all.saturating_sub((all / 4).max(1)).max(1);
        let caps = Caps { mount: part(threads), single: part(part(threads)) };
        debug_assert!(1 <= caps.single && caps.single <= caps.mount, "a client could use more than its mount");
        debug_assert!(caps.mount < threads.max(2), "one mount could use all threads");
        caps
    }

    /// No caps: everything may use all threads.
    pub(super) fn none(threads: usize) -> Caps {
        Caps { mount: threads, single: threads }
    }
}

/// Parked entries brought back beyond those that the free threads could use. While a thread is free, no more clients
/// than this can be at their cap, so no more of these entries can be unusable.
const SPARE_ENTRIES: usize = 2;

type Turn = u64;

/// Place of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchedulePlace {
    /// In no ring: no task under it can run.
    Out,
    Ring(Turn),
    Parked(Turn),
}

/// Use of the pool by a client (or a file), and the places where its entries wait.
///
/// Invariants: an entry is in a ring, parked, or out. So `active` and the parked entries are no more than `entries`.
#[derive(Debug, Default)]
struct Use {
    running: usize,
    /// The number of entries, in any place.
    entries: usize,
    /// The number of entries in a ring.
    active: usize,
    /// Entries taken out of their ring because of the cap; the value is the mount of a client's entry, the client of
    /// a file's entry.
    parked: BTreeMap<Turn, u64>,
}

impl Use {
    fn check_invariants(&self) {
        let placed = self.active + self.parked.len();
        debug_assert!(placed <= self.entries, "{placed} places for {} entries", self.entries);
    }

    /// An entry leaves its ring.
    fn deactivate(&mut self) {
        debug_assert!(self.active > 0, "an entry leaves a ring that it is not in");
        self.active = self.active.saturating_sub(1);
    }

    fn is_unused(&self) -> bool {
        debug_assert!(self.entries > 0 || self.parked.is_empty() && self.active == 0, "an entry that is gone waits");
        self.running == 0 && self.entries == 0
    }

    /// Takes back one parked entry if a free thread could use it.
    fn unpark(&mut self, cap: usize) -> Option<(Turn, u64)> {
        if self.running < cap && self.running + self.active < cap + SPARE_ENTRIES {
            self.parked.pop_first()
        } else {
            None
        }
    }
}

/// The tasks of one file waiting for one client.
#[derive(Debug)]
struct FileQueue<T> {
    place: SchedulePlace,
    tasks: BTreeMap<u64, T>,
}

#[derive(Debug)]
struct ClientQueue<T> {
    place: SchedulePlace,
    ring: BTreeMap<Turn, u64>,
    files: HashMap<u64, FileQueue<T>>,
}

#[derive(Debug)]
struct MountQueue<T> {
    running: usize,
    /// The mount's place in the ring of mounts.
    at: Option<Turn>,
    ring: BTreeMap<Turn, u64>,
    clients: HashMap<u64, ClientQueue<T>>,
    files: HashMap<u64, Use>,
}

impl<T> MountQueue<T> {
    fn new() -> Self {
        MountQueue { running: 0, at: None, ring: BTreeMap::new(), clients: HashMap::new(), files: HashMap::new() }
    }
}

/// The waiting tasks of a pool, and the threads that each mount, client and file uses.
#[derive(Debug)]
pub(super) struct Schedule<T> {
    caps: Caps,
    caps_of: fn(usize) -> Caps,
    turn: Turn,
    ring: BTreeMap<Turn, u64>,
    mounts: HashMap<u64, MountQueue<T>>,
    /// By mount and client: a client's tasks on one mount must not keep it from the others.
    clients: HashMap<(u64, u64), Use>,
    waiting: usize,
}

impl<T> Schedule<T> {
    pub(super) fn new(threads: usize, caps_of: fn(usize) -> Caps) -> Self {
        Schedule {
            caps: caps_of(threads),
            caps_of,
            turn: 0,
            ring: BTreeMap::new(),
            mounts: HashMap::new(),
            clients: HashMap::new(),
            waiting: 0,
        }
    }

    /// Takes over a new number of threads.
    pub(super) fn resize(&mut self, threads: usize) {
        self.caps = (self.caps_of)(threads);
        let clients: Vec<(u64, u64)> = self.clients.keys().copied().collect();
        clients.into_iter().for_each(|(mount, client)| self.refill_client(mount, client));
        let mounts: Vec<u64> = self.mounts.keys().copied().collect();
        for mount in mounts {
            let files: Vec<u64> =
                self.mounts.get(&mount).map(|m| m.files.keys().copied().collect()).unwrap_or_default();
            files.into_iter().for_each(|file| self.refill_file(mount, file));
            self.enter_mount(mount);
        }
    }

    /// Whether a pick may find a task. It may also find that all remaining tasks are at a cap.
    pub(super) fn has_ready(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Number of waiting tasks, parked ones included.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether no task waits, none runs and no entry is kept.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0 && self.ring.is_empty() && self.mounts.is_empty() && self.clients.is_empty()
    }

    fn next_turn(&mut self) -> Turn {
        self.turn += 1;
        self.turn
    }

    /// Adds a task. `sequence` orders the tasks of one file of one client and names the task for [`remove`](Self::remove).
    pub(super) fn push(&mut self, tag: Tag, sequence: u64, task: T) {
        let mount = self.mounts.entry(tag.mount).or_insert_with(MountQueue::new);
        let client = mount.clients.entry(tag.client).or_insert_with(|| {
            self.clients.entry((tag.mount, tag.client)).or_default().entries += 1;
            ClientQueue { place: SchedulePlace::Out, ring: BTreeMap::new(), files: HashMap::new() }
        });
        let file = client.files.entry(tag.file).or_insert_with(|| {
            mount.files.entry(tag.file).or_default().entries += 1;
            FileQueue { place: SchedulePlace::Out, tasks: BTreeMap::new() }
        });
        let before = file.tasks.insert(sequence, task);
        debug_assert!(before.is_none(), "task {sequence} would be lost");
        self.waiting += 1;
        if file.place == SchedulePlace::Out {
            let turn = self.next_turn();
            self.enter_file(tag, turn);
        }
    }

    /// Puts a file's entry into its client's ring, and the entries above it into theirs.
    fn enter_file(&mut self, tag: Tag, turn: Turn) {
        let Some(mount) = self.mounts.get_mut(&tag.mount) else { return };
        let Some(client) = mount.clients.get_mut(&tag.client) else { return };
        let Some(file) = client.files.get_mut(&tag.file) else { return };
        file.place = SchedulePlace::Ring(turn);
        client.ring.insert(turn, tag.file);
        if let Some(usage) = mount.files.get_mut(&tag.file) {
            usage.active += 1;
            usage.check_invariants();
        }
        if client.place == SchedulePlace::Out {
            self.enter_client(tag.mount, tag.client, turn);
        }
    }

    fn enter_client(&mut self, mount_id: u64, client_id: u64, turn: Turn) {
        let Some(mount) = self.mounts.get_mut(&mount_id) else { return };
        let Some(client) = mount.clients.get_mut(&client_id) else { return };
        client.place = SchedulePlace::Ring(turn);
        mount.ring.insert(turn, client_id);
        if let Some(usage) = self.clients.get_mut(&(mount_id, client_id)) {
            usage.active += 1;
            usage.check_invariants();
        }
        self.enter_mount(mount_id);
    }

    /// Puts a mount into the ring unless it is there, has no task to run, or is at its cap.
    fn enter_mount(&mut self, mount_id: u64) {
        let turn = self.next_turn();
        let Some(mount) = self.mounts.get_mut(&mount_id) else { return };
        if mount.at.is_none() && mount.running < self.caps.mount && !mount.ring.is_empty() {
            mount.at = Some(turn);
            let before = self.ring.insert(turn, mount_id);
            debug_assert!(before.is_none(), "a mount takes another one's turn");
        }
    }

    /// Takes the next task whose mount, client and file are below their caps, and counts it as running.
    /// [`complete`](Self::complete) must follow.
    pub(super) fn pick(&mut self) -> Option<(Tag, T)> {
        while let Some((&turn, &mount_id)) = self.ring.first_key_value() {
            if let Some(found) = self.pick_in(mount_id) {
                // The mount goes to the end of its ring, if it still has tasks that may run.
                self.leave_mount(mount_id);
                self.enter_mount(mount_id);
                return Some(found);
            }
            self.ring.remove(&turn);
            if let Some(mount) = self.mounts.get_mut(&mount_id) {
                mount.at = None;
            }
        }
        None
    }

    fn leave_mount(&mut self, mount_id: u64) {
        if let Some(turn) = self.mounts.get_mut(&mount_id).and_then(|mount| mount.at.take()) {
            self.ring.remove(&turn);
        }
    }

    fn pick_in(&mut self, mount_id: u64) -> Option<(Tag, T)> {
        loop {
            let mount = self.mounts.get_mut(&mount_id)?;
            if mount.running >= self.caps.mount {
                return None;
            }
            let (&turn, &client_id) = mount.ring.first_key_value()?;
            let client_use = self.clients.entry((mount_id, client_id)).or_default();
            if client_use.running >= self.caps.single {
                mount.ring.remove(&turn);
                if let Some(client) = mount.clients.get_mut(&client_id) {
                    client.place = SchedulePlace::Parked(turn);
                }
                client_use.deactivate();
                client_use.parked.insert(turn, mount_id);
                continue;
            }
            if let Some((file, task)) = self.pick_of(mount_id, client_id) {
                return Some((Tag { mount: mount_id, client: client_id, file }, task));
            }
        }
    }

    /// Takes the next task of a client whose entry is in its mount's ring. That entry moves to the end of the ring, or
    /// leaves it when no task under it can run.
    fn pick_of(&mut self, mount_id: u64, client_id: u64) -> Option<(u64, T)> {
        let cap = self.caps.single;
        let again = self.next_turn();
        let mount = self.mounts.get_mut(&mount_id)?;
        let client = mount.clients.get_mut(&client_id)?;
        let mut found = None;
        while let Some((turn, file_id)) = client.ring.pop_first() {
            let (Some(file), Some(file_use)) = (client.files.get_mut(&file_id), mount.files.get_mut(&file_id)) else {
                continue;
            };
            if file_use.running >= cap {
                file.place = SchedulePlace::Parked(turn);
                file_use.deactivate();
                file_use.parked.insert(turn, client_id);
                continue;
            }
            let task = file.tasks.pop_first();
            if file.tasks.is_empty() {
                client.files.remove(&file_id);
                file_use.deactivate();
                file_use.entries -= 1;
            } else {
                file.place = SchedulePlace::Ring(again);
                client.ring.insert(again, file_id);
            }
            if let Some((_, task)) = task {
                file_use.running += 1;
                mount.running += 1;
                debug_assert!(file_use.running <= cap && mount.running <= self.caps.mount, "a cap is exceeded");
                self.waiting -= 1;
                self.clients.entry((mount_id, client_id)).or_default().running += 1;
                found = Some((file_id, task));
                break;
            }
        }
        self.settle_client(mount_id, client_id);
        if let Some((file_id, _)) = &found {
            self.refill_file(mount_id, *file_id);
        }
        found
    }

    /// Moves a client's entry to the end of its mount's ring, or out of it when its own ring is empty, and forgets it
    /// when it has no tasks.
    fn settle_client(&mut self, mount_id: u64, client_id: u64) {
        let again = self.next_turn();
        let Some(mount) = self.mounts.get_mut(&mount_id) else { return };
        let Some(client) = mount.clients.get_mut(&client_id) else { return };
        let Some(usage) = self.clients.get_mut(&(mount_id, client_id)) else { return };
        match client.place {
            SchedulePlace::Ring(turn) => {
                mount.ring.remove(&turn);
                if client.ring.is_empty() {
                    client.place = SchedulePlace::Out;
                    usage.deactivate();
                } else {
                    client.place = SchedulePlace::Ring(again);
                    mount.ring.insert(again, client_id);
                }
            }
            SchedulePlace::Parked(turn) if client.ring.is_empty() => {
                usage.parked.remove(&turn);
                client.place = SchedulePlace::Out;
            }
            _ => {}
        }
        if client.files.is_empty() {
            mount.clients.remove(&client_id);
            usage.entries -= 1;
        }
        self.refill_client(mount_id, client_id);
    }

    /// Notes that a picked task has ended, or never ran.
    pub(super) fn complete(&mut self, tag: Tag) {
        if let Some(mount) = self.mounts.get_mut(&tag.mount) {
            debug_assert!(mount.running > 0, "a task of the mount ends twice");
            mount.running = mount.running.saturating_sub(1);
            if let Some(usage) = mount.files.get_mut(&tag.file) {
                debug_assert!(usage.running > 0, "a task of the file ends twice");
                usage.running = usage.running.saturating_sub(1);
            }
        }
        if let Some(usage) = self.clients.get_mut(&(tag.mount, tag.client)) {
            debug_assert!(usage.running > 0, "a task of the client ends twice");
            usage.running = usage.running.saturating_sub(1);
        }
        self.refill_file(tag.mount, tag.file);
        self.refill_client(tag.mount, tag.client);
        self.enter_mount(tag.mount);
        self.forget(tag.mount);
    }

    /// Removes a waiting task; `None` if it is not there (any more).
    pub(super) fn remove(&mut self, tag: Tag, sequence: u64) -> Option<T> {
        let mount = self.mounts.get_mut(&tag.mount)?;
        let client = mount.clients.get_mut(&tag.client)?;
        let file = client.files.get_mut(&tag.file)?;
        let task = file.tasks.remove(&sequence)?;
        self.waiting -= 1;
        if file.tasks.is_empty() {
            let place = file.place;
            client.files.remove(&tag.file);
            if let Some(usage) = mount.files.get_mut(&tag.file) {
                usage.entries -= 1;
                match place {
                    SchedulePlace::Ring(turn) => {
                        usage.deactivate();
                        client.ring.remove(&turn);
                    }
                    SchedulePlace::Parked(turn) => {
                        usage.parked.remove(&turn);
                    }
                    SchedulePlace::Out => {}
                }
            }
            if client.ring.is_empty() || client.files.is_empty() {
                self.settle_client(tag.mount, tag.client);
            }
            self.refill_file(tag.mount, tag.file);
            self.forget(tag.mount);
        }
        Some(task)
    }

    fn refill_file(&mut self, mount_id: u64, file_id: u64) {
        loop {
            let Some(mount) = self.mounts.get_mut(&mount_id) else { return };
            let Some(usage) = mount.files.get_mut(&file_id) else { return };
            // The entry returns with its old turn: being parked does not cost it its place.
            let Some((turn, client)) = usage.unpark(self.caps.single) else {
                if usage.is_unused() {
                    mount.files.remove(&file_id);
                }
                return;
            };
            self.enter_file(Tag { mount: mount_id, client, file: file_id }, turn);
        }
    }

    fn refill_client(&mut self, mount_id: u64, client_id: u64) {
        loop {
            let Some(usage) = self.clients.get_mut(&(mount_id, client_id)) else { return };
            let Some((turn, _)) = usage.unpark(self.caps.single) else {
                if usage.is_unused() {
                    self.clients.remove(&(mount_id, client_id));
                }
                return;
            };
            self.enter_client(mount_id, client_id, turn);
        }
    }

    fn forget(&mut self, mount_id: u64) {
        let unused = |mount: &MountQueue<T>| mount.running == 0 && mount.clients.is_empty();
        if self.mounts.get(&mount_id).is_some_and(unused) {
            self.leave_mount(mount_id);
            let gone = self.mounts.remove(&mount_id);
            let has_uses = |mount: &MountQueue<T>| mount.files.values().any(|usage| usage.running > 0);
            debug_assert!(
                gone.is_none_or(|mount| !has_uses(&mount)),
                "a mount is forgotten while its files are in use"
            );
        }
    }
}
