//! Compiled-in paths, as `-V` prints them: the defaults of the command line and of directives.

macro_rules! compiled {
    ($($(#[$doc:meta])* $name:ident = $variable:literal or $default:literal;)*) => {$(
        $(#[$doc])*
        ///
        #[doc = concat!("Set `", $variable, "` when building to change it (`", $default, "`).")]
        pub const $name: &str = match option_env!($variable) {
            Some(path) => path,
            None => $default,
        };
    )*};
}

// The defaults are the paths of Debian's nginx, so that freerun takes over an installed configuration as it stands.
compiled! {
    /// The folder that relative paths of the configuration are relative to.
    PREFIX = "FREERUN_PREFIX" or "/usr/share/nginx";
    /// The path of the program itself; only `-V` prints it.
    SBIN_PATH = "FREERUN_SBIN_PATH" or "/usr/sbin/freerun";
    /// The configuration file if there is no `-c`.
    CONF_PATH = "FREERUN_CONF_PATH" or "/etc/nginx/nginx.conf";
    /// The error log until (and unless) the configuration names one; `stderr` is not a file.
    ERROR_LOG_PATH = "FREERUN_ERROR_LOG_PATH" or "stderr";
    /// The access log unless the configuration names one.
    HTTP_LOG_PATH = "FREERUN_HTTP_LOG_PATH" or "/var/log/nginx/access.log";
    /// The pid file unless the configuration names one.
    PID_PATH = "FREERUN_PID_PATH" or "/run/nginx.pid";
    /// The lock file unless the configuration names one. freerun never makes one.
    LOCK_PATH = "FREERUN_LOCK_PATH" or "/var/lock/nginx.lock";
    /// The folder for request bodies that do not fit into memory, unless the configuration names another one.
    CLIENT_BODY_TEMP_PATH = "FREERUN_HTTP_CLIENT_BODY_TEMP_PATH" or "/var/lib/nginx/body";
    /// The default of `proxy_temp_path`.
    PROXY_TEMP_PATH = "FREERUN_HTTP_PROXY_TEMP_PATH" or "/var/lib/nginx/proxy";
    /// The default of `fastcgi_temp_path`.
    FASTCGI_TEMP_PATH = "FREERUN_HTTP_FASTCGI_TEMP_PATH" or "/var/lib/nginx/fastcgi";
    /// The default of `uwsgi_temp_path`.
    UWSGI_TEMP_PATH = "FREERUN_HTTP_UWSGI_TEMP_PATH" or "/var/lib/nginx/uwsgi";
    /// The default of `scgi_temp_path`.
    SCGI_TEMP_PATH = "FREERUN_HTTP_SCGI_TEMP_PATH" or "/var/lib/nginx/scgi";
    /// The user that the worker runs as, unless the configuration names one.
    USER = "FREERUN_USER" or "nobody";
}
