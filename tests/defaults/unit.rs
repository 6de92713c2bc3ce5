//! The shipped unit of systemd: the server works under what each of its directives does, and under all of them together.
//!
//! The directives are read from the file. One that is not known here fails the test: it needs a line about what it does.

use freerun_testkit::require;
use rustix::process::{Resource, Signal, getrlimit};

use crate::applications::{self, Protocol};
use crate::machine::{Layout, Machine, UNPRIVILEGED, port};

const UNIT: &str = include_str!("../../packaging/systemd/freerun.service");

/// What a directive of the unit does to the server.
#[derive(Clone, Debug, Default)]
struct Restriction {
    /// Lines of shell that make the mounts.
    mounts: String,
    /// Words before the command.
    under: Vec<String>,
}

fn mounts(lines: &str) -> Restriction {
    Restriction { mounts: lines.to_owned(), under: Vec::new() }
}

fn under(words: &[&str]) -> Restriction {
    Restriction { mounts: String::new(), under: words.iter().map(|word| (*word).to_owned()).collect() }
}

/// Makes folders read-only, as far as they are there.
fn read_only(folders: &str) -> Restriction {
    mounts(&format!(
        "for d in {folders}; do [ ! -d $d ] || {{ mount --rbind $d $d; mount -o remount,bind,ro $d; }}; done"
    ))
}

/// The restriction by one directive; `None`: it restricts nothing.
fn restriction(name: &str, value: &str) -> Option<Restriction> {
    Some(match (name, value) {
        (
            "Type" | "NotifyAccess" | "Environment" | "EnvironmentFile" | "ExecStartPre" | "ExecStart" | "ExecReload"
            | "KillSignal" | "KillMode" | "TimeoutStopSec" | "Restart" | "WatchdogSec",
            _,
        ) => return None,
        ("LimitNOFILE" | "LimitMEMLOCK", limit) => {
            let (resource, option) = match name {
                "LimitNOFILE" => (Resource::Nofile, "nofile"),
                _ => (Resource::Memlock, "memlock"),
            };
            let wanted = if limit == "infinity" { u64::MAX } else { limit.parse().expect("a number") };
            // A container may not let even root raise it.
            let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
            under(&["prlimit", &format!("--{option}={}", wanted.min(most))])
        }
        ("StateDirectory" | "LogsDirectory", "freerun nginx") => {
            mounts("[ -d /var/lib/nginx ] && [ -d /var/log/nginx ] && mkdir -p /var/lib/freerun /var/log/freerun")
        }
        ("CacheDirectory", "freerun") => mounts("mkdir -p /var/cache/freerun"),
        ("CapabilityBoundingSet", set) => {
            let names: Vec<String> = set
                .split_whitespace()
                .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
                .collect();
            let kept = format!("-all,{}", names.join(","));
            under(&["setpriv", "--bounding-set", &kept])
        }
        ("NoNewPrivileges", "true") => under(&["setpriv", "--no-new-privs"]),
        ("PrivateTmp", "true") => mounts("for d in /tmp /var/tmp; do mount -t tmpfs none $d; done"),
        ("PrivateDevices", "true") => mounts(
            "mkdir $T/dev; mkdir $T/dev/shm
             for d in null zero full random urandom; do touch $T/dev/$d; mount --bind /dev/$d $T/dev/$d; done
             ln -s /proc/self/fd $T/dev/fd; ln -s fd/1 $T/dev/stdout; ln -s fd/2 $T/dev/stderr
             mount --rbind $T/dev /dev",
        ),
        // What is mounted below the root is on a mount of its own and stays writable.
        ("ProtectSystem", "strict") => mounts(&format!(
            "for d in /run /var /srv; do [ ! -d $d ] || mount --rbind $d $d; done; mount -o remount,bind,ro /
             {}",
            read_only("/usr /boot /efi /etc /etc/nginx").mounts
        )),
        ("ReadWritePaths", "/run /var -/srv") => return None,
        ("ProtectHome", "read-only") => read_only("/home /root /run/user"),
        ("ProtectKernelTunables", "true") => read_only("/proc/sys /sys"),
        ("ProtectKernelModules", "true") => Restriction {
            mounts: "[ ! -d /usr/lib/modules ] || mount -t tmpfs none /usr/lib/modules".to_owned(),
            ..under(&["setpriv", "--bounding-set", "-sys_module"])
        },
        ("ProtectControlGroups", "true") => read_only("/sys/fs/cgroup"),
        ("ProtectProc", "invisible") => mounts("mount -t proc -o hidepid=invisible proc /proc"),
        // Nothing is mounted; clock, name of the machine and log of the kernel are out of reach without rights that the
        // bounding set does not have.
        ("PrivateMounts" | "ProtectClock" | "ProtectHostname" | "ProtectKernelLogs", "true")
        | ("SystemCallArchitectures", "native")
        | ("SystemCallErrorNumber", "EPERM") => return None,
        (
            "SystemCallFilter"
            | "RestrictAddressFamilies"
            | "RestrictNamespaces"
            | "RestrictRealtime"
            | "RestrictSUIDSGID"
            | "LockPersonality"
            | "MemoryDenyWriteExecute",
            _,
        ) => {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/defaults/restrict.py");
            under(&["/usr/bin/python3", script, &format!("{name}={value}"), "--"])
        }
        _ => panic!("what does {name}={value} do to the server?"),
    })
}

/// The directives of the section `[Service]`; those that are given several times are lists.
fn directives() -> Vec<(String, String)> {
    let section = UNIT.split("[Service]").nth(1).and_then(|rest| rest.split("\n[").next()).expect("the section");
    let mut directives: Vec<(String, String)> = Vec::new();
    for (name, value) in section.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('=')) {
        match directives.iter_mut().find(|(known, _)| known == name) {
            Some((_, values)) => *values += &format!(" {value}"),
            None => directives.push((name.to_owned(), value.to_owned())),
        }
    }
    directives
}

