//! The local authority of `freerun serve --tls internal`, as it is kept in the user's data folder, so that it has to be
//! trusted once.
//!
//! Its certificate and its key have a folder of their own, which gets its name when both are in it. Two servers that
//! start at the same time therefore never mix their files.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use freerun_conf::text_of_os;
use freerun_runtime::log::Errno;
use freerun_tls::issue::Authority;
use zeroize::Zeroizing;

/// The authority is made anew when it is valid for less than this, in seconds: 60 days.
const SOON: i64 = 60 * 24 * 3600;

/// The most bytes of one of its files.
const MAX_FILE: u64 = 64 * 1024;

/// The folder of the authority below the folder of the program's data.
const FOLDER: &str = "local-authority";

const CERTIFICATE: &str = "authority.crt";
const KEY: &str = "authority.key";

/// A local authority, and where clients find its certificate.
#[derive(Debug)]
pub struct Local {
    /// The authority.
    pub authority: Authority,
    /// The path of its certificate, or why it is in memory only.
    pub kept: Result<PathBuf, String>,
}

/// The folder for the program's data: `freerun` in `$XDG_DATA_HOME` or, if that is not set, in `~/.local/share`.
/// Relative paths are ignored (XDG Base Directory Specification).
pub fn data_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let shared = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(shared.join("freerun"))
}

/// The authority that is kept in this folder, or a new one, kept there if possible. A new one has `host` in its name
/// and may sign for `names` and for local names. `now` is in seconds since 1970.
///
/// # Errors
/// The authority in the folder cannot be used, or none can be made. An existing authority is never replaced for that:
/// somebody trusts it.
pub fn find(folder: Option<&Path>, host: &str, names: &[String], now: i64) -> Result<Local, String> {
    let make = || Authority::new(&format!("freerun on {host}"), names, now).map_err(|error| error.to_string());
    let Some(data) = folder else {
        let why = "neither XDG_DATA_HOME nor HOME names a folder".to_owned();
        return Ok(Local { authority: make()?, kept: Err(why) });
    };
    let folder = data.join(FOLDER);
    let path = folder.join(CERTIFICATE);
    let known = read(&folder)?;
    if let Some(authority) = known.filter(|authority| authority.expires() > now.saturating_add(SOON)) {
        return Ok(Local { authority, kept: Ok(path) });
    }
    let authority = make()?;
    if let Err(error) = keep(&authority, data, &folder, now) {
        let why = format!("\"{}\" cannot be made ({})", text_of_os(&folder), Errno(&error));
        return Ok(Local { authority, kept: Err(why) });
    }
    // Another server may have been quicker.
    let authority = read(&folder)?.unwrap_or(authority);
    Ok(Local { authority, kept: Ok(path) })
}

/// The authority in a folder, if there is one.
fn read(folder: &Path) -> Result<Option<Authority>, String> {
    let told = |path: &Path, why: &dyn std::fmt::Display| format!("\"{}\" cannot be used: {why}", text_of_os(&path));
    let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
    let file = match File::open(&key) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(told(&key, &Errno(&error))),
    };
    let metadata = file.metadata().map_err(|error| told(&key, &Errno(&error)))?;
    if metadata.mode() & 0o077 != 0 {
        return Err(told(&key, &"others may read it, so nobody should trust this authority; remove its folder"));
    }
    let key_text = text(file).map_err(|error| told(&key, &Errno(&error)))?;
    let certificate_text =
        File::open(&certificate).and_then(text).map_err(|error| told(&certificate, &Errno(&error)))?;
    let authority = Authority::from_pem(&certificate_text, &key_text);
    authority.map(Some).map_err(|error| told(&certificate, &error))
}

