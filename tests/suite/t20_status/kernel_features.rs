//! A kernel without the calls that tell beforehand whether an operation would wait: the server works, and says what is
//! missing.

use std::collections::BTreeMap;
use std::thread;

use freerun_testkit::{Setup, Site, require};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
use serde_json::{Value, json};

/// The number of `cachestat(2)`, which the `libc` crate does not have everywhere.
const SYS_CACHESTAT: i64 = 451;

/// Runs `test` on a thread whose processes get this answer from the calls; those of the thread itself do, too.
fn without(calls: &[i64], error: i32, test: impl FnOnce() + Send + 'static) {
    let arch = std::env::consts::ARCH.try_into().expect("an architecture that filters are made for");
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let refused = SeccompAction::Errno(error.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).expect("a filter");
    let program: BpfProgram = filter.try_into().expect("a filter");
    let test = move || {
        apply_filter(&program).expect("a filter of this thread");
        test();
    };
    if let Err(panic) = thread::spawn(test).join() {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn what_the_kernel_lacks_is_in_the_log_once_and_in_the_status() {
    if !require::freerun() {
        return;
    }
    let calls = [libc::SYS_openat2, libc::SYS_preadv2, SYS_CACHESTAT];
    // An old kernel, and a container's filter that does not know the calls.
    for error in [libc::ENOSYS, libc::EPERM] {
        without(&calls, error, move || {
            let site = Site::new();
            site.file("a", "file a");
            let server = Setup::server(&site, "location = /status { status; }").freerun();
            let status: Value = serde_json::from_slice(&server.get("/status").body).expect("JSON");
            assert_eq!(status["missing_kernel_features"], json!(["RESOLVE_CACHED", "RWF_NOWAIT", "cachestat"]));
            for _ in 0..3 {
                assert_eq!(server.get("/a").text(), "file a");
            }
            server.reload();
            assert_eq!(server.get("/a").text(), "file a");
            let log = server.error_log();
            for name in ["RESOLVE_CACHED (Linux 5.12)", "RWF_NOWAIT (Linux 4.14)", "cachestat (Linux 6.5)"] {
                assert_eq!(log.matches(name).count(), 1, "{name} in {log}");
            }
        });
    }
}

#[test]
fn a_kernel_that_has_everything_is_not_named() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let server = Setup::server(&site, "location = /status { status; }").freerun();
    let status: Value = serde_json::from_slice(&server.get("/status").body).expect("JSON");
    let missing = status["missing_kernel_features"].as_array().expect("a list").len();
    assert_eq!(server.error_log().matches("is missing or forbidden").count(), missing);
}
