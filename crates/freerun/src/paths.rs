//! Paths: the compiled-in defaults, and the changes that the command line makes to them.

pub use freerun_serve::configuration::compiled_paths::*;

/// The paths of one invocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The prefix of relative paths, which ends with `/`, as all prefixes here.
    pub prefix: String,
    /// The configuration file.
    pub conf: String,
    /// The folder of the configuration file, which the paths of `include` are relative to.
    pub conf_prefix: String,
    /// The error log that is open before the configuration is read.
    pub error_log: String,
    /// Whether `-c` named the configuration file.
    pub conf_given: bool,
}

impl Paths {
    /// The paths by nginx's rules: `-p` may be relative to the current folder; `-c` and `-e` are relative to the
    /// prefix.
    pub fn new(prefix: Option<&str>, conf: Option<&str>, error_log: Option<&str>) -> Paths {
        let mut prefix = prefix.unwrap_or(PREFIX).to_owned();
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        let conf_path = join(&prefix, conf.unwrap_or(CONF_PATH));
        let conf_prefix = conf_path[..conf_path.rfind('/').map_or(0, |slash| slash + 1)].to_owned();
        let error_log = error_log.unwrap_or(ERROR_LOG_PATH);
        Paths {
            error_log: if error_log == "stderr" { error_log.to_owned() } else { join(&prefix, error_log) },
            conf_given: conf.is_some(),
            prefix,
            conf: conf_path,
            conf_prefix,
        }
    }
}

/// `path`, below `prefix` unless it is absolute.
pub fn join(prefix: &str, path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("{prefix}{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_below_the_prefix() {
        let paths = Paths::new(Some("./base"), Some("etc/x.conf"), Some("e.log"));
        assert_eq!(paths.prefix, "./base/");
        assert_eq!(paths.conf, "./base/etc/x.conf");
        assert_eq!(paths.conf_prefix, "./base/etc/");
        assert_eq!(paths.error_log, "./base/e.log");
    }

    #[test]
    fn absolute_paths_stay() {
        let paths = Paths::new(None, Some("/a/b.conf"), None);
        assert_eq!((paths.conf.as_str(), paths.conf_prefix.as_str()), ("/a/b.conf", "/a/"));
        assert_eq!(paths.prefix, format!("{PREFIX}/"));
    }
}
