//! What probing costs: CPU time of the sending thread for a 4 MB file from the page cache to a socket on loopback.
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

use freerun_runtime::files::{Aio, Cursor, FileSystem, OpenFile, Sent};
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
    fs: Arc<FileSystem>,
    auto: Aio,
    waits: u64,
}

impl Bench {
    fn wait(&mut self) {
        self.waits += 1;
        let mut events = [PollFd::new(&self.out, PollFlags::OUT)];
        let _ = poll(&mut events, None);
    }

    fn plain(&mut self, file: &OpenFile) {
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

    fn probed(&mut self, file: &OpenFile) {
        let (mut offset, mut cursor) = (0, Cursor::default());
        while offset < LEN as u64 {
            let left = LEN as u64 - offset;
            match self.fs.send_now(file, &mut cursor, self.out.as_fd(), offset, left, &self.auto) {
                Ok(Sent::Bytes(n)) => offset += n,
                Ok(Sent::SocketFull) => self.wait(),
                // Evicted meanwhile: no matter here.
                Ok(Sent::NeedsPool) => self.plain(file),
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

fn report(name: &str, rounds: u32, round: impl FnMut(u32) -> Duration) -> Duration {
    let mut each: Vec<_> = (0..rounds).map(round).collect();
    each.sort_unstable();
    let median = each[each.len() / 2];
    println!("{name:<44} median {median:>10.1?}   p10 {:>10.1?}", each[each.len() / 10]);
    median
}

fn make(directory: &Path, name: &str) -> CString {
    let path = directory.join(name);
    std::fs::write(&path, vec![b'x'; LEN]).expect("a file in the directory");
    std::fs::File::open(&path).and_then(|file| file.sync_all()).expect("the file on the disk");
    CString::new(path.as_os_str().as_bytes()).expect("a path without NUL")
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(300);
    let directory = Path::new(&directory);
    let (hot, cold) = (make(directory, "freerun-probe-hot"), make(directory, "freerun-probe-cold"));
    let pool = ThreadPool::start(&PoolSpec::named("default")).expect("a pool");
    let new = || FileSystem::new(pool.clone()).expect("a mount table");
    let mut bench = Bench { out: sink(), fs: new(), auto: Aio::Auto(pool.clone()), waits: 0 };
    let open = |path: &CString| bench.fs.try_open_now(path, &Aio::Off).expect("never to the pool").expect("the file");
    let (hot_file, cold_file) = (open(&hot), open(&cold));
    bench.plain(&hot_file);
    println!("mount {} ({})", hot_file.mount().point(), hot_file.mount().fs_type());

    for _ in 0..2 {
        let plain = report("plain sendfile", rounds, |_| timed(|| bench.plain(&hot_file)));
        let reopened = |fs: &Arc<FileSystem>| fs.try_open_now(&hot, &Aio::Off).expect("inline").expect("the file");
        let dense = report("each page (a new mount)", rounds, |_| {
            bench.fs = new();
            let file = reopened(&bench.fs);
            timed(|| bench.probed(&file))
        });
        bench.fs = new();
        let file = reopened(&bench.fs);
        // Warm up, past the time in which what was found is trusted.
        let started = Instant::now();
        while started.elapsed() < Duration::from_millis(2500) {
            bench.probed(&file);
        }
        let warm = report("warm mount", rounds, |_| timed(|| bench.probed(&file)));
        let (mut cold_cpu, mut misses) = (Duration::ZERO, 0);
        let trusted = report("hot file while its mount misses", rounds, |_| {
            let _ = fadvise(cold_file.as_fd(), 0, None, Advice::DontNeed);
            let cold = bench.fs.try_open_now(&cold, &Aio::Off).expect("inline").expect("the file");
            cold_cpu += timed(|| {
                misses += u32::from(bench.fs.ready_prefix(&cold, &mut Cursor::default(), 0, LEN as u64) == 0);
            });
            timed(|| bench.probed(&file))
        });
        println!("  ({misses} misses; each cost {:.1?} of CPU)", cold_cpu / rounds);
        for (name, cost) in [("dense", dense), ("warm", warm), ("hot among misses", trusted)] {
            println!("  {name}: {:.3} times plain", cost.as_secs_f64() / plain.as_secs_f64());
        }
    }
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
    println!("waited for the socket {} times", bench.waits);
    for name in [hot, cold] {
        let _ = std::fs::remove_file(Path::new(std::ffi::OsStr::from_bytes(name.as_bytes())));
    }
}
