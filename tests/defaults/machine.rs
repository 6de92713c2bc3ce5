//! A machine of one's own: mount namespaces in which the folders of Debian's nginx package belong to one test.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use freerun_testkit::{TempDir, TestClient, binary, eventually, ports, require};
use rustix::process::{Pid, Signal, kill_process};

/// The user and the group without rights, as `setpriv` takes them.
pub const UNPRIVILEGED: [&str; 6] = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"];

/// The pid files of the tests' configurations.
const PID_FILES: [&str; 2] = ["/run/nginx.pid", "/home/pid"];

/// What the image of nginx's container has in addition to [`Layout::Container`]: its user and its main configuration.
const IMAGE: &str = "cp /etc/passwd /etc/group $T/
    echo nginx:x:101:101::/nonexistent:/bin/false >> $T/passwd
    echo nginx:x:101: >> $T/group
    mount --bind $T/passwd /etc/passwd
    mount --bind $T/group /etc/group
    cat > /etc/nginx/nginx.conf <<'END'
user nginx;
worker_processes auto;
error_log /var/log/nginx/error.log notice;
pid /run/nginx.pid;
events { worker_connections 1024; }
http {
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    log_format main '$remote_addr [$time_local] \"$request\" $status';
    access_log /var/log/nginx/access.log main;
    sendfile on;
    keepalive_timeout 65;
    include /etc/nginx/conf.d/*.conf;
}
END";

/// A running process that holds the namespaces, and the folders that are mounted there. Dropping it ends everything in them.
pub struct Machine {
    dir: TempDir,
    holder: Child,
    layout: Layout,
}

/// The kind of a machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// What Debian's package nginx-common has installed; `/usr` is read-only.
    Debian,
    /// `/etc/nginx` of nginx's container image, without the folders of Debian's package.
    Container,
}

impl Machine {
    /// Debian's file tree. `None`: this is not possible here, which is printed.
    pub fn debian() -> Option<Machine> {
        Machine::new(Layout::Debian, "")
    }

    /// The file tree of nginx's container image, which these lines of shell have changed. `None` as for
    /// [`Machine::debian`].
    pub fn image(then: &str) -> Option<Machine> {
        Machine::new(Layout::Container, &format!("{IMAGE}\n{then}"))
    }

    /// One machine of each layout; none if this is not possible here.
    pub fn each() -> impl Iterator<Item = Machine> {
        [Machine::debian, || Machine::image("")].into_iter().filter_map(|machine| machine())
    }

    /// A file tree that these lines of shell have changed: `$T` is the folder with what is mounted.
    pub fn new(layout: Layout, then: &str) -> Option<Machine> {
        Machine::hold(&["-m"], layout, then)
    }

    /// The same with a network of its own, in which every port is free.
    pub fn with_network(layout: Layout) -> Option<Machine> {
        Machine::hold(&["-m", "-n"], layout, "ip link set lo up")
    }

    fn hold(namespaces: &[&str], layout: Layout, then: &str) -> Option<Machine> {
        let files = Path::new("/etc/nginx/nginx.conf").is_file();
        if !require::freerun()
            || !require::root()
            || !require::need("nginx-common", files, "no files of Debian's nginx in /etc/nginx")
        {
            return None;
        }
        let dir = TempDir::new("machine");
        let script = format!("set -e\n{}\n{then}\ntouch $T/ready\nexec sleep infinity\n", layout.script());
        fs::write(dir.path().join("script"), script).expect("the script");
        let holder = Command::new("unshare")
            .args(namespaces)
            .args(["--propagation", "private", "sh"])
            .arg(dir.path().join("script"))
            .env("T", dir.path())
            .stdin(Stdio::null())
            .spawn()
            .expect("unshare");
        let mut machine = Machine { dir, holder, layout };
        eventually("the file tree is there", || {
            let ended = machine.holder.try_wait().ok().flatten();
            assert!(ended.is_none(), "the file tree could not be made: {ended:?}");
            machine.dir.path().join("ready").exists()
        });
        Some(machine)
    }

    /// The path outside of the namespaces of what has the path `inside` in them: a file of `/etc/nginx`, `/var/lib/nginx`,
    /// `/var/log/nginx` or `/run`.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside.trim_start_matches('/'))
    }

    /// The layout of its file tree.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Makes a folder that belongs to this user, and returns its path, which is the same outside.
    pub fn folder_of(&self, user: &str, inside: &str) -> String {
        let path = self.path(inside);
        fs::create_dir_all(&path).expect("a folder");
        let path = path.display().to_string();
        let owned = self.run(&[], &["chown", user, &path]);
        assert!(owned.status.success(), "{}", String::from_utf8_lossy(&owned.stderr));
        path
    }

    /// A folder of the user without rights: its path, which is the same outside.
    pub fn home(&self) -> String {
        self.folder_of("nobody", "/home")
    }

    /// The content of a file.
    pub fn read(&self, inside: &str) -> String {
        fs::read(self.path(inside)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Adds a file to `/etc/nginx`, in the place of the site that Debian enables.
    pub fn site(&self, text: &str) -> &Machine {
        let _ = fs::remove_file(self.path("/etc/nginx/sites-enabled/default"));
        fs::create_dir_all(self.path("/etc/nginx/conf.d")).expect("conf.d");
        fs::write(self.path("/etc/nginx/conf.d/case.conf"), text).expect("the site");
        self
    }

    /// A command in the namespaces, run by `under` (such as [`UNPRIVILEGED`]), if that has words.
    pub fn command(&self, under: &[&str], words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id()));
        command.arg(format!("--net=/proc/{}/ns/net", self.holder.id()));
        command.arg("--").args(under).args(words).env("T", self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, under: &[&str], words: &[&str]) -> Output {
        self.command(under, words).output().unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs freerun to its end.
    pub fn freerun(&self, under: &[&str], arguments: &[&str]) -> Output {
        let program = program();
        let words: Vec<&str> = std::iter::once(program.as_str()).chain(arguments.iter().copied()).collect();
        self.run(under, &words)
    }

    /// Starts freerun in the foreground, and waits until the port takes connections.
    pub fn start(&self, under: &[&str], arguments: &[&str], port: u16) -> Running<'_> {
        let program = program();
        let words: Vec<&str> = std::iter::once(program.as_str()).chain(arguments.iter().copied()).collect();
        let file = |name: &str| fs::File::create(self.dir.path().join(name)).expect("a file");
        let mut command = self.command(under, &words);
        let child = command.stdout(file("stdout")).stderr(file("stderr")).spawn().expect("nsenter");
        let mut running = Running { machine: self, child, port };
        eventually("the server listens", || {
            let ended = running.child.try_wait().ok().flatten();
            assert!(ended.is_none(), "{ended:?}: {}", running.stderr());
            // Signals have their usual meaning once the pid file is there.
            let has_pid_file = PID_FILES.iter().any(|path| self.read(path).ends_with('\n'));
            has_pid_file && TcpStream::connect(running.address()).is_ok()
        });
        running
    }

    /// Starts freerun with the tree's own `/etc/nginx/nginx.conf`.
    pub fn serve(&self, port: u16) -> Running<'_> {
        self.start(&[], &["-g", "daemon off;"], port)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A daemon is no child of the test.
        let daemon = self.read("/run/nginx.pid").trim().parse().ok().and_then(Pid::from_raw);
        if let Some(pid) = daemon {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A server on a machine; dropping it ends it.
pub struct Running<'m> {
    machine: &'m Machine,
    child: Child,
    port: u16,
}

impl Running<'_> {
    /// The address of its port.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// A new connection.
    pub fn connect(&self) -> TestClient {
        TestClient::connect(self.address())
    }

    /// What it wrote to standard error.
    pub fn stderr(&self) -> String {
        self.machine.read("/stderr")
    }

    /// The error log of `/etc/nginx/nginx.conf`.
    pub fn error_log(&self) -> String {
        match self.machine.layout {
            Layout::Debian => self.machine.read("/var/log/nginx/error.log"),
            Layout::Container => self.stderr(),
        }
    }

    /// Waits until the error log has this text.
    pub fn logs(&self, text: &str) {
        eventually(&format!("{text:?} in the error log"), || self.error_log().contains(text));
    }

    /// Sends the master a signal.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it has ended.
    pub fn ends(&mut self) {
        eventually("the server ends", || self.child.try_wait().ok().flatten().is_some());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- stderr\n{}--- error.log\n{}", self.stderr(), self.error_log());
        }
        self.signal(Signal::TERM);
        if self.child.try_wait().ok().flatten().is_none() {
            self.ends();
        }
    }
}

/// The path of the binary.
pub fn program() -> String {
    binary::freerun().expect("the binary").display().to_string()
}

/// A free port.
pub fn port() -> u16 {
    ports::free()
}

impl Layout {
    /// The user that the worker runs as by `/etc/nginx/nginx.conf`.
    pub fn user(self) -> &'static str {
        match self {
            Layout::Debian => "www-data",
            Layout::Container => "nginx",
        }
    }

    /// The lines that make the tree in `$T` and mount it.
    fn script(self) -> &'static str {
        match self {
            Layout::Debian => {
                "mkdir -p $T/etc $T/var/lib/nginx $T/var/log/nginx $T/run
                 chgrp adm $T/var/log/nginx
                 cp -a /etc/nginx $T/etc/nginx
                 mount --bind $T/etc/nginx /etc/nginx
                 mount --bind $T/var/lib/nginx /var/lib/nginx
                 mount --bind $T/var/log/nginx /var/log/nginx
                 mount --bind $T/run /run
                 mount --bind /usr /usr
                 mount -o remount,bind,ro /usr"
            }
            Layout::Container => {
                "mkdir -p $T/etc/nginx/conf.d $T/var/lib $T/var/log/nginx $T/run $T/var/cache/nginx
                 cp -a /etc/nginx/mime.types /etc/nginx/*_params $T/etc/nginx/
                 ln -s /dev/stdout $T/var/log/nginx/access.log
                 ln -s /dev/stderr $T/var/log/nginx/error.log
                 mount --bind $T/etc/nginx /etc/nginx
                 mount --bind $T/var/lib /var/lib
                 mount --bind $T/var/log/nginx /var/log/nginx
                 mount --bind $T/var/cache /var/cache
                 mount --bind $T/run /run"
            }
        }
    }
}
