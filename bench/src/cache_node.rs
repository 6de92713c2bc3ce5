//! The seed's second configuration, "a caching proxy that caches all responses from your backends" over three disks.
//! How much is left of the other disks' hits when one disk does not answer any more?

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::cgroup::{ControlGroup, Limits};
use crate::client::Client;
use crate::disks::MountedDisk;
use crate::error::{Error, ErrorContext, Result};
use crate::interrupt::{self, pause};
use crate::origin::{Origin, ask_all};
use crate::process::Placement;
use crate::report::{Goal, Report, Table};
use crate::servers::Server;
use crate::spec::{Kind, Spec};
use crate::stats::{Series, short_or_nothing};
use crate::status;
use crate::wrk::{self, Target, WrkLoad, WrkOutcome};

/// Bytes of each object.
const OBJECT: u64 = 100_000;
/// Bytes of each file system; what is not written takes up nothing.
const DISK: u64 = 1_000_000_000;
/// Connections that ask for objects of the first two disks, one after the other; and of the third, each request at its time.
const CONNECTIONS: (usize, usize) = (32, 64);
/// Requests a second for objects of the third disk.
const RATE: f64 = 200.0;
/// The time that a client of the third disk waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes a second that the throttled disk gives.
const NOTHING: u64 = 1;
/// Seconds for which clients request objects of the third disk before the others are measured.
const SETTLE: f64 = 3.0;

/// The seed's text. Of it are changed: the mount points, the address of the backend and the one to listen on; freerun's
/// status is added.
const SEED: &str = "
# in the 'main' context
thread_pool pool_1 threads=16;
thread_pool pool_2 threads=16;
thread_pool pool_3 threads=16;

events { worker_connections 4096; }

http {
    @TEMPORARY@
    access_log off;
    keepalive_requests 1000000000;
    upstream backend { server @ORIGIN@; }

    proxy_cache_path @MNT@/disk1 levels=1:2 keys_zone=cache_1:256m max_size=1024G
                     use_temp_path=off;
    proxy_cache_path @MNT@/disk2 levels=1:2 keys_zone=cache_2:256m max_size=1024G
                     use_temp_path=off;
    proxy_cache_path @MNT@/disk3 levels=1:2 keys_zone=cache_3:256m max_size=1024G
                     use_temp_path=off;

    split_clients $request_uri $disk {
        33.3%     1;
        33.3%     2;
        *         3;
    }

    server {
        listen @ADDRESS@;
        @STATUS@
        location / {
            proxy_pass http://backend;
            proxy_cache_key $request_uri;
            proxy_cache cache_$disk;
            aio threads=pool_$disk;
            sendfile on;
        }
    }
}
";

/// The figures of one server in one round.
struct NodeFigures {
    alone: WrkOutcome,
    with: WrkOutcome,
    /// Requests for objects of the third disk that were answered, a second: before, and when it was throttled.
    third: (f64, f64),
    stalls: Option<u64>,
}

