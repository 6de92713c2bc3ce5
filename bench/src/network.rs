//! A network of the run's own, where congestion control is what the run says (`--congestion`).
//!
//! On loopback nothing is lost and nothing is far away, so what a congestion control does there is only work. BBR paces: most
//! segments of a large response are sent by a timer, on whatever the core does then, and neither rate nor CPU time is the
//! server's any more.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, ErrorContext, Result};
use crate::process;

/// Set for the program in its own network.
const INSIDE: &str = "FREERUN_BENCH_NETWORK";

/// The congestion control of new connections of this network.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Goes on in a network namespace with the congestion control `name`: starts this program there in its own place, or, if it is
/// that already, sets the namespace up.
///
/// # Errors
/// Neither is possible; root may, where `unshare` and `ip` are installed.
pub fn enter(name: &str) -> Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        process::run(Path::new("ip"), &["link", "set", "lo", "up"], Path::new("/"))?;
        // Only what every network may use is taken here: not cubic, unless tcp_allowed_congestion_control names it.
        return fs::write(CONGESTION, name).doing(format!("{CONGESTION}: {name}"));
    }
    let program = std::env::current_exe().doing("find this program")?;
    let mut command = Command::new("unshare");
    let error = command.arg("--net").arg("--").arg(program).args(std::env::args_os().skip(1)).env(INSIDE, "1").exec();
    Err(Error::Setup(format!("--congestion needs unshare(1) and root: {error}")))
}

/// The properties of new connections.
pub fn congestion() -> String {
    fs::read_to_string(CONGESTION).unwrap_or_default().trim().to_owned()
}
