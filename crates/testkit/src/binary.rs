//! Finds the freerun binary to test, and builds it if necessary.

use crate::HarnessError;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of freerun's binary: `FREERUN_BIN`, else the result of `cargo build -p freerun`, in the profile and target
/// folder of the running test. Cargo is called once in a process; it does nothing if the binary is current.
///
/// # Errors
/// There is no cargo, or the build failed.
pub fn freerun() -> Result<PathBuf, HarnessError> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT
        .get_or_init(|| match std::env::var_os("FREERUN_BIN") {
            Some(given) => Ok(PathBuf::from(given)),
            None => build(),
        })
        .clone()
        .map_err(HarnessError::Binary)
}

fn build() -> Result<PathBuf, String> {
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    // TARGET/PROFILE/deps/suite-0123456789abcdef
    let profile_dir = test.parent().and_then(Path::parent).ok_or("the test is not in a target folder")?;
    let target = profile_dir.parent().ok_or("the test is not in a target folder")?;
    let profile = match profile_dir.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(other) => other,
    };
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--package", "freerun", "--profile", profile, "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err(format!("cargo build -p freerun: {built}"));
    }
    Ok(profile_dir.join("freerun"))
}

/// The path of nginx.
pub fn nginx_path() -> Option<PathBuf> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(given) = std::env::var_os("FREERUN_TEST_NGINX") {
            return Some(PathBuf::from(given));
        }
        find("nginx", &["/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin"])
    })
    .clone()
}

/// The path of a program in PATH, or else in the `usual` folders.
pub(crate) fn find(name: &str, usual: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = usual.iter().map(PathBuf::from);
    std::env::split_paths(&path).chain(usual).map(|dir| dir.join(name)).find(|file| file.is_file())
}
