//! Features of the kernel that tell file operations beforehand whether they would wait. A worker looks at its start
//! which are missing.

use std::fmt;
use std::os::fd::AsFd as _;

use rustix::io::Errno;

use super::kernel::Kernel;

/// A feature of the kernel. Without it the server works, with more operations in pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelFeature {
    /// `openat2(2)` with `RESOLVE_CACHED`, since Linux 5.12.
    CachedLookup,
    /// `preadv2(2)` with `RWF_NOWAIT`, since Linux 4.14.
    NowaitRead,
    /// `cachestat(2)`, since Linux 6.5.
    CacheStatistics,
}

/// A feature that this kernel does not have, or that a filter of system calls forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingFeature {
    /// The feature.
    pub feature: KernelFeature,
    /// The kernel's answer: `ENOSYS` or `EINVAL` of an old kernel, `EPERM` or `ENOSYS` of a filter.
    pub error: Errno,
}

impl KernelFeature {
    /// All of them.
    pub const ALL: [KernelFeature; 3] =
        [KernelFeature::CachedLookup, KernelFeature::NowaitRead, KernelFeature::CacheStatistics];

    /// The name in the log and in the status.
    pub fn name(self) -> &'static str {
        match self {
            KernelFeature::CachedLookup => "RESOLVE_CACHED",
            KernelFeature::NowaitRead => "RWF_NOWAIT",
            KernelFeature::CacheStatistics => "cachestat",
        }
    }

    /// The first version of Linux that has it.
    pub fn since(self) -> &'static str {
        match self {
            KernelFeature::CachedLookup => "5.12",
            KernelFeature::NowaitRead => "4.14",
            KernelFeature::CacheStatistics => "6.5",
        }
    }

    /// The difference that its lack makes.
    pub fn loss(self) -> &'static str {
        match self {
            KernelFeature::CachedLookup => "files are opened by a pool",
            KernelFeature::NowaitRead => "files of other users are read by a pool",
            KernelFeature::CacheStatistics => "a file that is not in memory is tried to be read before a pool does it",
        }
    }

    /// Looks whether the kernel answers a call that needs the feature and does nothing. Where the kernel knows the call,
    /// it refuses the descriptor, which only names a folder, with `EBADF`.
    pub(super) fn look(self, kernel: &dyn Kernel) -> Result<(), MissingFeature> {
        let answer = match self {
            // This one does something: it looks up the root folder, which is always in the cache.
            KernelFeature::CachedLookup => kernel.name_cached(c"/").map(drop),
            KernelFeature::NowaitRead => {
                kernel.name(c"/").and_then(|folder| kernel.read_nowait(folder.as_fd(), &mut [0], 0)).map(drop)
            }
            KernelFeature::CacheStatistics => {
                kernel.name(c"/").and_then(|folder| kernel.cached(folder.as_fd(), 0, 1)).map(drop)
            }
        };
        match answer {
            Err(error) if self == KernelFeature::CachedLookup => Err(MissingFeature { feature: self, error }),
            Err(error @ (Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP)) => {
                Err(MissingFeature { feature: self, error })
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let feature = self.feature;
        write!(f, "{} (Linux {}) is missing or forbidden: {}", feature.name(), feature.since(), feature.loss())
    }
}