/// Runs the benchmark.
pub fn run(bench: &Bench) -> Result<Report> {
    let (rounds, seconds) = (bench.options.runs(3), bench.options.seconds(4.0, 10.0).ceil());
    let objects = if bench.options.quick { 150 } else { 900 };
    for number in 0..objects {
        bench.scratch.file(&path(number), OBJECT)?;
    }
    let (server_cores, client_cores) = bench.machine.pair();
    let origin = Origin::start(bench, &client_cores, "expires 1d;\n")?;
    let mut report = Report {
        name: "cache-node",
        method: format!(
            "The seed's second configuration; mount points, the backend's address and `listen` are filled in. Three ext4 file systems (images on \
             loop devices), {objects} objects of 100 KB spread over them by `split_clients`, all stored, then mounted anew, so that nothing of \
             the third is in memory. {} connections ask for objects of the first two (in memory), while objects of the third are asked for {RATE} \
             times a second (at most {} at once). Then the third is throttled to {NOTHING} byte a second in both directions, other objects of it are \
             asked for at the same pace, and the first two are measured again. One worker on one core, origin and clients on the other; {rounds} \
             rounds of {seconds} s, a fresh server each.",
            CONNECTIONS.0, CONNECTIONS.1
        ),
        ..Report::default()
    };
    let head = [
        "server",
        "requests/s",
        "third disk throttled",
        "kept %",
        "p50 ms",
        "p99 ms",
        "of the third disk, answered/s",
        "throttled",
        "stalls",
    ];
    let mut table = Table::new("", &head);
    for kind in [Kind::Nginx, Kind::Freerun] {
        let mut spec = Spec::new(kind, "", &bench.scratch.folder("data")?);
        if !bench.options.wants(&spec.name) {
            continue;
        }
        let mount = bench.scratch.folder("mounts")?;
        spec.whole = Some(
            SEED.replace("@ORIGIN@", &origin.address().to_string()).replace("@MNT@", &mount.display().to_string()),
        );
        let mut shown = Vec::new();
        for round in 0..rounds {
            match one(bench, &spec, &origin, objects, seconds, (&server_cores, &client_cores)) {
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => report.notes.push(format!("{} not measured in round {round}: {error}", spec.name)),
                Ok(one) => shown.push(one),
            }
        }
        let series = |figure: &dyn Fn(&NodeFigures) -> f64| shown.iter().map(figure).collect::<Series>();
        let kept = series(&|one| one.with.rate() / one.alone.rate() * 100.0);
        if kind == Kind::Freerun {
            report.goals.push(Goal::at_least(
                "hits of the other disks keep at least 90 % of their rate",
                kept.median(),
                90.0,
            ));
        }
        let stalls = shown.iter().filter_map(|one| one.stalls.map(|count| count as f64)).collect::<Series>();
        table.row(vec![
            spec.name.clone(),
            series(&|one| one.alone.rate()).cell(),
            series(&|one| one.with.rate()).cell(),
            kept.cell(),
            series(&|one| one.with.p50_ms).cell(),
            series(&|one| one.with.p99_ms).cell(),
            series(&|one| one.third.0).cell(),
            series(&|one| one.third.1).cell(),
            short_or_nothing(stalls.max()),
        ]);
    }
    report.tables.push(table);
    Ok(report)
}

fn path(number: usize) -> String {
    format!("o/{number}.bin")
}

fn one(
    bench: &Bench,
    spec: &Spec,
    origin: &Origin,
    objects: usize,
    seconds: f64,
    (server_cores, client_cores): (&[usize], &[usize]),
) -> Result<NodeFigures> {
    let mut disks: Vec<MountedDisk> =
        (1..=3).map(|number| MountedDisk::make(bench, &format!("disk{number}"), DISK)).collect::<Result<_>>()?;
    let wanted = |number: usize| format!("/{}", path(number));
    let plain = Placement { cores: server_cores.to_vec(), cgroups: Vec::new() };
    let server = Server::start(bench, spec, &plain)?;
    let failed = ask_all(server.address, 16, objects, wanted)?;
    // What is stored behind the answers gets the time for it.
    pause(Duration::from_secs(2))?;
    let (failed, asked) = origin.during(|| Ok(failed + ask_all(server.address, 16, objects, wanted)?))?;
    if failed > 0 || asked > 0 {
        return Err(Error::Failed(format!("{failed} requests failed, {asked} of {objects} objects were not stored")));
    }
    server.stop();
    let on: Vec<Vec<String>> = disks.iter().map(|disk| stored(&disk.path)).collect::<Result<_>>()?;
    if on.iter().any(Vec::is_empty) {
        return Err(Error::Failed(format!("objects on the disks: {:?}", on.iter().map(Vec::len).collect::<Vec<_>>())));
    }
    disks.iter_mut().try_for_each(MountedDisk::remount)?;

    // Far more than it needs: only the third disk is to be throttled, later.
    let limits = Limits { memory: 8 << 30, read_bytes: 1 << 40, read_ios: 1 << 30 };
    let group =
        ControlGroup::create(&format!("freerun-bench-{}-node", std::process::id()), &limits, disks[2].device()?)?;
    let placement = Placement { cores: server_cores.to_vec(), cgroups: group.entries() };
    let server = Server::start(bench, spec, &placement)?;
    let working: Vec<String> = [&on[0][..], &on[1][..]].concat();
    if ask_all(server.address, 4, working.len() * 2, |number| working[number % working.len()].clone())? > 0 {
        return Err(Error::Failed("objects of the disks that work are not answered".into()));
    }
    let hits = WrkLoad {
        threads: 1,
        connections: CONNECTIONS.0,
        seconds,
        target: Target::List("working", working),
        close: false,
        cores: client_cores.to_vec(),
    };
    let (before, throttled) = on[2].split_at(on[2].len() / 2);
    let (alone, third) = measure(bench, &server, &hits, before)?;
    group.throttle(disks[2].device()?, Some(NOTHING))?;
    // From here on the throttle has to go before the server can end.
    let measured = measure(bench, &server, &hits, throttled);
    let stalls = status::of(&server).and_then(|status| status.stalls);
    group.throttle(disks[2].device()?, None)?;
    pause(Duration::from_millis(500))?;
    server.stop();
    let (with, throttled) = measured?;
    bench.say(&format!(
        "{:16} {:.0}/s and {third:.0}/s; with a disk throttled {:.0}/s (p99 {:.1} ms) and {throttled:.0}/s",
        spec.name,
        alone.rate(),
        with.rate(),
        with.p99_ms
    ));
    drop(group);
    Ok(NodeFigures { alone, with, third: (third, throttled), stalls })
}

