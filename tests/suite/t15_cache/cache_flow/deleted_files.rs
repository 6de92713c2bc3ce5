//! Files of a cache that another program removes, replaces or damages: the way in which most people purge a cache.

use std::fs;
use std::path::PathBuf;

use freerun_cache::key::{Key, Levels};
use freerun_testkit::{AnsweringUpstream, Setup, Site, TestServer, TestUpstream, eventually, require};

use super::{ok, said, settled, until_open};

/// Larger than what is kept in memory.
const LARGE: usize = 100_000;

/// An origin whose answer has a number of its own, and for `/large` many bytes.
fn origin(fields: &'static str) -> AnsweringUpstream {
    let count = std::sync::atomic::AtomicUsize::new(0);
    TestUpstream::answering(move |request| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        let length = if request.target().starts_with("/large") { LARGE } else { 0 };
        ok(fields, format!("{number} {}", "x".repeat(length)))
    })
}

struct Purged {
    server: TestServer,
    levels: &'static str,
}

impl Purged {
    fn new(origin: &AnsweringUpstream, levels: &'static str, parameters: &str, lines: &str) -> Purged {
        let option = if levels.is_empty() { String::new() } else { format!("levels={levels}") };
        let address = origin.address();
        let setup = Setup::server(
            &Site::new(),
            &format!(
                "location = /status {{ proxy_cache off; status; }}
                 location / {{ proxy_pass http://{address}; proxy_cache_key $uri$slice_range; {lines} }}"
            ),
        )
        .http(&format!(
            "proxy_cache_path @DIR@/cache {option} keys_zone=z:1m inactive=60m {parameters}; proxy_cache z;
             add_header X-Cache $upstream_cache_status always;"
        ));
        let server = setup.freerun();
        until_open(&server);
        Purged { server, levels }
    }

    /// How the response came to be, and its number.
    fn get(&self, target: &str) -> (String, String) {
        let (how, text) = said(&self.server.get(target));
        (how, text.split(' ').next().unwrap_or_default().to_owned())
    }

    fn file(&self, target: &str) -> PathBuf {
        let levels = Levels::parse(self.levels).expect("levels");
        self.server.path("cache").join(levels.file_name(Key::of(target.as_bytes())))
    }

    /// Stores responses, and uses them often enough to have them in memory.
    fn store(&self, targets: &[&str]) {
        for target in targets {
            self.server.get(target);
        }
        settled(&self.server);
        for target in targets.iter().chain(targets) {
            assert_eq!(self.get(target).0, "HIT", "{target}");
        }
    }
}

#[track_caller]
fn empty(folder: &std::path::Path) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => fs::remove_dir_all(path).expect("removing"),
            path => fs::remove_file(path).expect("removing"),
        }
    }
}

#[test]
fn a_file_that_is_removed_is_not_served_from_memory() {
    if !require::freerun() {
        return;
    }
    for (levels, parameters) in [("", ""), ("1:2", ""), ("2:2", ""), ("1:2", "use_temp_path=off"), ("1:2", "memory=0")]
    {
        let origin = origin("Cache-Control: max-age=1000");
        let cache = Purged::new(&origin, levels, parameters, "");
        let targets = ["/a", "/b", "/large"];
        cache.store(&targets);
        for target in ["/a", "/large"] {
            let (_, before) = cache.get(target);
            fs::remove_file(cache.file(target)).expect("a file");
            let (how, after) = cache.get(target);
            assert_eq!(how, "MISS", "{target} with levels={levels} {parameters}");
            assert_ne!(before, after);
            assert_eq!(cache.get(target), ("HIT".into(), after), "it is stored anew");
        }
        assert_eq!(cache.get("/b").0, "HIT", "no other object is concerned");
        settled(&cache.server);
        assert!(cache.file("/a").exists(), "the file is there again");
    }
}

