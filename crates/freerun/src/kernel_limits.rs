//! The limits of a worker's sandbox that the kernel of this machine can set.

use freerun_sys::sandbox::{are_calls_filterable, are_files_restrictable};

/// A limit that only some kernels can set.
pub struct KernelLimit {
    /// Its name in `status`.
    pub name: &'static str,
    /// The kernel's feature that it takes.
    pub feature: &'static str,
    is_available: fn() -> bool,
}

/// All that depend on the kernel.
const KERNEL_LIMITS: [KernelLimit; 2] = [
    KernelLimit { name: "files", feature: "Landlock", is_available: are_files_restrictable },
    KernelLimit { name: "calls", feature: "seccomp", is_available: are_calls_filterable },
];

/// Limits that every kernel that freerun runs on can set.
const ALWAYS: [&str; 2] = ["bounding_set", "dumps"];

/// The limits that this kernel cannot set.
pub fn missing() -> impl Iterator<Item = &'static KernelLimit> {
    KERNEL_LIMITS.iter().filter(|limit| !(limit.is_available)())
}

/// The limits that a worker has here, and those that the kernel lacks, for `-V`.
pub fn summary() -> String {
    let available = KERNEL_LIMITS.iter().filter(|limit| (limit.is_available)()).map(|limit| limit.name);
    let mut summary = ALWAYS.into_iter().chain(available).collect::<Vec<_>>().join(", ");
    for limit in missing() {
        summary += &format!("; not {}, which takes {}", limit.name, limit.feature);
    }
    summary
}