fn text(file: File) -> io::Result<Zeroizing<String>> {
    let (bytes, broken) = freerun_serve::tls::files::read_wiping(io::Read::take(file, MAX_FILE), 0);
    if let Some(error) = broken {
        return Err(error);
    }
    let text = std::str::from_utf8(&bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Writes the authority to the folder, unless another one has come meanwhile. One whose time is over gets another name.
fn keep(authority: &Authority, data: &Path, folder: &Path, now: i64) -> io::Result<()> {
    let private = |path: &Path, is_needed: bool| DirBuilder::new().recursive(!is_needed).mode(0o700).create(path);
    private(data, false)?;
    let new = data.join(format!("{FOLDER}.{}", std::process::id()));
    // A process of an earlier time may have had the same id.
    let _ = fs::remove_dir_all(&new);
    private(&new, true)?;
    let written = write(&new.join(CERTIFICATE), authority.certificate().as_bytes())
        .and_then(|()| write(&new.join(KEY), authority.key().as_bytes()))
        .and_then(|()| match fs::rename(&new, folder) {
            // A folder that is not empty is not replaced. File systems have two words for it, see rename(2).
            Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) => {
                if read(folder).is_ok_and(|other| other.is_some_and(|other| other.expires() > now.saturating_add(SOON)))
                {
                    return Ok(());
                }
                fs::rename(folder, data.join(format!("{FOLDER}.until-{now}")))?;
                fs::rename(&new, folder)
            }
            renamed => renamed,
        });
    let _ = fs::remove_dir_all(&new);
    written
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use freerun_testkit::TempDir;

    use super::*;

    const NOW: i64 = 1_790_000_000;

    #[test]
    fn the_data_folder_is_that_of_the_user() {
        let folder = |variables: &[(&str, &str)]| {
            data_folder(|name| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| value.into()))
        };
        assert_eq!(folder(&[("XDG_DATA_HOME", "/d"), ("HOME", "/h")]), Some("/d/freerun".into()));
        assert_eq!(folder(&[("XDG_DATA_HOME", "d"), ("HOME", "/h")]), Some("/h/.local/share/freerun".into()));
        assert_eq!(folder(&[("XDG_DATA_HOME", ""), ("HOME", "")]), None);
    }

    #[test]
    fn an_authority_is_made_once_and_kept_closed() {
        let dir = TempDir::new("authority");
        let data = dir.path().join("a/freerun");
        let first = find(Some(&data), "host", &[], NOW).expect("an authority");
        let path = first.kept.expect("it is kept");
        assert_eq!(fs::read_to_string(&path).expect("a file"), first.authority.certificate());
        let again = find(Some(&data), "other", &[], NOW).expect("an authority");
        assert_eq!(again.authority.certificate(), first.authority.certificate());
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let folder = data.join(FOLDER);
        assert_eq!((mode(&data), mode(&folder)), (0o700, 0o700));
        assert_eq!((mode(&folder.join(KEY)), mode(&path)), (0o600, 0o600));
        assert_eq!(fs::read_dir(&data).expect("a folder").count(), 1, "nothing is left behind");
        // Its time is nearly over.
        let later = find(Some(&data), "host", &[], first.authority.expires() - SOON).expect("an authority");
        assert_ne!(later.authority.certificate(), first.authority.certificate());
        assert_eq!(fs::read_to_string(&path).expect("a file"), later.authority.certificate());
    }

    #[test]
    fn what_cannot_be_kept_is_in_memory_and_what_is_open_to_others_is_refused() {
        assert!(find(None, "host", &[], NOW).expect("an authority").kept.is_err());
        let dir = TempDir::new("authority");
        fs::write(dir.path().join("file"), "").expect("a file");
        let nowhere = find(Some(&dir.path().join("file/freerun")), "host", &[], NOW);
        assert!(nowhere.is_err() || nowhere.is_ok_and(|local| local.kept.is_err()));
        find(Some(dir.path()), "host", &[], NOW).expect("an authority");
        let key = dir.path().join(FOLDER).join(KEY);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("chmod");
        assert!(find(Some(dir.path()), "host", &[], NOW).expect_err("it is open").contains("others may read it"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("chmod");
        fs::write(&key, "no key").expect("a file");
        assert!(find(Some(dir.path()), "host", &[], NOW).is_err(), "it is not replaced");
    }
}
