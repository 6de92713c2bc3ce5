//! The changes that a worker makes to its process before it starts a thread: limits, priority, folder, identity.

use freerun_runtime::log::Errno;
use freerun_sys::process::become_user;
use rustix::process::{Resource, Rlimit};

use crate::configuration::Configuration;
use crate::error::Error;
use crate::paths;
use crate::settings::user::Identity;
use crate::worker::sandbox::Sandbox;

/// Descriptors that a worker needs besides the descriptors of connections: for loops, logs, listeners, pools.
const RESERVE: u64 = 512;

/// The least limit of descriptors that is set: a worker with one loop has about 20 of its own, where nginx's has ten.
const LEAST_FILES: u64 = 64;

/// Applies everything, the identity last. Must run while the process has one thread; all later ones inherit it.
///
/// Returns messages about limits that the system refused to set. They are not essential: nginx logs such a refusal, and
/// serves.
pub fn settle(configuration: &Configuration, loops: u32, identity: Option<&Identity>) -> Result<Vec<String>, Error> {
    let main = configuration.main();
    let mut denied = Vec::new();
    match main.worker_rlimit_nofile {
        // In nginx each worker process has this limit; here one process has the loops in their place.
        Some(files) => {
            let files = (u64::from(files) * u64::from(loops.max(1))).max(LEAST_FILES);
            denied.extend(set_limit("RLIMIT_NOFILE", Resource::Nofile, files).err());
        }
        None => raise_files(u64::from(loops) * u64::from(configuration.events().worker_connections.0)),
    }
    size_descriptor_table();
    if let Some(core) = main.worker_rlimit_core {
        denied.extend(set_limit("RLIMIT_CORE", Resource::Core, core.0).err());
    }
    if let Some(priority) = main.worker_priority {
        rustix::process::setpriority_process(None, priority.0)
            .map_err(Error::call(&format!("setpriority({})", priority.0)))?;
    }
    // This is done while the process may still have the permission. If it is denied, a loop can wait for a page of the
    // program itself.
    let _ = freerun_sys::program::lock();
    change_folder(configuration)?;
    let mut sandbox = Sandbox::of(configuration);
    sandbox.begin();
    if let Some(identity) = identity {
        become_user(identity.uid, identity.gid, &identity.groups).map_err(|failed| {
            let number = if failed.step == "setuid" { identity.uid } else { identity.gid };
            Error::Call { call: format!("{}({number})", failed.step), error: failed.error }
        })?;
    }
    rustix::thread::set_no_new_privs(true).map_err(Error::call("prctl(PR_SET_NO_NEW_PRIVS)"))?;
    sandbox.complete();
    Ok(denied)
}

/// Raises the soft limit as far as the hard one allows, so that every connection may have a file open as well.
fn raise_files(connections: u64) {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let wanted = connections.saturating_mul(2).saturating_add(RESERVE);
    let wanted = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    if limit.current.is_some_and(|current| current < wanted) {
        // A sandbox may forbid this; then the limit stays as it was, and reaching it is handled.
        let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit });
    }
}

/// The largest table of descriptors that is made in advance: half a megabyte of kernel memory.
const TABLE: u64 = 65_536;

/// Has the kernel make the table of descriptors as large as it may become.
///
/// The table grows by doubling. In a process with several threads, the thread that makes it grow waits in the kernel
/// until every processor has passed a quiet point (`synchronize_rcu`). A loop would stand still for these milliseconds.
fn size_descriptor_table() {
    let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(TABLE).min(TABLE);
    let Ok(last) = i32::try_from(limit.saturating_sub(1)) else { return };
    // If this fails, growing costs time, and there is nothing to report.
    if let Ok(highest) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), last) {
        drop(highest);
    }
}

/// Changes to the folder of `working_directory`.
pub fn change_folder(configuration: &Configuration) -> Result<(), Error> {
    if let Some(folder) = &configuration.main().working_directory {
        let path = paths::join(&configuration.prefix, &folder.0);
        rustix::process::chdir(&path).map_err(Error::named("chdir", &path))?;
    }
    Ok(())
}

/// Sets the soft and the hard limit. If the hard one may not be raised, the soft one is raised up to it, and the
/// refusal is returned.
fn set_limit(name: &str, resource: Resource, limit: u64) -> Result<(), String> {
    let both = Rlimit { current: Some(limit), maximum: Some(limit) };
    let Err(error) = rustix::process::setrlimit(resource, both) else { return Ok(()) };
    let now = rustix::process::getrlimit(resource);
    let reachable = Rlimit { current: now.maximum.map(|maximum| maximum.min(limit)), ..now };
    // The first refusal is the one to report.
    let _ = rustix::process::setrlimit(resource, reachable);
    let error = std::io::Error::from(error);
    Err(format!("setrlimit({name}, {limit}) failed ({})", Errno(&error)))
}
