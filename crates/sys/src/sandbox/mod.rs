//! The limits that a process sets for itself: no core dumps, no rights by executing, only the system calls of a
//! list, and changes of files only in some folders.
//!
//! They are set while the process has one thread; all threads that it starts later inherit them. Nothing lifts them.

#[cfg(debug_assertions)]
pub mod attempts;
mod calls;
mod denials;
mod files;
mod filter;

pub use denials::{Denials, DeniedCall};
pub use files::{are_files_restrictable, restrict_files};
pub use filter::{Strictness, filter_calls};

use std::io;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set, secure_computing_mode};

/// Keeps the memory of this process from core files, and other processes of its user from reading it by ptrace(2) or
/// `/proc` (`PR_SET_DUMPABLE` in prctl(2)).
///
/// # Errors
/// The error of prctl(2).
pub fn forbid_dumps() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)
}

/// Empties the capability bounding set (capabilities(7)): no program that this process executes can have a capability.
///
/// # Errors
/// The error of prctl(2): `EPERM` without `CAP_SETPCAP`. Then the set stays as it was.
pub fn empty_bounding_set() -> io::Result<()> {
    for capability in CapabilitySet::all().iter() {
        match remove_capability_from_bounding_set(capability) {
            // An older kernel does not know all capabilities.
            Ok(()) | Err(Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether the kernel can filter system calls as [`filter_calls`] does (`PR_GET_SECCOMP` in prctl(2)).
pub fn are_calls_filterable() -> bool {
    secure_computing_mode().is_ok()
}

/// A limit that this process has set for itself, or could not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protection {
    /// Its name in `status`: `dumps`, `bounding_set`, `calls`, `files`.
    pub name: &'static str,
    /// The reason why it is not there.
    pub failure: Option<String>,
}

static PROTECTIONS: OnceLock<Vec<Protection>> = OnceLock::new();

/// Notes what this process has set, once.
pub fn note_protections(protections: Vec<Protection>) {
    let first = PROTECTIONS.set(protections);
    debug_assert!(first.is_ok(), "a process restricts itself once");
}

/// The limits of this process; empty if it was not to have any.
pub fn protections() -> &'static [Protection] {
    PROTECTIONS.get().map(Vec::as_slice).unwrap_or_default()
}
