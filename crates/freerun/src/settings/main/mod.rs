//! Directives of the main level.

use std::time::Duration;

use freerun_conf::{Cx, Many, Node, Offset, Place, Problem, Shape, Value, keyword_enum, settings};

use super::affinity::Affinity;
use super::load_module::LoadModule;
use super::user::UserSetting;
use crate::paths;

/// The most event loops of a worker.
pub const MAX_LOOPS: usize = 1024;

/// The most threads of one pool; the pool itself enforces the same limit.
const MAX_POOL_THREADS: u32 = 1024;

/// `worker_processes`: how many event loops the worker has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loops {
    /// A loop for each processor that this process may use.
    Auto,
    /// The number of loops, at least 1.
    Number(usize),
}

impl Loops {
    /// The number, with `auto` resolved.
    pub fn count(self) -> usize {
        match self {
            Loops::Auto => std::thread::available_parallelism().map_or(1, usize::from).min(MAX_LOOPS),
            Loops::Number(number) => number.clamp(1, MAX_LOOPS),
        }
    }
}

impl Value for Loops {
    const SHAPE: Shape = Shape::exactly(1, "number | auto");

    fn parse(node: &Node, _: &mut Cx) -> Result<Loops, Problem> {
        let word = &node.args[0];
        if word.text == "auto" {
            return Ok(Loops::Auto);
        }
        match word.text.parse::<usize>() {
            Ok(number) if number > MAX_LOOPS => Err(Problem::directive(node, "invalid value")
                .at(word.place)
                .hint(format!("a worker has at most {MAX_LOOPS} event loops"))),
            Ok(number) if word.text.bytes().all(|b| b.is_ascii_digit()) => Ok(Loops::Number(number)),
            _ => Err(Problem::directive(node, "invalid value").at(word.place)),
        }
    }
}

/// `worker_priority`, a value as for nice(1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority(pub i32);

impl Value for Priority {
    const SHAPE: Shape = Shape::exactly(1, "number");

    fn parse(node: &Node, _: &mut Cx) -> Result<Priority, Problem> {
        let word = &node.args[0];
        let digits = word.text.strip_prefix(['-', '+']).unwrap_or(&word.text);
        match word.text.parse::<i32>() {
            Ok(number) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(Priority(number)),
            _ => Err(Problem::directive(node, "invalid number").at(word.place)),
        }
    }
}

/// `env`: a variable that the worker keeps, or is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The variable's name.
    pub name: String,
    /// The variable's value; `None` to keep the value that the master was started with.
    pub value: Option<String>,
}

impl Value for Variable {
    const SHAPE: Shape = Shape::exactly(1, "variable[=value]");

    fn parse(node: &Node, _: &mut Cx) -> Result<Variable, Problem> {
        let word = &node.args[0];
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.text.as_str(), None),
        };
        if name.is_empty() || word.text.contains('\0') {
            return Err(Problem::invalid_parameter(node, word));
        }
        Ok(Variable { name: name.to_owned(), value })
    }
}

/// A `thread_pool` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The pool's name.
    pub name: String,
    /// The most threads of the pool.
    pub threads: usize,
    /// The most tasks that wait.
    pub max_queue: usize,
}

/// The names of the pools so far and their places, for nginx's message about a second one.
#[derive(Default)]
struct PoolNames(Vec<(String, Place)>);

impl Value for Pool {
    const SHAPE: Shape = Shape::between(2, 3, "name threads=number [max_queue=number]");

    fn parse(node: &Node, cx: &mut Cx) -> Result<Pool, Problem> {
        let name = node.args[0].text.clone();
        let names = cx.extensions.get_or_default::<PoolNames>();
        let place = node.args[0].place;
        let built_in = [freerun_runtime::pool::CPU_NAME, freerun_runtime::pool::HANDSHAKES_NAME];
        let first = match names.0.iter().find(|(known, _)| *known == name) {
            Some((_, first)) => Some(*first),
            None => built_in.contains(&name.as_str()).then_some(Place::NONE),
        };
        if let Some(first) = first {
            return Err(Problem::new(format!("duplicate thread pool \"{name}\"")).at(place).first_at(first));
        }
        names.0.push((name.clone(), place));
        let mut pool = Pool { name, threads: 0, max_queue: freerun_runtime::pool::DEFAULT_MAX_QUEUE };
        for word in &node.args[1..] {
            if let Some(number) = word.text.strip_prefix("threads=") {
                let threads = number.parse::<u32>().ok().filter(|threads| (1..=MAX_POOL_THREADS).contains(threads));
                pool.threads = threads.ok_or_else(|| {
                    Problem::new(format!("invalid threads value \"{}\"", word.text))
                        .at(word.place)
                        .hint(format!("it must be a number from 1 to {MAX_POOL_THREADS}"))
                })? as usize;
            } else if let Some(number) = word.text.strip_prefix("max_queue=") {
                let queue = number.parse::<u32>().ok().filter(|_| number.bytes().all(|b| b.is_ascii_digit()));
                pool.max_queue = queue
                    .ok_or_else(|| Problem::new(format!("invalid max_queue value \"{}\"", word.text)).at(word.place))?
                    as usize;
            } else {
                let ignored = format!("parameter \"{}\" of \"thread_pool\" has no effect", word.text);
                cx.warn(Problem::warning(ignored).at_node(node).at(word.place));
            }
        }
        if pool.threads == 0 {
            return Err(Problem::directive(node, "must have \"threads\" parameter"));
        }
        Ok(pool)
    }
}

