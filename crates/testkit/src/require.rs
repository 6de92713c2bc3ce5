//! Needs of tests, each by its name: a test that lacks one says so and is skipped, or fails.
//!
//! `FREERUN_TEST_REQUIRE` lists the needs whose lack is a failure: `nginx,fuse`, or `all,-go` for all but one. A lack that
//! is none goes to standard error, and as a line to the file that `FREERUN_TEST_SKIPPED` names; `.ci/run` counts these.

use crate::binary::find;
pub use crate::binary::nginx_path;
use crate::fuse::Fixture;
use crate::{Kind, TempDir};
use std::io::Write;
use std::path::PathBuf;
use std::sync::OnceLock;

/// The names of all needs: programs and nginx's modules have their own, the others are explained here.
const NEEDS: &[&str] = &[
    // Rights, and what a kernel offers.
    "cachestat",
    "fuse",
    "ipv6",
    "mount",
    "mount-ext4",
    "mount-overlay",
    "mount-xfs",
    "root",
    "shared-memory",
    // nginx, to compare with.
    "ndk_http_module",
    "nginx",
    "ngx_http_brotli_filter_module",
    "ngx_http_brotli_static_module",
    "ngx_http_dav_ext_module",
    "ngx_http_echo_module",
    "ngx_http_fancyindex_module",
    "ngx_http_geoip2_module",
    "ngx_http_headers_more_filter_module",
    "ngx_http_set_misc_module",
    "ngx_http_subs_filter_module",
    "ngx_stream_module",
    // The files that Debian's nginx leaves in /etc.
    "nginx-common",
    // Programs.
    "bindfs",
    "certbot",
    "curl",
    "fincore",
    "fish",
    "gnutls-cli",
    "go",
    "ip",
    "java",
    "javac",
    "litmus",
    "logrotate",
    "mandoc",
    "memcached",
    "node",
    "openssl",
    // The release whose rules freerun's lists of ciphers have.
    "openssl-3.0",
    "pebble",
    "pebble-challtestsrv",
    // A Pebble of this time, which Go builds; Debian's has no renewal information.
    "pebble-ari",
    "php-fpm8.2",
    "promtool",
    "redis-cli",
    "redis-sentinel",
    "redis-server",
    "python3",
    "python3-seccomp",
    "python3-websockets",
    "systemd-analyze",
    "unshare",
    "uwsgi",
    // In PATH, or where `.ci/run valkey` puts it.
    "valkey-server",
    "zsh",
    // Scripts of `tests/tools`, with all that they use.
    "tools/browsers",
    "tools/certbot",
    "tools/dashboard",
    "tools/grpc-interop",
    "tools/h2-drain",
    "tools/h2spec",
    "tools/otel-collector",
    "tools/plus-api",
    "tools/stream-clients",
    "tools/upgrade",
    // Data that is not in the repository: `FREERUN_CORPUS`, and the npm package that `.ci/run npm` installs.
    "corpus",
    "http-cache-tests",
];

/// The needs whose lack is a failure.
#[derive(Debug, Default, PartialEq, Eq)]
struct RequiredNeeds(Vec<&'static str>);

impl RequiredNeeds {
    /// Reads a list, from left to right.
    fn parse(text: &str) -> Result<RequiredNeeds, String> {
        let mut required = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, without) = word.strip_prefix('-').map_or((word, false), |name| (name, true));
            let named: Vec<&str> = NEEDS.iter().copied().filter(|need| *need == name || name == "all").collect();
            if named.is_empty() {
                let known = NEEDS.join(", ");
                return Err(format!("FREERUN_TEST_REQUIRE names \"{name}\"; there are all, {known}"));
            }
            required.retain(|need| !named.contains(need));
            if !without {
                required.extend(named);
            }
        }
        Ok(RequiredNeeds(required))
    }

    /// The requirements of the environment.
    fn of_environment() -> &'static Result<RequiredNeeds, String> {
        static REQUIRED: OnceLock<Result<RequiredNeeds, String>> = OnceLock::new();
        REQUIRED.get_or_init(|| RequiredNeeds::parse(&std::env::var("FREERUN_TEST_REQUIRE").unwrap_or_default()))
    }
}

/// Whether a need is met, which the caller knows. If it is not, `why` tells what is missing.
///
/// # Panics
/// The need is not met and `FREERUN_TEST_REQUIRE` names it; or that variable, or the caller, names a need that does not
/// exist.
#[track_caller]
pub fn need(name: &str, met: bool, why: &str) -> bool {
    assert!(NEEDS.contains(&name), "the need \"{name}\" is missing in NEEDS of the testkit");
    match RequiredNeeds::of_environment() {
        Err(error) => panic!("{error}"),
        Ok(required) if !met && required.0.contains(&name) => panic!("FREERUN_TEST_REQUIRE requires {name}: {why}"),
        Ok(_) if !met => record_skip(name, why),
        Ok(_) => {}
    }
    met
}

