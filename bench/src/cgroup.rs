//! cgroups, version 2 or 1, with limits for servers: memory and reads of one disk, or a part of a core. They need root.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorContext, Result};

/// The limits of the group.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of memory, with the page cache the group's processes fill.
    pub memory: u64,
    /// Bytes a second read from the disk.
    pub read_bytes: u64,
    /// Read operations a second on the disk.
    pub read_ios: u64,
}

/// A disk, as block device numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    major: u32,
    minor: u32,
}

impl std::fmt::Display for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Disk {
    /// The disk (not the partition: limits are set on disks) that holds `path`.
    pub fn of(path: &Path) -> Result<Disk> {
        let device = rustix::fs::stat(path).doing(path.display())?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let node = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
        let missing =
            || Error::Setup(format!("{} is not on a disk that can be throttled; use --scratch DIR", path.display()));
        let folder = fs::canonicalize(&node).map_err(|_| missing())?;
        let disk = if folder.join("partition").exists() { folder.parent().ok_or_else(missing)? } else { &folder };
        let text = fs::read_to_string(disk.join("dev")).doing(disk.display())?;
        parse_disk(text.trim()).ok_or_else(missing)
    }
}

fn parse_disk(text: &str) -> Option<Disk> {
    let (major, minor) = text.split_once(':')?;
    Some(Disk { major: major.parse().ok()?, minor: minor.parse().ok()? })
}

/// The reads of a group from a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Io {
    /// Bytes.
    pub bytes: u64,
    /// Operations.
    pub ios: u64,
}

/// A limited group; removed when dropped, so it must outlive its processes.
#[derive(Debug)]
pub struct ControlGroup {
    version: Version,
    disk: Disk,
}

#[derive(Debug)]
enum Version {
    /// A hierarchy for each controller.
    One { memory: PathBuf, blkio: PathBuf },
    /// A single hierarchy.
    Two { folder: PathBuf },
}

impl ControlGroup {
    /// Makes a group below this process' own, called `name`, with `limits` for `disk`.
    pub fn create(name: &str, limits: &Limits, disk: Disk) -> Result<ControlGroup> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Setup("this benchmark limits memory and disk with cgroups: run it as root".into()));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").doing("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup").doing("/proc/self/cgroup")?;
        let group = match v2_parent(&mounts, &own, &["io", "memory"]) {
            Some(parent) => {
                let folder = make(&parent, name)?;
                ControlGroup { version: Version::Two { folder }, disk }
            }
            None => {
                let parent = |controller| {
                    v1_folder(&mounts, &own, controller).ok_or_else(|| {
                        Error::Setup(format!(
                            "no cgroup hierarchy has the controller {controller} (v1) or io and memory (v2)"
                        ))
                    })
                };
                let (memory, blkio) = (parent("memory")?, parent("blkio")?);
                let memory = make(&memory, name)?;
                // From here on dropping the group removes what exists of it.
                let mut group =
                    ControlGroup { version: Version::One { memory: memory.clone(), blkio: PathBuf::new() }, disk };
                group.version = Version::One { memory, blkio: make(&blkio, name)? };
                group
            }
        };
        group.limit(limits)?;
        Ok(group)
    }

    fn limit(&self, limits: &Limits) -> Result<()> {
        let Limits { memory: bytes, read_bytes, read_ios } = limits;
        let disk = self.disk;
        match &self.version {
            Version::One { memory, blkio } => {
                put(&memory.join("memory.limit_in_bytes"), &bytes.to_string())?;
                put(&blkio.join("blkio.throttle.read_bps_device"), &format!("{disk} {read_bytes}"))?;
                put(&blkio.join("blkio.throttle.read_iops_device"), &format!("{disk} {read_ios}"))
            }
            Version::Two { folder } => {
                put(&folder.join("memory.max"), &bytes.to_string())?;
                put(&folder.join("io.max"), &format!("{disk} rbps={read_bytes} riops={read_ios}"))
            }
        }
    }

    /// Limits the bytes a second that the group's processes read from `disk`, and write to it; `None`: no limit.
    pub fn throttle(&self, disk: Disk, bytes: Option<u64>) -> Result<()> {
        match &self.version {
            // Zero takes the rule away.
            Version::One { blkio, .. } => ["read", "write"].iter().try_for_each(|what| {
                put(&blkio.join(format!("blkio.throttle.{what}_bps_device")), &format!("{disk} {}", bytes.unwrap_or(0)))
            }),
            Version::Two { folder } => {
                let bytes = bytes.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
                put(&folder.join("io.max"), &format!("{disk} rbps={bytes} wbps={bytes}"))
            }
        }
    }

    /// The files into which a process writes its id to enter.
    pub fn entries(&self) -> Vec<PathBuf> {
        match &self.version {
            Version::One { memory, blkio } => vec![memory.join("cgroup.procs"), blkio.join("cgroup.procs")],
            Version::Two { folder } => vec![folder.join("cgroup.procs")],
        }
    }

    /// The bytes that the group has read from the disk since it was made.
    pub fn io(&self) -> Result<Io> {
        let read = |path: PathBuf| fs::read_to_string(&path).doing(path.display());
        match &self.version {
            Version::One { blkio, .. } => Ok(Io {
                bytes: v1_reads(&read(blkio.join("blkio.throttle.io_service_bytes"))?, self.disk),
                ios: v1_reads(&read(blkio.join("blkio.throttle.io_serviced"))?, self.disk),
            }),
            Version::Two { folder } => Ok(v2_reads(&read(folder.join("io.stat"))?, self.disk)),
        }
    }

    /// `cgroup v1` or `cgroup v2`.
    pub fn describe(&self) -> &'static str {
        match self.version {
            Version::One { .. } => "cgroup v1",
            Version::Two { .. } => "cgroup v2",
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let folders = match &self.version {
            Version::One { memory, blkio } => vec![memory, blkio],
            Version::Two { folder } => vec![folder],
        };
        folders.into_iter().filter(|folder| !folder.as_os_str().is_empty()).for_each(|folder| remove(folder));
    }
}

