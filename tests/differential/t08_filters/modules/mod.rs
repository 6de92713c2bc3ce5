//! Modules that people add to nginx, compared with those that Debian ships (the packages are in .ci/packages).

mod dav_ext;
mod echo;
mod fancyindex;
mod more_headers;
mod set_misc;
mod subs_filter;

use crate::runner::{Both, compare_verdicts};
use freerun_testkit::{Setup, Site, require};

/// A server with these modules of nginx loaded; `None` if one of them is not installed.
fn setup(modules: &[&str], site: &Site, http: &str, server: &str) -> Option<Setup> {
    let mut setup = Setup::new().root(site);
    for module in modules {
        setup = setup.main(&format!("load_module {};", require::nginx_module(module)?.display()));
    }
    let server = format!("server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {server} }}");
    Some(setup.http(http).http(&server))
}

/// Both take each of these lines of a server, or both refuse it.
#[track_caller]
fn taken_alike(modules: &[&str], lines: &[&str]) {
    let mut loads = String::new();
    for module in modules {
        let Some(path) = require::nginx_module(module) else { return };
        loads += &format!("load_module {};\n", path.display());
    }
    let text = |line: &str| format!("{loads}events {{ }}\nhttp {{ server {{ listen 127.0.0.1:@PORT@; {line} }} }}\n");
    compare_verdicts(lines.iter().map(|line| (line, text(line))), |_, Both { nginx, freerun }| {
        nginx.code == freerun.code
    });
}