/// The binary serves, takes an upload, writes its logs, reloads and ends under this restriction.
fn works_under(what: &str, restriction: &Restriction) {
    // What is mounted for the test stays writable and in its place.
    let then = format!("mount --bind $T /mnt; T=/mnt\n{}", restriction.mounts);
    let Some(machine) = Machine::new(Layout::Debian, &then) else { return };
    if restriction.under.iter().any(|word| word.ends_with("restrict.py")) {
        let seccomp = std::process::Command::new("/usr/bin/python3").args(["-c", "import seccomp"]).output();
        if !require::need("python3-seccomp", seccomp.is_ok_and(|done| done.status.success()), "the module seccomp") {
            return;
        }
    }
    let port = port();
    let app = applications::start(Protocol::Http, 0);
    let site = |text: &str| {
        machine.site(&format!(
            "server {{ listen 127.0.0.1:{port}; location / {{ return 200 {text}; }}
                location /app {{ proxy_pass http://{app}; }}
                location ~ ^/([a-z]+)[0-9]+$ {{ return 200 $1; }} }}"
        ));
    };
    site("one");
    let words: Vec<&str> = restriction.under.iter().map(String::as_str).collect();
    // The unit has no restriction for it, so that it makes folders for the worker's user.
    let check = || {
        let checked = machine.freerun(&[], &["-t", "-q"]);
        assert!(checked.status.success(), "{what}: {}", String::from_utf8_lossy(&checked.stderr));
    };
    check();
    let mut server = machine.start(&words, &["-g", "daemon off;"], port);
    let body = vec![b'x'; 17 << 10];
    let head = format!("POST /app HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let response = server.connect().send([head.into_bytes(), body].concat()).response();
    assert_eq!((response.status, response.text()), (200, format!("{}\n", 17 << 10)), "{what}");
    assert_eq!(server.connect().get("/expression1").text(), "expression", "{what}");
    site("two");
    check();
    let reloaded = machine.freerun(&words, &["-s", "reload"]);
    assert!(reloaded.status.success(), "{what}: {}", String::from_utf8_lossy(&reloaded.stderr));
    assert_eq!(server.connect().get("/").text(), "two", "{what}");
    freerun_testkit::eventually("the access log", || machine.read("/var/log/nginx/access.log").contains("POST /app"));
    assert!(!server.error_log().contains("[alert]") && !server.error_log().contains("[emerg]"), "{what}");
    server.signal(Signal::QUIT);
    server.ends();
}

#[test]
fn the_server_works_under_each_directive_of_the_unit() {
    for (name, value) in directives() {
        if let Some(restriction) = restriction(&name, &value) {
            works_under(&format!("{name}={value}"), &restriction);
        }
    }
}

#[test]
fn the_server_works_under_all_directives_of_the_unit_together() {
    let mut all = Restriction::default();
    for (name, value) in directives() {
        let one = restriction(&name, &value).unwrap_or_default();
        all.mounts += &format!("{}\n", one.mounts);
        all.under.extend(one.under);
    }
    works_under("all", &all);
}

#[test]
fn the_server_works_in_a_read_only_root_with_the_listed_folders() {
    works_under("a read-only root", &mounts("mount -o remount,bind,ro /"));
}

#[test]
fn the_server_works_without_any_capability() {
    let Some(machine) = Machine::debian() else { return };
    let port = port();
    let home = machine.home();
    let app = applications::start(Protocol::Http, 0);
    let file = format!("{home}/nginx.conf");
    let text = format!(
        "pid {home}/pid; error_log {home}/error.log; events {{}}
        http {{ access_log {home}/access.log; client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
            server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://{app}; }} }} }}"
    );
    std::fs::write(&file, text).expect("a configuration");
    let bare = [&UNPRIVILEGED[..], &["--bounding-set", "-all", "--inh-caps", "-all", "--no-new-privs"]].concat();
    let mut server = machine.start(&bare, &["-c", &file, "-g", "daemon off;"], port);
    let body = vec![b'x'; 17 << 10];
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    assert_eq!(server.connect().send([head.into_bytes(), body].concat()).response().text(), format!("{}\n", 17 << 10));
    assert!(machine.freerun(&bare, &["-c", &file, "-s", "reload"]).status.success());
    server.signal(Signal::QUIT);
    server.ends();
}

#[test]
fn systemd_understands_the_unit() {
    let Some(analyze) = require::program("systemd-analyze") else { return };
    let dir = freerun_testkit::TempDir::new("unit");
    // Only the program is not where a package would have it.
    let program = crate::machine::program();
    for name in ["freerun.service", "freerun.socket"] {
        let from = format!("{}/../packaging/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(from).expect("the unit").replace("/usr/sbin/freerun", &program);
        std::fs::write(dir.path().join(name), text).expect("a unit");
    }
    let done = std::process::Command::new(analyze)
        .arg("verify")
        .arg("--man=no")
        .arg(dir.path().join("freerun.service"))
        .output()
        .expect("systemd-analyze");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("freerun")).collect();
    assert_eq!(about_it, Vec::<&str>::new());
}

#[test]
fn the_unit_gives_away_what_the_server_does_not_need() {
    let Some(analyze) = require::program("systemd-analyze") else { return };
    let unit = format!("{}/../packaging/systemd/freerun.service", env!("CARGO_MANIFEST_DIR"));
    // Tenths: 0 is a service that may do nothing, 100 one that may do everything.
    let arguments = ["security", "--no-pager", "--offline=true", "--threshold=25"];
    let done = std::process::Command::new(analyze).args(arguments).arg(unit).output().expect("systemd-analyze");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}
