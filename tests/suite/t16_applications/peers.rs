//! The applications, started.

use std::path::Path;
use std::process::Command;

use freerun_testkit::{Application, TempDir, ports, require};

/// Where the applications' own files are.
fn file(name: &str) -> String {
    format!("{}/suite/t16_applications/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// An address that is free: a port, or a Unix socket in the folder.
fn address(unix: bool, dir: &Path) -> String {
    if unix { format!("unix:{}/socket", dir.display()) } else { format!("127.0.0.1:{}", ports::free()) }
}

fn program(name: &str) -> Option<Command> {
    require::program(name).map(Command::new)
}

/// php-fpm with four processes. Scripts are those of the folder of [`scripts`].
pub fn php(unix: bool) -> Option<Application> {
    let mut command = program("php-fpm8.2")?;
    let dir = TempDir::new("php");
    let address = address(unix, dir.path());
    let listen = address.trim_start_matches("unix:");
    let user = if rustix::process::geteuid().is_root() { "user = root\ngroup = root" } else { "" };
    let folder = dir.path().display();
    let text = format!(
        "[global]\nerror_log = {folder}/fpm.log\ndaemonize = no\n[www]\n{user}\nlisten = {listen}\nlisten.mode = 0666\n\
         pm = static\npm.max_children = 4\nphp_admin_flag[log_errors] = on\nphp_admin_flag[display_errors] = off\n\
         php_admin_value[post_max_size] = 64M\nphp_admin_value[upload_max_filesize] = 64M\n\
         php_admin_value[upload_tmp_dir] = {folder}\nphp_admin_value[sys_temp_dir] = {folder}\n"
    );
    let config = dir.path().join("fpm.conf");
    std::fs::write(&config, text).expect("the configuration");
    command.arg("-R").arg("-F").arg("-y").arg(config);
    Some(Application::start(command, &address, dir))
}

/// The folder with `app.php`.
pub fn scripts() -> String {
    file("").trim_end_matches('/').to_owned()
}

/// uWSGI with `app.py`, which speaks `protocol`: `uwsgi`, `scgi`, `fastcgi`.
pub fn uwsgi(protocol: &str, unix: bool) -> Option<Application> {
    let mut command = require::program_of("uwsgi", &["uwsgi", "uwsgi-core"]).map(Command::new)?;
    let dir = TempDir::new("uwsgi");
    let address = address(unix, dir.path());
    let option = if protocol == "uwsgi" { "--socket".to_owned() } else { format!("--{protocol}-socket") };
    command.args([
        "--plugin",
        "python3",
        "--master",
        "--need-app",
        "--die-on-term",
        "--processes",
        "2",
        "--threads",
        "4",
    ]);
    // By itself it gives up on a body of which nothing has come for 4 seconds, however busy the machine is.
    command.arg("--socket-timeout=3600");
    command.args(["--chmod-socket=666", "--wsgi-file", &file("app.py"), &option, address.trim_start_matches("unix:")]);
    Some(Application::start(command, &address, dir))
}

/// memcached, empty.
pub fn memcached() -> Option<Application> {
    let mut command = program("memcached")?;
    let dir = TempDir::new("memcached");
    let port = ports::free();
    command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-U", "0", "-m", "16"]);
    if rustix::process::geteuid().is_root() {
        command.args(["-u", "root"]);
    }
    Some(Application::start(command, &format!("127.0.0.1:{port}"), dir))
}

/// Node with `server.js`.
pub fn node() -> Option<Application> {
    script(program("node")?, "server.js")
}

/// Debian's Python with `websocket.py`.
pub fn websocket() -> Option<Application> {
    let python = Path::new("/usr/bin/python3");
    let there = Path::new("/usr/lib/python3/dist-packages/websockets").exists() && python.exists();
    if !require::need("python3-websockets", there, "no python3-websockets") {
        return None;
    }
    script(Command::new(python), "websocket.py")
}

fn script(mut command: Command, name: &str) -> Option<Application> {
    let port = ports::free();
    command.arg(file(name)).arg(port.to_string());
    Some(Application::start(command, &format!("127.0.0.1:{port}"), TempDir::new("script")))
}
