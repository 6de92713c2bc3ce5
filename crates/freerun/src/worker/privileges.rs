//! What a worker changes about its process before it starts a thread: limits, priority, folder, identity.

use freerun_sys::process::become_user;
use rustix::process::{Resource, Rlimit};

use crate::configuration::Configuration;
use crate::error::Error;
use crate::paths;
use crate::settings::user::Identity;

/// Applies everything, the identity last. Must run while the process has one thread; all later ones inherit it.
pub fn settle(configuration: &Configuration, identity: Option<&Identity>) -> Result<(), Error> {
    let main = configuration.main();
    if let Some(files) = main.worker_rlimit_nofile {
        let limit = u64::from(files);
        set_limit("RLIMIT_NOFILE", Resource::Nofile, limit)?;
    }
    if let Some(core) = main.worker_rlimit_core {
        set_limit("RLIMIT_CORE", Resource::Core, core.0)?;
    }
    if let Some(priority) = main.worker_priority {
        rustix::process::setpriority_process(None, priority.0)
            .map_err(Error::call(&format!("setpriority({})", priority.0)))?;
    }
    change_folder(configuration)?;
    if let Some(identity) = identity {
        become_user(identity.uid, identity.gid, &identity.groups).map_err(|failed| {
            let number = if failed.step == "setuid" { identity.uid } else { identity.gid };
            Error::Call { call: format!("{}({number})", failed.step), error: failed.error }
        })?;
    }
    rustix::thread::set_no_new_privs(true).map_err(Error::call("prctl(PR_SET_NO_NEW_PRIVS)"))
}

/// `working_directory`
pub fn change_folder(configuration: &Configuration) -> Result<(), Error> {
    if let Some(folder) = &configuration.main().working_directory {
        let path = paths::join(&configuration.prefix, &folder.0);
        rustix::process::chdir(&path).map_err(Error::named("chdir", &path))?;
    }
    Ok(())
}

fn set_limit(name: &str, resource: Resource, limit: u64) -> Result<(), Error> {
    let both = Rlimit { current: Some(limit), maximum: Some(limit) };
    rustix::process::setrlimit(resource, both).map_err(Error::call(&format!("setrlimit({name}, {limit})")))
}
