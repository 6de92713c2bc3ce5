//! The versions, and the text that `-v` and `-V` print.

use freerun_serve::values::regex_library;

use crate::{kernel_limits, paths};

/// The version of freerun.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version of nginx whose documented behaviour freerun follows.
pub const NGINX_VERSION: &str = "1.31.5";

/// The protocols and contents that every build has.
const FEATURES: &str = "HTTP/1.1, HTTP/2, HTTP/3, TLS 1.2, TLS 1.3, ACME, stream, FastCGI, uwsgi, SCGI, gRPC, memcached, WebDAV, \
     gzip, Brotli, Zstandard";

/// The text of `-v`: freerun's line first, then the line that tools look for.
pub fn versions() -> String {
    format!("freerun version: freerun/{VERSION}\nnginx version: nginx/{NGINX_VERSION}\n")
}

/// The text after the versions for `-V`. Of the names of the `modules`, those that nginx's configure has as an option
/// (`http_…_module`) are printed: the others are always built in.
pub fn build(modules: &[&str]) -> String {
    let mut line = String::from("configure arguments:");
    for (option, value) in [
        ("--prefix", paths::PREFIX),
        ("--sbin-path", paths::SBIN_PATH),
        ("--conf-path", paths::CONF_PATH),
        ("--http-log-path", paths::HTTP_LOG_PATH),
        ("--error-log-path", paths::ERROR_LOG_PATH),
        ("--lock-path", paths::LOCK_PATH),
        ("--pid-path", paths::PID_PATH),
        ("--http-client-body-temp-path", paths::CLIENT_BODY_TEMP_PATH),
        ("--http-proxy-temp-path", paths::PROXY_TEMP_PATH),
        ("--http-fastcgi-temp-path", paths::FASTCGI_TEMP_PATH),
        ("--http-uwsgi-temp-path", paths::UWSGI_TEMP_PATH),
        ("--http-scgi-temp-path", paths::SCGI_TEMP_PATH),
        ("--user", paths::USER),
    ] {
        line += &format!(" {option}={value}");
    }
    line += " --with-threads --with-file-aio --with-pcre --with-pcre-jit --with-debug --with-http_ssl_module --with-http_v3_module";
    for module in modules.iter().filter(|name| name.starts_with("http_") && name.ends_with("_module")) {
        line += &format!(" --with-{module}");
    }
    // Tools that configure certificates, certbot for example, look for the line of SNI and for the option of the module.
    format!(
        "built with Rust, rustls and AWS-LC, {}{} build for {}-{}{}\nlibraries: {}, {}\nfeatures: {FEATURES}\n\
         worker sandbox: {}\nTLS SNI support enabled\n{line}\n",
        // `cargo xtask release` sets this.
        option_env!("FREERUN_PROFILE_GUIDED").map_or("", |_| "profile-guided "),
        if cfg!(debug_assertions) { "debug" } else { "release" },
        std::env::consts::ARCH,
        std::env::consts::OS,
        option_env!("FREERUN_COMMIT").map(|commit| format!(", commit {commit}")).unwrap_or_default(),
        env!("FREERUN_LIBRARIES"),
        regex_library(),
        kernel_limits::summary(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_find_the_nginx_line_and_the_arguments() {
        assert!(versions().starts_with("freerun version: freerun/"));
        assert!(versions().contains("\nnginx version: nginx/1.31.5\n"));
        let build = build(&["index", "http_example_module", "try_files"]);
        let line = build.lines().find(|line| line.starts_with("configure arguments: ")).unwrap();
        assert!(line.contains(" --conf-path=/") && line.contains(" --with-threads"));
        assert!(line.ends_with(" --with-http_example_module"));
        assert!(
            line.contains(" --with-http_ssl_module --with-http_v3_module")
                && build.contains("\nTLS SNI support enabled\n")
        );
        let libraries = build.lines().find(|line| line.starts_with("libraries: ")).unwrap();
        for name in ["rustls ", "aws-lc-sys ", "zlib-rs ", "PCRE2 "] {
            let version = libraries.split(name).nth(1).expect(name);
            assert!(version.starts_with(|first: char| first.is_ascii_digit()), "{libraries}");
        }
    }
}
