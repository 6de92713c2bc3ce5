//! The requirements of tests on the machine. Each function prints on standard error why a test is skipped.

use crate::TempDir;
use crate::fuse::Fixture;
use std::path::PathBuf;
use std::sync::OnceLock;

fn answer(there: bool, why: &str) -> bool {
    if !there {
        eprintln!("skipped: {why}");
    }
    there
}

/// Root permissions (for changing the user, mounts, permission tests that need two users).
pub fn root() -> bool {
    answer(rustix::process::geteuid().is_root(), "not root")
}

/// freerun as the server under test, for tests that nginx cannot be compared with (see
/// [`Setup::run`](crate::Setup::run)).
pub fn freerun() -> bool {
    answer(crate::Kind::under_test() == crate::Kind::Freerun, "not for nginx")
}

/// nginx for comparison: `FREERUN_TEST_NGINX`, or `nginx` in PATH or the usual folders.
pub fn nginx() -> bool {
    answer(nginx_path().is_some(), "no nginx")
}

/// The path of one of nginx's dynamic modules, for comparison.
pub fn nginx_module(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FREERUN_TEST_NGINX_MODULES").unwrap_or_else(|| "/usr/lib/nginx/modules".into());
    let path = PathBuf::from(folder).join(format!("{name}.so"));
    answer(nginx() && path.is_file(), &format!("no {name} for nginx")).then_some(path)
}

/// The permission and the device to mount a FUSE file system.
pub fn fuse() -> bool {
    static MOUNTABLE: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = MOUNTABLE.get_or_init(|| {
        let dir = TempDir::new("fuse-probe");
        Fixture::mount(dir.path(), false).map(drop).map_err(|error| error.to_string())
    });
    match tried {
        Ok(()) => true,
        Err(why) => answer(false, why),
    }
}

/// IPv6 on the loopback interface.
pub fn ipv6() -> bool {
    answer(std::net::TcpListener::bind("[::1]:0").is_ok(), "no IPv6 loopback")
}

/// The path of nginx.
pub fn nginx_path() -> Option<PathBuf> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(given) = std::env::var_os("FREERUN_TEST_NGINX") {
            return Some(PathBuf::from(given));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = ["/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin"].map(PathBuf::from);
        std::env::split_paths(&path).chain(usual).map(|dir| dir.join("nginx")).find(|file| file.is_file())
    })
    .clone()
}

/// The path of a program of this name, in PATH or in the folders where Debian has servers.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/usr/bin"].map(PathBuf::from);
    let found = std::env::split_paths(&path).chain(usual).map(|dir| dir.join(name)).find(|file| file.is_file());
    answer(found.is_some(), &format!("no {name}"));
    found
}
