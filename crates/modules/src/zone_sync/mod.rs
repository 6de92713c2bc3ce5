//! `zone_sync_engine`: state that several machines share.
//!
//! | file | holds |
//! |---|---|
//! | `follow.rs` | what a configuration shares, for the thread of the cluster |
//! | `purge_target.rs` | a cache that purges what other machines have purged |
//!
//! The crate `freerun_cluster` has the directives and the thread.

mod follow;
mod purge_target;

use std::time::Duration;

use freerun_cluster::directives::{ZoneSyncSettings, declare};
use freerun_conf::group;
use freerun_http::module::Module;
use freerun_serve::configuration::generation::Generation;

/// The longest wait of the end of a worker for the thread of the cluster.
const END_PATIENCE: Duration = Duration::from_millis(500);

/// The module.
pub static MODULE: Module = Module {
    name: "zone_sync",
    groups: &[group::<ZoneSyncSettings>()],
    finish: Some(declare),
    prepare: Some(follow::prepare),
    leave: Some(leave),
    end: Some(end),
    ..Module::EMPTY
};

/// Leaves the cluster to another process.
fn leave(generation: &Generation) {
    follow::cluster(generation).iter().for_each(|cluster| cluster.leave());
}

fn end(generation: &Generation) {
    follow::cluster(generation).iter().for_each(|cluster| cluster.stop(END_PATIENCE));
}
