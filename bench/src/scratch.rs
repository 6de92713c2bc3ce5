//! The folder for data and configurations: files of random bytes, and their way out of the page cache.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, FlockOperation};

use crate::error::{Error, ErrorContext, Result};
use crate::interrupt;

/// Bytes written at a time.
const BLOCK: usize = 1 << 20;

/// The scratch folder. What was made in it is removed when it is dropped, unless it is to be kept.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
    keep: bool,
    _lock: fs::File,
}

/// The folders made in the scratch folder.
const FOLDERS: [&str; 5] = ["data", "servers", "fuse", "mounts", "certificates"];

impl Scratch {
    /// Makes and locks the folder. It must be on a disk: memory file systems would hide what is measured.
    pub fn open(root: &Path, keep: bool) -> Result<Scratch> {
        fs::create_dir_all(root).doing(root.display())?;
        let root = fs::canonicalize(root).doing(root.display())?;
        // The magic numbers of statfs(2).
        const TMPFS: i64 = 0x0102_1994;
        const RAMFS: i64 = 0x8584_58f6;
        const OVERLAYFS: i64 = 0x794c_7630;
        let kind = rustix::fs::statfs(&root).doing(root.display())?.f_type;
        if [TMPFS, RAMFS, OVERLAYFS].contains(&kind) {
            let text = format!(
                "{} is on tmpfs or overlayfs; give a folder of a disk's file system with --scratch DIR",
                root.display()
            );
            return Err(Error::Setup(text));
        }
        let lock = fs::File::create(root.join("lock")).doing("make the lock file")?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::Setup(format!("another benchmark uses {}", root.display())))?;
        let scratch = Scratch { root, keep, _lock: lock };
        for folder in FOLDERS {
            scratch.folder(folder)?;
        }
        Ok(scratch)
    }

    /// The path itself.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The folder `name`, made if need be, open for every user.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).doing(path.display())?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).doing(path.display())?;
        Ok(path)
    }

    /// Whether users other than the owner reach the folder.
    pub fn is_reachable(&self) -> bool {
        self.root.ancestors().all(|path| fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o001 != 0))
    }

    /// A file of `size` random bytes in `data/`, made if it is not there with that size, safe on the disk.
    pub fn file(&self, name: &str, size: u64) -> Result<PathBuf> {
        interrupt::check()?;
        let path = self.root.join("data").join(name);
        if fs::metadata(&path).is_ok_and(|data| data.len() == size) {
            return Ok(path);
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).doing(folder.display())?;
        }
        let seed = name
            .bytes()
            .fold(0x9e37_79b9_7f4a_7c15, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut random = Random::new(seed);
        let mut file = fs::File::create(&path).doing(path.display())?;
        let mut left = usize::try_from(size).map_err(|_| Error::Setup(format!("a file of {size} bytes")))?;
        while left > 0 {
            let block = random.bytes(left.min(BLOCK));
            file.write_all(&block).doing(path.display())?;
            left -= block.len();
        }
        file.sync_all().doing(path.display())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            for folder in FOLDERS {
                let _ = fs::remove_dir_all(self.root.join(folder));
            }
            let _ = fs::remove_file(self.root.join("lock"));
        }
    }
}

/// Takes the files out of the page cache, so that the next reader pays for them. They must be on the disk already.
pub fn forget(files: &[PathBuf]) -> Result<()> {
    for path in files {
        let file = fs::File::open(path).doing(path.display())?;
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).doing(path.display())?;
    }
    Ok(())
}

/// Small pseudo-random numbers (xorshift64*); good enough to be incompressible.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence that depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Random(seed | 1)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..count.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(count);
        bytes
    }
}