/// A group whose processes get a part of a core; removed when dropped, so it must outlive them.
#[derive(Debug)]
pub struct CpuShare(PathBuf);

/// The period of a share, in microseconds: as short as leaves room for some hundred requests.
const SHARE_PERIOD: u64 = 10_000;

impl CpuShare {
    /// Makes a group below this process' own, called `name`, that gets `share` (0.5: half) of a core. `None` where the system
    /// does not let us.
    pub fn create(name: &str, share: f64) -> Option<CpuShare> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let quota = (share * SHARE_PERIOD as f64) as u64;
        let limits = match v2_parent(&mounts, &own, &["cpu"]) {
            Some(parent) => (parent, vec![("cpu.max", format!("{quota} {SHARE_PERIOD}"))]),
            None => {
                let limits = [("cpu.cfs_period_us", SHARE_PERIOD), ("cpu.cfs_quota_us", quota)];
                (v1_folder(&mounts, &own, "cpu")?, limits.map(|(file, value)| (file, value.to_string())).to_vec())
            }
        };
        let group = CpuShare(make(&limits.0, name).ok()?);
        limits.1.iter().try_for_each(|(file, text)| put(&group.0.join(file), text)).ok()?;
        Some(group)
    }

    /// The files into which a process writes its id to enter.
    pub fn entries(&self) -> Vec<PathBuf> {
        vec![self.0.join("cgroup.procs")]
    }
}

impl Drop for CpuShare {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// Removes a group whose processes have ended: they can keep it busy for a moment.
fn remove(folder: &Path) {
    let mut last = Ok(());
    for _ in 0..40 {
        last = fs::remove_dir(folder);
        if last.is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if let Err(error) = last {
        eprintln!("cannot remove the cgroup {}: {error}", folder.display());
    }
}

fn make(parent: &Path, name: &str) -> Result<PathBuf> {
    let folder = parent.join(name);
    fs::create_dir(&folder).doing(format!("make the cgroup {}", folder.display()))?;
    Ok(folder)
}

fn put(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).doing(format!("write \"{text}\" into {}", path.display()))
}

/// A mount of `/proc/self/mountinfo` (proc_pid_mountinfo(5)): the root inside the file system, and the mount point.
fn mounts_of<'a>(mounts: &'a str, kind: &'a str, option: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    mounts.lines().filter_map(move |line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (found, options) = (right.next()?, right.nth(1)?);
        let mut left = left.split(' ').skip(3);
        let place = (left.next()?, left.next()?);
        (found == kind && (option.is_empty() || options.split(',').any(|word| word == option))).then_some(place)
    })
}

