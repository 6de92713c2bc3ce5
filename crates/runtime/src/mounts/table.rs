//! The text of `/proc/self/mountinfo` as a table.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use freerun_conf::text_of;

use super::{Class, Mount};

/// The number of mounts that are remembered; files of other mounts go to the pool.
pub const MAX_MOUNTS: usize = 4096;
/// The number of devices that are remembered though they are not in the mount table (subvolumes); files of others go to
/// the pool.
pub const MAX_LEARNED: usize = 1024;

/// The mounts at one moment.
#[derive(Debug, Clone, Default)]
pub struct MountTable {
    by_dev: HashMap<u64, Arc<Mount>>,
    /// Mount points, the longest first.
    by_path: Vec<(Vec<u8>, Arc<Mount>)>,
    learned: usize,
    watchful: bool,
}

impl MountTable {
    /// Reads the text; lines that cannot be read are left out.
    pub fn parse(mountinfo: &[u8]) -> MountTable {
        let mut table = MountTable::default();
        let mut points: HashMap<Vec<u8>, Arc<Mount>> = HashMap::new();
        for line in mountinfo.split(|&byte| byte == b'\n') {
            let Some(line) = MountLine::parse(line) else { continue };
            let class = Class::of(&line.fs_type);
            // This also covers mounts beyond the bound: a path must not be taken for local because its mount was not
            // remembered.
            table.watchful |= !class.opens_inline();
            if points.len() >= MAX_MOUNTS {
                table.watchful = true;
                continue;
            }
            let mount = table.by_dev.entry(line.dev).or_insert_with(|| {
                let point = text_of(&line.point).into_owned();
                Arc::new(Mount::new(line.dev, point, line.fs_type, class))
            });
            // If a device has several mounts, one with the option is enough.
            mount.set_relatime(mount.is_relatime() || line.relatime);
            // A later mount hides an earlier one at the same place.
            points.insert(line.point, mount.clone());
        }
        // Without a mount table no mount of any path is known.
        table.watchful |= points.is_empty();
        table.by_path = points.into_iter().collect();
        table.by_path.sort_unstable_by_key(|(point, _)| std::cmp::Reverse(point.len()));
        table
    }

    /// Takes over the records of `old` for the mounts that are in both, and the devices that were learned in addition.
    pub(super) fn inheriting(&self, old: &MountTable) -> MountTable {
        let mut table = self.clone();
        for (dev, mount) in &mut table.by_dev {
            if let Some(known) = old.by_dev.get(dev)
                && known.fs_type() == mount.fs_type()
                && known.point() == mount.point()
            {
                known.set_relatime(mount.is_relatime());
                *mount = known.clone();
            }
        }
        for (_, mount) in &mut table.by_path {
            if let Some(known) = table.by_dev.get(&mount.dev()) {
                *mount = known.clone();
            }
        }
        for mount in old.by_dev.values().filter(|mount| mount.point().is_empty()) {
            table.learn(mount.clone());
        }
        table
    }

    pub(super) fn with_learned(&self, mount: Arc<Mount>) -> MountTable {
        let mut table = self.clone();
        table.learn(mount);
        table
    }

    fn learn(&mut self, mount: Arc<Mount>) {
        if self.learned < MAX_LEARNED && !self.by_dev.contains_key(&mount.dev()) {
            self.by_dev.insert(mount.dev(), mount);
            self.learned += 1;
        }
    }

    /// The mount of a device number.
    pub fn get(&self, dev: u64) -> Option<&Arc<Mount>> {
        self.by_dev.get(&dev)
    }

    /// The mount with the longest mount point above a path. A relative path (the prefix of `-p` may be) begins in the
    /// folder of the process, and has no mount if it leads upward. Symbolic links on the way are not followed.
    pub fn of_path(&self, path: &[u8]) -> Option<&Arc<Mount>> {
        if path.starts_with(b"/") {
            return self.of_absolute(path);
        }
        let mut relative = path;
        while let Some(rest) = relative.strip_prefix(b"./") {
            relative = rest;
        }
        if relative.split(|&byte| byte == b'/').any(|part| part == b"..") {
            return None;
        }
        let folder = std::env::current_dir().ok()?;
        self.of_absolute(&[folder.as_os_str().as_bytes(), b"/", relative].concat())
    }

    fn of_absolute(&self, path: &[u8]) -> Option<&Arc<Mount>> {
        let above = |point: &[u8]| {
            path.strip_prefix(point)
                .is_some_and(|rest| point.ends_with(b"/") || rest.is_empty() || rest.starts_with(b"/"))
        };
        self.by_path.iter().find(|(point, _)| above(point)).map(|(_, mount)| mount)
    }

    /// Whether there is a mount on which opening a file may wait although its path is in the lookup cache.
    pub fn watchful(&self) -> bool {
        self.watchful
    }

    /// All mounts, each once.
    pub fn mounts(&self) -> impl Iterator<Item = &Arc<Mount>> {
        self.by_dev.values()
    }
}

struct MountLine {
    dev: u64,
    point: Vec<u8>,
    fs_type: String,
    relatime: bool,
}

impl MountLine {
    /// Parses a line such as `36 35 98:0 /root /point rw,noatime shared:1 … - ext4 /dev/root rw`.
    fn parse(line: &[u8]) -> Option<MountLine> {
        let mut fields = line.split(|&byte| byte == b' ').skip(2);
        let (major, minor) = std::str::from_utf8(fields.next()?).ok()?.split_once(':')?;
        let dev = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        let point = unescape(fields.nth(1)?);
        let options = fields.next()?;
        let mut fields = fields.skip_while(|field| *field != b"-");
        let fs_type = text_of(fields.nth(1)?).into_owned();
        let has = |options: &[u8], name: &[u8]| options.split(|&byte| byte == b',').any(|option| option == name);
        let read_only = has(options, b"ro") || fields.nth(1).is_some_and(|options| has(options, b"ro"));
        Some(MountLine { dev, point, fs_type, relatime: has(options, b"relatime") && !read_only })
    }
}

/// Undoes the octal escapes (`\040`) that mountinfo has for space, tab, newline and backslash.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = |digit: &u8| (b'0'..=b'7').contains(digit).then(|| u32::from(digit - b'0'));
        let code = match (byte, after) {
            (b'\\', [a, b, c, ..]) => octal(a).zip(octal(b)).zip(octal(c)).map(|((a, b), c)| a * 64 + b * 8 + c),
            _ => None,
        };
        match code.and_then(|code| u8::try_from(code).ok()) {
            Some(code) => {
                plain.push(code);
                rest = &after[3..];
            }
            None => {
                plain.push(byte);
                rest = after;
            }
        }
    }
    plain
}
