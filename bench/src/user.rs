//! The user that the workers of servers run as.

use std::fs;

use crate::scratch::Scratch;

/// The user and group of the servers' workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User name.
    pub name: String,
    /// Group name.
    pub group: String,
}

/// Root's servers run their workers as `name`, where the scratch folder lets it in.
pub fn pick(name: &str, scratch: &Scratch) -> Option<User> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let has = |group: &str| groups.lines().any(|line| line.split(':').next() == Some(group));
    let group = ["nogroup", name, "root"].into_iter().find(|group| has(group)).unwrap_or("root");
    let root = User { name: "root".into(), group: "root".into() };
    if name == "root" {
        return Some(root);
    }
    if !scratch.is_reachable() {
        eprintln!("{} is not open to the user {name}: the servers' workers stay root", scratch.path().display());
        return Some(root);
    }
    Some(User { name: name.into(), group: group.into() })
}
