//! Help for somebody whose configuration is not there.

use std::path::Path;

use freerun_conf::{path_of, text_of_os};

use crate::cli::Options;
use crate::console;

/// A text for a user who just tries the program and has no configuration.
const WAYS_ON: &str = "\
there is no configuration at the default place; either
  freerun serve DIR   serves a folder without one, or
  freerun -c FILE     reads another one
";

/// Prints possible next steps, if there is no file at the path `conf`, which was not given or is below another folder than the
/// current one.
pub fn tell_ways_on(options: &Options, conf: &str) {
    let here = std::env::current_dir().unwrap_or_default();
    console::print(&ways_on(options, conf, &here).unwrap_or_default());
}

fn ways_on(options: &Options, conf: &str, here: &Path) -> Option<String> {
    if path_of(conf).exists() {
        return None;
    }
    let Some(given) = &options.conf else { return Some(WAYS_ON.to_owned()) };
    let found = here.join(path_of(given));
    let found = text_of_os(found.as_os_str());
    (options.prefix.is_none() && *found != *conf && path_of(&found).is_file()).then(|| {
        format!("help: a relative path begins in the prefix, as with nginx; the file of this folder is {found}\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_configuration_both_ways_on_are_named() {
        let plain = Options::default();
        let told = ways_on(&plain, "/no/such/file", Path::new("/")).expect("there is no file");
        assert!(told.contains("freerun serve DIR") && told.contains("freerun -c FILE"), "{told}");
        assert_eq!(ways_on(&plain, "/", Path::new("/")), None);
    }

    #[test]
    fn a_file_of_the_current_folder_is_named() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let given = |name: &str| Options { conf: Some(name.into()), ..Options::default() };
        let told = ways_on(&given("Cargo.toml"), "/no/such/Cargo.toml", here).expect("it is there");
        assert!(told.ends_with("/freerun/Cargo.toml\n"), "{told}");
        assert_eq!(ways_on(&given("x"), "/no/such/x", here), None);
        let prefix = Some("/no".into());
        assert_eq!(ways_on(&Options { prefix, ..given("Cargo.toml") }, "/no/Cargo.toml", here), None);
    }
}