#[test]
fn a_cache_whose_folder_is_emptied_or_removed_begins_anew() {
    if !require::freerun() {
        return;
    }
    for levels in ["", "1:2", "2:2"] {
        let origin = origin("Cache-Control: max-age=1000");
        let cache = Purged::new(&origin, levels, "", "");
        let targets = ["/a", "/b", "/large"];
        let folder = cache.server.path("cache");
        cache.store(&targets);
        empty(&folder);
        for target in targets {
            assert_eq!(cache.get(target).0, "MISS", "{target} with levels={levels}");
        }
        cache.store(&targets);
        fs::remove_dir_all(&folder).expect("removing");
        for target in targets {
            assert_eq!(cache.get(target).0, "MISS", "{target} with levels={levels}");
        }
        settled(&cache.server);
        fs::create_dir(&folder).expect("a folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&folder, mode).expect("permissions");
        for target in targets {
            assert_eq!(cache.get(target).0, "MISS", "{target} with levels={levels}");
        }
        cache.store(&targets);
        // A folder that is moved away is noticed with the next look at the file, within a second.
        fs::rename(&folder, cache.server.path("away")).expect("renaming");
        for target in targets {
            eventually("another answer", || cache.get(target).0 == "MISS");
        }
    }
}

#[test]
fn a_file_that_was_replaced_or_damaged_is_not_served() {
    if !require::freerun() {
        return;
    }
    let origin = origin("Cache-Control: max-age=1000");
    let cache = Purged::new(&origin, "1:2", "", "");
    let targets = ["/a", "/large"];
    type Change = fn(&Purged, &str);
    let changes: [(&str, Change); 6] = [
        ("emptied", |cache, target| fs::write(cache.file(target), "").expect("writing")),
        ("made shorter", |cache, target| {
            let file = fs::File::options().write(true).open(cache.file(target)).expect("a file");
            file.set_len(file.metadata().expect("a file").len() - 1).expect("truncating");
        }),
        ("rewritten", |cache, target| {
            let bytes = fs::read(cache.file(target)).expect("a file");
            fs::write(cache.file(target), vec![b'#'; bytes.len()]).expect("writing");
        }),
        ("replaced by a copy", |cache, target| {
            let copy = cache.server.path("copy");
            fs::copy(cache.file(target), &copy).expect("copying");
            fs::rename(copy, cache.file(target)).expect("renaming");
        }),
        ("renamed", |cache, target| {
            fs::rename(cache.file(target), cache.server.path("renamed")).expect("renaming");
        }),
        ("replaced by a folder", |cache, target| {
            fs::remove_file(cache.file(target)).expect("removing");
            fs::create_dir(cache.file(target)).expect("a folder");
            fs::remove_dir(cache.file(target)).expect("removing");
        }),
    ];
    for (change, make) in changes {
        for target in targets {
            cache.server.get(target);
            settled(&cache.server);
            assert_eq!(cache.get(target).0, "HIT");
            make(&cache, target);
            let response = cache.server.get(target);
            assert_eq!(said(&response).0, "MISS", "{target} was {change}");
            assert_eq!(response.body.len() > LARGE, target == "/large", "{target} is whole after it was {change}");
        }
    }
    let log = cache.server.error_log();
    assert!(log.contains("its file is damaged: it was replaced or rewritten by another program"), "{log}");
}

#[test]
fn a_removed_file_is_gone_for_head_ranges_and_stale_answers() {
    if !require::freerun() {
        return;
    }
    let origin = origin("Cache-Control: max-age=1000");
    let cache = Purged::new(&origin, "1:2", "", "");
    cache.store(&["/a"]);
    fs::remove_file(cache.file("/a")).expect("a file");
    let mut client = cache.server.connect();
    client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(said(&client.response_to("HEAD")).0, "MISS");
    settled(&cache.server);
    cache.store(&["/a"]);
    fs::remove_file(cache.file("/a")).expect("a file");
    assert_eq!(said(&cache.server.get_with("/a", "Range: bytes=0-0\r\n")).0, "MISS");

    // It is stale at once, and may be used while it is fetched anew.
    let origin = self::origin("Cache-Control: max-age=1, stale-while-revalidate=1000, stale-if-error=1000");
    let lines = "proxy_cache_background_update on; proxy_cache_use_stale updating error;";
    let cache = Purged::new(&origin, "1:2", "", lines);
    cache.server.get("/a");
    eventually("it is stale", || cache.get("/a").0 == "STALE");
    settled(&cache.server);
    eventually("it is stale again", || {
        let (how, _) = cache.get("/a");
        settled(&cache.server);
        how == "STALE"
    });
    fs::remove_file(cache.file("/a")).expect("a file");
    assert_eq!(cache.get("/a").0, "MISS");
}

#[test]
fn a_removed_file_is_noticed_after_a_reload() {
    if !require::freerun() {
        return;
    }
    let origin = origin("Cache-Control: max-age=1000");
    let cache = Purged::new(&origin, "1:2", "", "");
    cache.store(&["/a", "/b"]);
    cache.server.reload();
    assert_eq!(cache.get("/a").0, "HIT");
    fs::remove_file(cache.file("/a")).expect("a file");
    assert_eq!((cache.get("/a").0, cache.get("/b").0), ("MISS".into(), "HIT".into()));
}
