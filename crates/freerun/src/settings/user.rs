//! The directive `user`.

use freerun_conf::{Cx, Node, Problem, Shape, Value};
use freerun_sys::process::{self, c_name};
use serde::{Deserialize, Serialize};

use crate::paths;

/// The ids of a worker, resolved by the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The supplementary groups, including the group.
    pub groups: Vec<u32>,
}

/// A mark of contexts without lookup of user names. The worker's context has it, as its identity comes with the bundle.
pub struct NoLookup;

/// A `user` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserSetting {
    /// The ids; `None` if the master cannot change them, or must not look them up.
    pub identity: Option<Identity>,
}

impl Value for UserSetting {
    const SHAPE: Shape = Shape::between(1, 2, "user [group]");

    fn parse(node: &Node, cx: &mut Cx) -> Result<UserSetting, Problem> {
        if cx.extensions.get::<NoLookup>().is_some() {
            return Ok(UserSetting { identity: None });
        }
        if !privileged() {
            cx.warn(
                Problem::warning(
                    "the \"user\" directive makes sense only if the master process runs with super-user privileges, \
                     ignored",
                )
                .at_node(node),
            );
            return Ok(UserSetting { identity: None });
        }
        let user = &node.args[0];
        // Without a group, the group with the user's name is taken.
        let group = node.args.get(1).unwrap_or(user);
        let failed = |call: &str, name: &str| format!("{call}(\"{name}\") failed");
        let found = c_name(&user.text).and_then(|name| Some((process::user(&name).ok()??, name)));
        let (entry, name) = found.ok_or_else(|| Problem::new(failed("getpwnam", &user.text)).at(user.place))?;
        let gid = c_name(&group.text)
            .and_then(|name| process::group(&name).ok()?)
            .ok_or_else(|| Problem::new(failed("getgrnam", &group.text)).at(group.place))?;
        let groups = process::groups(&name, gid).unwrap_or_else(|_| vec![gid]);
        Ok(UserSetting { identity: Some(Identity { uid: entry.uid, gid, groups }) })
    }
}

/// Whether this process may change its user.
pub fn privileged() -> bool {
    rustix::process::geteuid().is_root()
}

/// The ids of the worker without a `user` directive: [`paths::USER`] with the primary group, if this process may change
/// its user. `Err`: there is no such user.
pub fn default_identity() -> Result<Option<Identity>, String> {
    if !privileged() {
        return Ok(None);
    }
    let entry = c_name(paths::USER).and_then(|name| Some((process::user(&name).ok()??, name)));
    let Some((user, name)) = entry else { return Err(format!("getpwnam(\"{}\") failed", paths::USER)) };
    let groups = process::groups(&name, user.gid).unwrap_or_else(|_| vec![user.gid]);
    Ok(Some(Identity { uid: user.uid, gid: user.gid, groups }))
}
