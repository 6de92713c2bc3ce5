//! Processes the benchmark starts: where they run, what CPU time and memory they and their children use, and how they
//! end. Only processes started here are ever signalled, by pid.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{Error, ErrorContext, Result};
use crate::interrupt::wait_for;

/// The time that a process may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(3);

/// The cores and group that a process runs in.
#[derive(Debug, Clone, Default)]
pub struct Placement {
    /// The cores it may use; empty for all.
    pub cores: Vec<usize>,
    /// The `cgroup.procs` files it enters before it executes.
    pub cgroups: Vec<PathBuf>,
}

/// A started process, ended with its children when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    ended: bool,
}

/// The figures of a process in `/proc/PID/stat`.
#[derive(Debug, Clone, PartialEq)]
struct Stat {
    parent: i32,
    /// User and kernel time, including the ended children that it waited for.
    cpu_ticks: u64,
    /// The time when it started, in ticks since boot: with the id, its identity.
    began: u64,
}

/// Runs `work` while this thread is pinned to the cores (none: as it was). Threads and processes that it starts inherit that.
pub fn on_cores<T>(cores: &[usize], work: impl FnOnce() -> T) -> Result<T> {
    let home = sched_getaffinity(None).doing("read the CPU affinity")?;
    if !cores.is_empty() {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        sched_setaffinity(None, &set).doing(format!("pin to the cores {cores:?}"))?;
    }
    let outcome = work();
    sched_setaffinity(None, &home).doing("restore the CPU affinity")?;
    Ok(outcome)
}

/// Memory of a tree of processes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Memory {
    /// Sum of the resident sets: pages shared between processes count in each.
    pub rss: u64,
    /// Sum of the proportional sets: a page shared by n processes counts 1/n in each.
    pub pss: u64,
    /// Sum of the pages that are written to and belong to one process alone.
    pub private_dirty: u64,
}

impl Process {
    /// Starts `program` with `args` as `placement` says; its output goes to the file `output`.
    pub fn start(program: &Path, args: &[String], placement: &Placement, output: &Path) -> Result<Process> {
        let file = fs::File::create(output).doing(output.display())?;
        let copy = file.try_clone().doing(output.display())?;
        let mut command = command(program, args, placement);
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        Process::spawn(command, placement)
    }

    /// Starts `program` with its standard input and output piped.
    pub fn start_piped(program: &Path, args: &[String], placement: &Placement) -> Result<Process> {
        let mut command = command(program, args, placement);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Process::spawn(command, placement)
    }

    fn spawn(mut command: Command, placement: &Placement) -> Result<Process> {
        let child = on_cores(&placement.cores, || command.spawn())?;
        let child = child.doing(format!("start {:?}", command.get_program()))?;
        Ok(Process { child, ended: false })
    }

    /// The process' id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The piped standard output, once.
    pub fn output(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        !self.ended && matches!(self.child.try_wait(), Ok(None))
    }

    /// The ids of the process and of all its descendants.
    pub fn tree(&self) -> Vec<i32> {
        descendants(self.pid(), &all_stats())
    }

    /// CPU time of the process and its descendants so far.
    pub fn cpu(&self) -> Duration {
        tree_cpu(self.pid(), &all_stats())
    }