/// The group of this process in the hierarchy of `controller` (empty for version 2), from `/proc/self/cgroup`
/// (cgroups(7)).
fn own_group<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        controllers.split(',').any(|word| word == controller).then_some(parts.next()?)
    })
}

fn folder_of(root: &str, point: &str, group: &str) -> PathBuf {
    let inside = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
    Path::new(point).join(inside.strip_prefix("/").unwrap_or(inside))
}

fn v1_folder(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let (root, point) = mounts_of(mounts, "cgroup", controller).next()?;
    Some(folder_of(root, point, own_group(own, controller)?))
}

/// The nearest group at or above our own whose children have these controllers, or can be given them. (A group with processes
/// cannot, except the root.)
fn v2_parent(mounts: &str, own: &str, controllers: &[&str]) -> Option<PathBuf> {
    let (root, point) = mounts_of(mounts, "cgroup2", "").next()?;
    let top = Path::new(point);
    let has = |text: &str| controllers.iter().all(|need| text.split_ascii_whitespace().any(|word| word == *need));
    let wanted = controllers.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(" ");
    let mut folder = folder_of(root, point, own_group(own, "")?);
    loop {
        let control = folder.join("cgroup.subtree_control");
        let available = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
        let enabled = fs::read_to_string(&control).unwrap_or_default();
        if has(&enabled) || (has(&available) && fs::write(&control, &wanted).is_ok()) {
            return Some(folder);
        }
        if folder == top || !folder.pop() || !folder.starts_with(top) {
            return None;
        }
    }
}

/// The figure of lines such as `254:0 Read 4096`.
fn v1_reads(text: &str, disk: Disk) -> u64 {
    let prefix = format!("{disk} Read ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)?.trim().parse().ok()).unwrap_or(0)
}

/// The figures of lines such as `254:0 rbytes=4096 wbytes=0 rios=1 wios=0`.
fn v2_reads(text: &str, disk: Disk) -> Io {
    let prefix = format!("{disk} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or("");
    let field = |name: &str| {
        let value = line.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    Io { bytes: field("rbytes"), ios: field("rios") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Disk = Disk { major: 254, minor: 0 };

    #[test]
    fn reads_of_both_versions_are_found_among_other_disks() {
        let v1 = "253:0 Read 7\n254:0 Read 4096\n254:0 Write 5\nTotal 9\n";
        assert_eq!(v1_reads(v1, DISK), 4096);
        assert_eq!(v1_reads("", DISK), 0);
        let v2 = "253:0 rbytes=7 rios=1\n254:0 rbytes=4096 wbytes=1 rios=3 wios=0 dbytes=0\n";
        assert_eq!(v2_reads(v2, DISK), Io { bytes: 4096, ios: 3 });
        assert_eq!(v2_reads("254:00 rbytes=1", DISK), Io::default());
    }

    #[test]
    fn the_group_is_found_where_its_controller_is_mounted() {
        let mounts = "25 20 0:22 / /sys/fs/cgroup/blkio rw,relatime - cgroup cgroup rw,blkio\n\
                      26 20 0:23 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      27 20 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "7:blkio:/\n4:memory:/box/inner\n0::/x\n";
        assert_eq!(v1_folder(mounts, own, "blkio"), Some("/sys/fs/cgroup/blkio".into()));
        assert_eq!(v1_folder(mounts, own, "memory"), Some("/sys/fs/cgroup/memory/inner".into()));
        assert_eq!(v1_folder(mounts, own, "cpu"), None);
        assert_eq!(own_group(own, ""), Some("/x"));
        assert_eq!(mounts_of(mounts, "cgroup2", "").count(), 1);
    }
}