/// The hits of the first two disks, while objects of the third are asked for; and how many of those are answered a second.
fn measure(bench: &Bench, server: &Server, hits: &WrkLoad, third: &[String]) -> Result<(WrkOutcome, f64)> {
    let length = Duration::from_secs_f64(SETTLE + hits.seconds);
    let (next, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let begin = Instant::now();
    let folder = bench.scratch.folder("servers")?;
    let outcome = std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS.1 {
            scope.spawn(|| ask_in_time(server, third, (begin, length), &next, &answered));
        }
        pause(Duration::from_secs_f64(SETTLE))?;
        wrk::run(bench.wrk()?, &folder, server.address, hits)
    })?;
    Ok((outcome, answered.into_inner() as f64 / length.as_secs_f64()))
}

/// Asks for one of the paths after the other, each when it is due.
fn ask_in_time(
    server: &Server,
    paths: &[String],
    (begin, length): (Instant, Duration),
    next: &AtomicUsize,
    answered: &AtomicUsize,
) {
    let mut client = None;
    while interrupt::check().is_ok() {
        let number = next.fetch_add(1, Relaxed);
        let due = Duration::from_secs_f64(number as f64 / RATE);
        if due >= length || begin.elapsed() >= length {
            return;
        }
        std::thread::sleep(due.saturating_sub(begin.elapsed()));
        let kept = client.take().map_or_else(|| Client::connect(server.address, None, PATIENCE), Ok);
        let asked = kept.and_then(|mut kept: Client| Ok((kept.get(&paths[number % paths.len()])?, kept)));
        if let Ok((reply, kept)) = asked {
            answered.fetch_add(usize::from(reply.status == 200), Relaxed);
            client = (!reply.closes).then_some(kept);
        }
    }
}

/// The targets of the objects stored below `folder`: both servers keep the key's text in front.
fn stored(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).doing(folder.display())? {
            let entry = entry.doing(folder.display())?;
            if entry.file_type().doing(folder.display())?.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().len() == 32 {
                use std::io::Read as _;
                let mut head = Vec::new();
                let file = std::fs::File::open(entry.path()).doing(folder.display())?;
                file.take(1024).read_to_end(&mut head).doing(folder.display())?;
                found.extend(target(&head));
            }
        }
    }
    Ok(found)
}

/// The object's target in the head of a stored file.
fn target(head: &[u8]) -> Option<String> {
    let begin = head.windows(3).position(|three| three == b"/o/")?;
    let len = head[begin..].windows(4).position(|four| four == b".bin")? + 4;
    String::from_utf8(head[begin..begin + len].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_is_found_in_the_head_of_a_stored_file() {
        assert_eq!(target(b"\0\x01\nKEY: /o/17.bin\nHTTP/1.1 200 OK\r\n").as_deref(), Some("/o/17.bin"));
        assert_eq!(target(b"nothing"), None);
    }
}