    /// Memory of the process and its descendants.
    pub fn memory(&self) -> Memory {
        let mut sum = Memory::default();
        for pid in self.tree() {
            if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
                let memory = parse_smaps(&text);
                sum.rss += memory.rss;
                sum.pss += memory.pss;
                sum.private_dirty += memory.private_dirty;
            }
        }
        sum
    }

    /// Sends `signal` to the process alone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        send(self.pid(), signal).doing(format!("signal process {}", self.pid()))
    }

    /// Waits up to `limit` for the process to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<bool> {
        let ended = wait_for(limit, Duration::from_millis(5), || {
            Ok(self.child.try_wait().doing("wait for a process")?.map(|_| ()))
        })?;
        self.ended = ended.is_some();
        Ok(self.ended)
    }

    /// Ends the process and its descendants: SIGTERM to the process, SIGKILL to whatever is left after the grace.
    pub fn stop(&mut self) {
        if self.ended {
            return;
        }
        let before = all_stats();
        let tree = descendants(self.pid(), &before);
        let _ = send(self.pid(), Signal::TERM);
        let end = std::time::Instant::now() + GRACE;
        while std::time::Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // The tree was taken while its root lived. A child that outlived the root is ours if it started when it did
        // then; otherwise its id was given to a stranger meanwhile.
        let after = all_stats();
        let began = |stats: &BTreeMap<i32, Stat>, pid| stats.get(&pid).map(|stat| stat.began);
        for pid in tree.into_iter().skip(1).filter(|pid| after.contains_key(pid)) {
            if began(&before, pid) == began(&after, pid) {
                let _ = send(pid, Signal::KILL);
            }
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
        self.ended = true;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn send(pid: i32, signal: Signal) -> rustix::io::Result<()> {
    match Pid::from_raw(pid) {
        Some(pid) => rustix::process::kill_process(pid, signal),
        None => Ok(()),
    }
}

/// A shell enters the cgroups and becomes the program, so that nothing the program does is charged elsewhere.
fn command(program: &Path, args: &[String], placement: &Placement) -> Command {
    const ENTER: &str = r#"n=$1; shift
while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 125; shift; n=$((n-1)); done
exec "$@""#;
    if placement.cgroups.is_empty() {
        let mut command = Command::new(program);
        command.args(args);
        return command;
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", ENTER, "sh"]).arg(placement.cgroups.len().to_string());
    command.args(&placement.cgroups).arg(program).args(args);
    command
}

fn all_stats() -> BTreeMap<i32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parse_stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// The text of `/proc/PID/stat` (proc_pid_stat(5)). The name, in parentheses, may hold anything.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_ascii_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().unwrap_or(0)).sum();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, cpu_ticks: ticks, began: fields.get(19)?.parse().ok()? })
}

fn descendants(root: i32, stats: &BTreeMap<i32, Stat>) -> Vec<i32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(stats.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    tree
}

fn tree_cpu(root: i32, stats: &BTreeMap<i32, Stat>) -> Duration {
    ticks_to_duration(descendants(root, stats).iter().filter_map(|pid| stats.get(pid)).map(|stat| stat.cpu_ticks).sum())
}

fn ticks_to_duration(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Tells what part of the machine processes other than this one and its descendants use.
#[derive(Debug)]
pub struct Watch {
    machine: MachineCpu,
    family: Duration,
}

impl Watch {
    /// Starts watching.
    pub fn start() -> Watch {
        let own = std::process::id().cast_signed();
        let machine = parse_machine(&fs::read_to_string("/proc/stat").unwrap_or_default());
        Watch { machine, family: tree_cpu(own, &all_stats()) }
    }

    /// The part of all cores' time since the start that went to other processes, in percent.
    pub fn strangers(&self) -> f64 {
        let now = Watch::start();
        let busy = now.machine.busy.saturating_sub(self.machine.busy);
        let whole = now.machine.whole.saturating_sub(self.machine.whole);
        let strangers = busy.saturating_sub(now.family.saturating_sub(self.family));
        strangers.as_secs_f64() / whole.as_secs_f64().max(0.01) * 100.0
    }
}

/// CPU time of all cores together since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct MachineCpu {
    /// Spent on processes, interrupts, and by the hypervisor on other machines.
    busy: Duration,
    /// All of it, idle time included.
    whole: Duration,
}

/// The first line of `/proc/stat` (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal.
fn parse_machine(text: &str) -> MachineCpu {
    let fields: Vec<u64> =
        text.lines().next().unwrap_or("").split_ascii_whitespace().skip(1).flat_map(str::parse).take(8).collect();
    let whole: u64 = fields.iter().sum();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    MachineCpu { busy: ticks_to_duration(whole - idle), whole: ticks_to_duration(whole) }
}

/// Raises the limit of open files as far as this process may, for itself and the servers it starts; answers the limit.
pub fn raise_limit() -> Result<u64> {
    let now = getrlimit(Resource::Nofile);
    if now.current != now.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now }).doing("raise the limit of open files")?;
    }
    Ok(now.maximum.unwrap_or(u64::MAX))
}

/// The text of `/proc/PID/smaps_rollup`, which counts in kB.
fn parse_smaps(text: &str) -> Memory {
    Memory {
        rss: kilobytes(text, "Rss:"),
        pss: kilobytes(text, "Pss:"),
        private_dirty: kilobytes(text, "Private_Dirty:"),
    }
}

/// The number in the line that begins with `name`, in bytes; 0 where there is none.
fn kilobytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// The output of `program args`, both streams; for asking versions.
pub fn ask(program: &Path, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().doing(program.display())?;
    let text = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

/// Runs `program args` with its output on ours, and fails unless it succeeds.
pub fn run(program: &Path, args: &[&str], folder: &Path) -> Result<()> {
    let status = Command::new(program).args(args).current_dir(folder).status().doing(program.display())?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Failed(format!("{} {} failed", program.display(), args.join(" "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) S b) S 7 1 1 0 -1 4194560 1 2 3 4 100 20 3 1 20 0 1 0 5 6 7";
        assert_eq!(parse_stat(text), Some(Stat { parent: 7, cpu_ticks: 124, began: 5 }));
        assert_eq!(parse_stat("42 (x) S"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn descendants_of_descendants_count() {
        let stat = |parent| Stat { parent, cpu_ticks: 0, began: 0 };
        let stats = BTreeMap::from([(1, stat(0)), (5, stat(1)), (6, stat(5)), (7, stat(1)), (9, stat(8))]);
        assert_eq!(descendants(5, &stats), [5, 6]);
        assert_eq!(descendants(1, &stats), [1, 5, 7, 6]);
    }

    #[test]
    fn waiting_for_a_disk_is_not_work_and_guests_are_not_counted_twice() {
        let cpu = parse_machine("cpu  100 10 50 1000 40 5 5 30 999 999\ncpu0 1 1\n");
        assert_eq!(cpu, MachineCpu { busy: ticks_to_duration(200), whole: ticks_to_duration(1240) });
        assert_eq!(parse_machine(""), MachineCpu::default());
    }

    #[test]
    fn smaps_are_in_kilobytes() {
        let text = "00400000-7ffd rollup\nRss:  100 kB\nPss:   60 kB\nPss_Dirty: 1 kB\nPrivate_Dirty: 2 kB\n";
        assert_eq!(parse_smaps(text), Memory { rss: 102_400, pss: 61_440, private_dirty: 2_048 });
    }
}
