//! The folders that are compiled into a server, made private to one server. So directives that a configuration leaves
//! out have their defaults, and yet several servers run at once on one machine.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// A compiled-in folder of Debian's nginx, which freerun has too, and the folder below the server's own that is mounted
/// there. Access logs that nothing names are then found beside the others.
const FOLDERS: [(&str, &str); 2] = [("/var/log/nginx", "."), ("/var/lib/nginx", "lib")];

/// Mounts the folders below the first argument, and becomes the program that the others name.
const SCRIPT: &str = "dir=$1; shift; while [ \"$1\" != -- ]; do mount --bind \"$dir/$2\" \"$1\" || exit; shift 2; done; \
                      shift; exec \"$@\"";

/// Whether a server can have a mount namespace of its own here: that takes root, and the folders.
pub fn is_possible() -> bool {
    static POSSIBLE: OnceLock<bool> = OnceLock::new();
    *POSSIBLE.get_or_init(|| {
        let works = || Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
        FOLDERS.iter().all(|(folder, _)| Path::new(folder).is_dir()) && works()
    })
}

/// The words before a server's command that give it the folders below `dir`, which have to exist, as its own.
pub fn words(dir: &Path) -> Vec<String> {
    let mut words = ["unshare", "-m", "sh", "-c", SCRIPT, "sh"].map(str::to_owned).to_vec();
    words.push(dir.display().to_string());
    for (folder, below) in FOLDERS {
        words.extend([folder.to_owned(), below.to_owned()]);
    }
    words.push("--".to_owned());
    words
}

/// Makes the folders below `dir` that [`words`] needs.
pub fn prepare(dir: &Path) -> std::io::Result<()> {
    FOLDERS.iter().try_for_each(|(_, below)| std::fs::create_dir_all(dir.join(below)))
}

/// The lines of `http` that name folders below `@DIR@`, for a server that [cannot](is_possible) have compiled-in
/// folders of its own. Such folders belong to an installed server, and may not be there. `http` is the rest of that
/// block.
pub fn lines_instead(http: &str) -> String {
    let log = if http.contains("access_log") { "" } else { "access_log @DIR@/access.log;\n" };
    log.to_owned() + &temp_paths()
}

/// The lines of `http` that name folders for temporary files below `@DIR@`.
pub fn temp_paths() -> String {
    let modules = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    modules.map(|module| format!("{module}_temp_path @DIR@/{module};\n")).concat()
}