/// A path of the main level, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSetting(pub String);

impl Value for PathSetting {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(node: &Node, _: &mut Cx) -> Result<PathSetting, Problem> {
        let word = &node.args[0];
        if word.text.is_empty() || word.text.contains('\0') {
            return Err(Problem::invalid_value(node, word));
        }
        Ok(PathSetting(word.text.clone()))
    }
}

keyword_enum! {
    /// The action of nginx when one of its internal checks fails.
    pub enum DebugPoints {
        /// Stop for a debugger.
        Stop = "stop",
        /// Write a core file.
        Abort = "abort",
    }
}

keyword_enum! {
    /// The limits that a worker sets for itself.
    pub enum SandboxMode {
        /// Calls that a server does not need fail.
        On = "on",
        /// The rights of the user are the only limit.
        Off = "off",
        /// Calls that a server does not need do their work, and the kernel logs them.
        Log = "log",
    }
}

settings! {
    /// Processes, rights and limits.
    #[module = "main"]
    pub struct MainSettings {
        /// Whether the server becomes a daemon.
        ///
        /// With `off` it stays in the foreground, as service managers and containers like it. The command that starts
        /// a daemon returns when the server answers requests (nginx's returns when its sockets are bound).
        daemon: bool = "on", in MAIN;
        /// Whether there is a master process besides the worker.
        ///
        /// With `off` one process does both: it keeps the rights it was started with.
        master_process: bool = "on", in MAIN;
        /// The user, and the group if it differs in name, that the worker runs as.
        ///
        /// Only a master started as root can change it. Without the directive the worker runs as `nobody`.
        user: Option<UserSetting>, in MAIN;
        /// Number of event loops of the worker.
        ///
        /// In nginx these are processes; here they are threads of one worker process. A reload may change the number.
        /// Connections of a loop that is not needed any more go to the others between two requests; the loop ends with
        /// its last request or session. The limits of the process stay as at its start.
        worker_processes: Loops = "1", in MAIN,
            fidelity = Differs("threads of one process");
        /// The processors each event loop is bound to, as masks of zeros and ones, or `auto`.
        worker_cpu_affinity: Option<Affinity>, in MAIN;
        /// The scheduling priority of the worker; a lower number is a higher priority.
        worker_priority: Option<Priority>, in MAIN;
        /// Number of descriptors that each event loop may have open.
        ///
        /// The worker's RLIMIT_NOFILE becomes this number times the number of event loops, as one process does the work
        /// of nginx's several. Without the directive the soft limit is raised as far as needed and allowed.
        worker_rlimit_nofile: Option<u32>, in MAIN,
            fidelity = Differs("the limit is shared by the event loops of one process, and 64 at least");
        /// Largest core file the worker may write (RLIMIT_CORE).
        worker_rlimit_core: Option<Offset>, in MAIN;
        /// The longest time that a worker goes on while it shuts down gracefully; then its connections are closed.
        ///
        /// It is the time of everything that the worker does, whatever the protocol. After a reload it is the time for which
        /// tunnels (WebSocket, CONNECT) of the configuration before go on.
        worker_shutdown_timeout: Option<Duration>, in MAIN,
            fidelity = Differs("after a reload only tunnels are ended, not requests that are running, nor connections between two requests, which use the new configuration at once");
        /// The worker's current folder.
        working_directory: Option<PathSetting>, in MAIN;
        /// The file that holds the master's process id, or `off` for none.
        ///
        /// It appears, complete, when the server answers requests. While there are two masters, because the binary is being
        /// changed (`USR2`), the old one's file has `.oldbin` behind its name.
        pid: Option<PathSetting>, in MAIN;
        /// The prefix of lock files.
        lock_file: Option<PathSetting>, in MAIN,
            fidelity = NoEffect("freerun needs no lock files");
        /// An environment variable that the worker keeps, or gets with this value. All others but TZ are removed. The same is
        /// true of a new binary (`USR2`).
        env: Many<Variable>, in MAIN;
        /// A named pool of threads for work that may wait.
        ///
        /// Threads are made as needed, up to `threads`. When all are busy, up to `max_queue` tasks wait (65536 unless
        /// said otherwise; 0: none); beyond that a request is answered with 503. The pool `default` is always there,
        /// with 32 threads unless defined.
        thread_pool: Many<Pool>, in MAIN;
        /// Whether regular expressions known at start are compiled to machine code.
        pcre_jit: bool = "off", in MAIN,
            fidelity = NoEffect("regular expressions are always compiled to machine code where the processor allows");
        /// Whether the worker gives up, before it serves, what it does not need.
        ///
        /// It always gives up the rights of the master, and with them the chance to gain rights by executing a program
        /// (`no_new_privs`). With `on`, these limits are added:
        ///
        /// - `bounding_set`: the capability bounding set is empty.
        /// - `dumps`: its memory goes into no core file, and other processes of its user cannot read it. With
        ///   `worker_rlimit_core` this limit is left out.
        /// - `calls`: it makes only the system calls that a server needs (seccomp). It can execute no program, and make,
        ///   trace or kill no process. It can load no module, mount nothing, change no clock, and open no raw socket.
        ///   Memory that it could write does not become executable. Any other call fails, and the error log names it
        ///   (level `alert`).
        /// - `files`: it executes no file, makes no device, and changes no files but its own (Landlock, Linux 5.19 and
        ///   later). Its own are in the folders of temporary files, caches, certificates by ACME, states, and logs with
        ///   variables in their names, and in the folder above each of these. With `dav_methods`, `proxy_store` and
        ///   its kin it may change files anywhere, as symbolic links may lead out of a root. It reads what its user
        ///   may read.
        ///
        /// If a reload needs further folders, a new worker takes over, and the old one finishes its requests. The error
        /// log says so (level `notice`).
        ///
        /// With `log`, system calls beyond the list do their work, and the kernel logs them (audit, or `dmesg`). The other
        /// limits are left out.
        ///
        /// A limit that the kernel does not have is left out, too. The error log names it at start (level `warn`; `notice` for
        /// the bounding set, which needs `CAP_SETPCAP`), and `status` shows all under `sandbox`. A worker without a process
        /// of its own (`master_process off`, `freerun serve`) has no sandbox. Another value takes effect when a worker is
        /// started.
        worker_sandbox: SandboxMode = "on", in MAIN, fidelity = Own;
        /// The interval at which nginx asks the kernel for the time.
        timer_resolution: Option<Duration>, in MAIN,
            fidelity = NoEffect("reading the clock costs no system call");
        /// A module of nginx in a file of its own.
        ///
        /// No code is loaded, and the file need not exist. The line is accepted for modules whose function is built in.
        /// With a warning it is accepted for known modules that do nothing without directives of their own; any other
        /// is refused.
        load_module: Many<LoadModule>, in MAIN,
            fidelity = Differs("nothing is loaded: modules are known by the names of their files");
        /// Whether files of certificates and keys that have not been modified since are not read again for the next
        /// configuration.
        ///
        /// A file counts as modified when it is another one (its inode) or when it has another time of modification.
        ssl_object_cache_inheritable: bool = "on", in MAIN, since = "1.27.4";
        /// Whether packets of QUIC find the worker process that has their connection.
        quic_bpf: bool = "off", in MAIN, since = "1.25.0",
            fidelity = NoEffect("packets always find their connection's event loop, and no rights are needed for that");
        /// The action of nginx when one of its internal checks fails.
        debug_points: Option<DebugPoints>, in MAIN, fidelity = NoEffect("there are no such points");
    }
}

impl MainSettings {
    /// The pid file's path; `None` for `off`.
    pub fn pid_path(&self, prefix: &str) -> Option<String> {
        match &self.pid {
            None => Some(paths::join(prefix, paths::PID_PATH)),
            Some(PathSetting(path)) if path == "off" => None,
            Some(PathSetting(path)) => Some(paths::join(prefix, path)),
        }
    }
}

#[cfg(test)]
mod tests;
