//! The machine: its cores, the programs needed, and the facts that stand above a table.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::network;
use crate::process::ask;

/// A program from a Debian package: its name, the package, and the argument that makes it say its version.
const PROGRAMS: [(&str, &str, &str); 9] = [
    ("nginx", "nginx-light", "-v"),
    ("wrk", "wrk", "-v"),
    ("h2load", "nghttp2-client", "--version"),
    ("h2o", "h2o", "-v"),
    ("lighttpd", "lighttpd", "-v"),
    ("haproxy", "haproxy", "-v"),
    ("varnishd", "varnish", "-V"),
    ("openssl", "openssl", "version"),
    ("fusermount3", "fuse3", "-V"),
];

/// The programs and properties that were found.
#[derive(Debug)]
pub struct Machine {
    /// Number of cores this process may use.
    pub cores: usize,
    programs: BTreeMap<&'static str, PathBuf>,
}

impl Machine {
    /// Looks around; this nginx is used instead of the one of the path.
    pub fn look(nginx: Option<&Path>) -> Machine {
        let mut programs: BTreeMap<_, _> =
            PROGRAMS.iter().filter_map(|(name, ..)| Some((*name, find(name)?))).collect();
        if let Some(nginx) = nginx {
            programs.insert("nginx", nginx.to_path_buf());
        }
        Machine { cores: std::thread::available_parallelism().map_or(1, usize::from), programs }
    }

    /// The path of the program `name`; the error says what to install.
    pub fn program(&self, name: &str) -> Result<&Path> {
        let package = PROGRAMS.iter().find(|(known, ..)| *known == name).map_or(name, |(_, package, _)| *package);
        self.programs.get(name).map(PathBuf::as_path).ok_or_else(|| {
            Error::Setup(format!("{name} is not installed: apt-get install --no-install-recommends {package}"))
        })
    }

    /// The command that installs everything that is missing, if anything is.
    pub fn missing(&self) -> Option<String> {
        let missing: Vec<_> = PROGRAMS.iter().filter(|(name, ..)| !self.programs.contains_key(name)).collect();
        let packages: Vec<_> = missing.iter().map(|(_, package, _)| *package).collect();
        (!packages.is_empty()).then(|| format!("apt-get install --no-install-recommends {}", packages.join(" ")))
    }

    /// A paragraph: date, machine, kernel, load, versions.
    pub fn facts(&self, freerun: Option<&Path>) -> String {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = read("/proc/meminfo");
        let memory = memory
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        let date = ask(Path::new("date"), &["-u", "+%Y-%m-%d %H:%M UTC"]).unwrap_or_default();
        let mut facts = format!(
            "{date}; {}, {} cores, {} GB memory, Linux {}, {} congestion control; load before the run {}",
            processor(),
            self.cores,
            memory.unwrap_or(0) >> 20,
            read("/proc/sys/kernel/osrelease").trim(),
            network::congestion(),
            read("/proc/loadavg").split(' ').next().unwrap_or("?"),
        );
        for (name, _, option) in PROGRAMS.iter().filter(|(name, ..)| *name != "fusermount3") {
            if let Some(version) = self.programs.get(name).and_then(|path| ask(path, &[option]).ok()) {
                facts += &format!("; {}", first_line(&version));
            }
        }
        if let Some(version) = freerun.and_then(|path| ask(path, &["-v"]).ok()) {
            facts += &format!("; {}", first_line(&version));
        }
        facts + "."
    }

    /// The server's core and the clients' core; on a machine with one core they share it.
    pub fn pair(&self) -> (Vec<usize>, Vec<usize>) {
        (vec![0], vec![usize::from(self.cores > 1)])
    }
}

fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or("");
    let line = line.strip_prefix("varnishd (").map_or(line, |line| line.split(" revision").next().unwrap_or(line));
    line.strip_prefix("nginx version: ")
        .unwrap_or(line)
        .split(" (")
        .next()
        .unwrap_or("")
        .split(" Copyright")
        .next()
        .unwrap_or("")
}

/// The path of the program `name`.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"])
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

/// Whether the binary says that it was built with what a load on it has shown (`cargo xtask release`).
pub fn is_profile_guided(freerun: &Path) -> bool {
    ask(freerun, &["-V"]).is_ok_and(|text| text.contains("profile-guided"))
}

/// The kind of the processor, without trade marks: "AMD EPYC".
fn processor() -> String {
    kind_of(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

fn kind_of(cpuinfo: &str) -> String {
    let name =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map_or("?", |(_, name)| name);
    let name = name.replace("(R)", "").replace("(TM)", "");
    let words: Vec<&str> = name.split_whitespace().filter(|word| !matches!(*word, "Processor" | "CPU")).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_processor_has_no_trade_marks() {
        assert_eq!(kind_of("processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Processor\n"), "Intel Xeon");
        assert_eq!(kind_of("model name\t: AMD EPYC\n"), "AMD EPYC");
        assert_eq!(kind_of(""), "?");
    }
}
