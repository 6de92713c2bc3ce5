//! Measures the cost of probing: the CPU time of the sending thread for a 4 MB file from the page cache to a socket on
//! loopback.
//!
//! `cargo run --release -p freerun-runtime --example probe_cost [DIRECTORY] [ROUNDS]`

use std::ffi::CString;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use freerun_runtime::files::{Aio, Cursor, FileSystem, OpenFile, SendResult};
use freerun_runtime::pool::{PoolSpec, Tag, ThreadPool};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Advice, fadvise};
use rustix::time::{ClockId, clock_gettime};

const LEN: usize = 4_000_000;

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn sink() -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
    let ours = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (mut theirs, _) = listener.accept().expect("the other end");
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while theirs.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    ours.set_nonblocking(true).expect("a mode of sockets");
    ours
}

struct Bench {
    out: TcpStream,
    auto: Aio,
}

impl Bench {
    fn wait(&self) {
        let mut events = [PollFd::new(&self.out, PollFlags::OUT)];
        let _ = poll(&mut events, None);
    }

    fn plain(&self, file: &OpenFile) {
        let mut offset = 0;
        while offset < LEN as u64 {
            let left = LEN - offset as usize;
            match rustix::fs::sendfile(&self.out, file.as_fd(), Some(&mut offset), left) {
                Ok(_) => {}
                Err(rustix::io::Errno::AGAIN) => self.wait(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn probed(&self, fs: &FileSystem, file: &OpenFile) {
        let (mut offset, mut cursor) = (0, Cursor::default());
        while offset < LEN as u64 {
            let left = LEN as u64 - offset;
            match fs.send_now(file, &mut cursor, self.out.as_fd(), offset, left, &self.auto) {
                Ok(SendResult::Bytes(n)) => offset += n,
                Ok(SendResult::SocketFull) => self.wait(),
                // The page was evicted meanwhile: this round is not counted.
                Ok(SendResult::NeedsPool) => return self.plain(file),
                outcome => panic!("{outcome:?}"),
            }
        }
    }
}

fn timed(work: impl FnOnce()) -> Duration {
    let before = cpu();
    work();
    cpu() - before
}

fn make(directory: &Path, name: &str) -> CString {
    let path = directory.join(name);
    std::fs::write(&path, vec![b'x'; LEN]).expect("a file in the directory");
    std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("the file on the disk");
    CString::new(path.as_os_str().as_bytes()).expect("a path without NUL")
}

fn open(fs: &FileSystem, path: &CString) -> Arc<OpenFile> {
    fs.try_open_now(path, &Aio::Off).expect("never to the pool").expect("the file")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(500);
    let directory = Path::new(&directory);
    let (hot, cold) = (make(directory, "freerun-probe-hot"), make(directory, "freerun-probe-cold"));
    let pool = ThreadPool::start(&PoolSpec::named("default")).expect("a pool");
    let new = || FileSystem::new(pool.clone()).expect("a mount table");
    let bench = Bench { out: sink(), auto: Aio::Auto(pool.clone()) };

    let (warm, missing) = (new(), new());
    let (warm_hot, missing_hot) = (open(&warm, &hot), open(&missing, &hot));
    println!("{LEN} bytes from {} ({})", warm_hot.mount().point(), warm_hot.mount().fs_type());
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(2500) {
        bench.probed(&warm, &warm_hot);
    }
    let mut figures: [Vec<Duration>; 6] = Default::default();
    let mut misses = 0;
    // The variants take turns, so that other work of the machine affects all alike.
    for _ in 0..rounds {
        figures[0].push(timed(|| bench.plain(&warm_hot)));
        figures[1].push(timed(|| bench.probed(&warm, &warm_hot)));
        let mut miss = || {
            let file = open(&missing, &cold);
            let _ = fadvise(file.as_fd(), 0, None, Advice::DontNeed);
            timed(|| {
                let out = bench.out.as_fd();
                let sent = missing.send_now(&file, &mut Cursor::default(), out, 0, LEN as u64, &bench.auto);
                misses += u32::from(sent == Ok(SendResult::NeedsPool));
            })
        };
        miss();
        figures[5].push(timed(|| bench.plain(&missing_hot)));
        figures[4].push(miss());
        figures[2].push(timed(|| bench.probed(&missing, &missing_hot)));
        let fresh = new();
        let fresh_hot = open(&fresh, &hot);
        figures[3].push(timed(|| bench.probed(&fresh, &fresh_hot)));
    }
    let names = [
        "plain sendfile",
        "warm mount",
        "hot file, its mount missing",
        "each page",
        "a miss",
        "plain sendfile after a miss",
    ];
    figures.iter_mut().for_each(|figures| figures.sort_unstable());
    let plain = figures[0][rounds / 2].as_secs_f64();
    for (name, figures) in names.iter().zip(&figures) {
        let (p10, median) = (figures[rounds / 10], figures[rounds / 2]);
        println!("{name:<30} p10 {p10:>9.1?}  median {median:>9.1?}  {:.3} of plain", median.as_secs_f64() / plain);
    }
    println!("{misses} of {} cold probes missed", 2 * rounds);

    let quiet = tokio::runtime::Builder::new_current_thread().build().expect("a loop");
    let mut hops: Vec<_> = (0..rounds * 10)
        .map(|_| {
            let before = Instant::now();
            quiet.block_on(pool.run(Tag::default(), || ())).expect("an answer");
            before.elapsed()
        })
        .collect();
    hops.sort_unstable();
    println!("a hop to the pool and back: p50 {:.1?}, p99 {:.1?}", hops[hops.len() / 2], hops[hops.len() * 99 / 100]);
    for name in [hot, cold] {
        let _ = std::fs::remove_file(Path::new(std::ffi::OsStr::from_bytes(name.as_bytes())));
    }
}