/// Tells that the current test is skipped, or a part of it.
fn record_skip(name: &str, why: &str) {
    eprintln!("skipped: {why}");
    let Some(path) = std::env::var_os("FREERUN_TEST_SKIPPED") else { return };
    let program = std::env::current_exe().unwrap_or_default();
    // Cargo puts a hash behind the name.
    let program = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let binary = program.rsplit_once('-').map_or(program.as_str(), |(name, _)| name);
    let thread = std::thread::current();
    let line = format!("{name}\t{binary}\t{}\t{}\n", thread.name().unwrap_or("?"), why.replace(['\n', '\t'], " "));
    // Several processes write to it: each line has to be one call.
    let file = std::fs::File::options().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .unwrap_or_else(|error| panic!("FREERUN_TEST_SKIPPED {}: {error}", path.display()));
}

/// Root permissions (for changing the user, mounts, permission tests that need two users).
#[track_caller]
pub fn root() -> bool {
    need("root", rustix::process::geteuid().is_root(), "not root")
}

/// freerun as the server under test, for tests that nginx cannot be compared with (see
/// [`Setup::run`](crate::Setup::run)). This is no need of the machine.
pub fn freerun() -> bool {
    let is_freerun = Kind::under_test() == Kind::Freerun;
    if !is_freerun {
        eprintln!("skipped: not for nginx");
    }
    is_freerun
}

/// nginx for comparison: `FREERUN_TEST_NGINX`, or `nginx` in PATH or the usual folders.
#[track_caller]
pub fn nginx() -> bool {
    need("nginx", nginx_path().is_some(), "no nginx")
}

/// The path of one of nginx's dynamic modules, for comparison.
#[track_caller]
pub fn nginx_module(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("FREERUN_TEST_NGINX_MODULES").unwrap_or_else(|| "/usr/lib/nginx/modules".into());
    let path = PathBuf::from(folder).join(format!("{name}.so"));
    (nginx() && need(name, path.is_file(), &format!("no {name} for nginx"))).then_some(path)
}

/// Whether this process may mount a FUSE file system, and has the device.
#[track_caller]
pub fn fuse() -> bool {
    static MOUNTABLE: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = MOUNTABLE.get_or_init(|| {
        let dir = TempDir::new("fuse-probe");
        Fixture::mount(dir.path(), false).map(drop).map_err(|error| error.to_string())
    });
    need("fuse", tried.is_ok(), tried.as_ref().err().map_or("", String::as_str))
}

/// IPv6 on the loopback interface.
#[track_caller]
pub fn ipv6() -> bool {
    need("ipv6", std::net::TcpListener::bind("[::1]:0").is_ok(), "no IPv6 loopback")
}

/// The path of a program of this name, in PATH or in the folders where Debian has servers.
#[track_caller]
pub fn program(name: &str) -> Option<PathBuf> {
    program_of(name, &[name])
}

/// The path of the first of `names` that is there, where [`program`] looks; `name` is the name of the
/// need.
#[track_caller]
pub fn program_of(name: &str, names: &[&str]) -> Option<PathBuf> {
    // Go's own folder is not always in the path.
    let found = names.iter().find_map(|name| find(name, &["/usr/sbin", "/usr/bin", "/usr/local/go/bin"]));
    need(name, found.is_some(), &format!("no {name}"));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<&'static str> {
        RequiredNeeds::parse(text).expect(text).0
    }

    #[test]
    fn a_list_is_read_from_left_to_right() {
        assert!(parse("").is_empty());
        assert_eq!(parse("nginx, root,nginx"), ["root", "nginx"]);
        assert_eq!(parse("all"), NEEDS);
        assert_eq!(parse("nginx,fuse,-nginx"), ["fuse"]);
        assert_eq!(parse("all,-go").len(), NEEDS.len() - 1);
        assert_eq!(parse("all,-all,-ipv6,root"), ["root"]);
    }

    #[test]
    fn an_unknown_name_is_an_error() {
        for text in ["ngnix", "all,-ngnix", "-", "nginx fuse"] {
            let error = RequiredNeeds::parse(text).unwrap_err();
            assert!(error.contains("there are all, ") && error.contains(", nginx, "), "{error}");
        }
    }

    /// A name that is misspelt would require nothing, in a binary whose tests need nothing.
    #[test]
    fn the_list_of_the_environment_can_be_read() {
        assert_eq!(RequiredNeeds::of_environment().as_ref().err(), None);
    }

    #[test]
    fn a_need_has_one_name() {
        let mut names = NEEDS.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NEEDS.len());
    }
}
