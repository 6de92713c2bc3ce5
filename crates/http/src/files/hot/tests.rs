use super::*;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use freerun_runtime::arrival_era;
use freerun_runtime::files::Aio;
use freerun_runtime::pool::{PoolSpec, ThreadPool};
use freerun_runtime::watch::watch_way;
use freerun_testkit::{TempDir, undisturbed};

fn file(folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, name).unwrap();
    path
}

/// Hot files, and the requests that they get.
struct Site {
    hot: HotFiles<&'static str>,
    files: Arc<FileSystem>,
    /// Whether ways are watched.
    watches: bool,
    /// Whether contents are read.
    reads: bool,
}

impl Site {
    fn new() -> Site {
        let pool = ThreadPool::start(&PoolSpec { name: "hot".to_owned(), threads: 1, max_queue: 8 }).unwrap();
        Site { hot: HotFiles::new(1), files: FileSystem::new(pool).unwrap(), watches: true, reads: true }
    }

    /// Whether the file is kept, as a request sees it.
    fn has(&mut self, path: &Path) -> bool {
        arrival_era::begin();
        self.hot.get(path.as_os_str().as_bytes(), Instant::now()).is_some()
    }

    /// What a request does that does not find the file.
    fn open(&mut self, path: &Path) {
        let name = path.as_os_str().as_bytes();
        let c_path = CString::new(name).unwrap();
        let moment = self.hot.moment();
        let file = self.files.try_open_now(&c_path, &Aio::Off).unwrap().unwrap();
        let opened = OpenedFile { path: &c_path, file: &file, can_be_asked: true, moment };
        let begun = self.hot.begin(name, &opened, &self.files, Instant::now());
        let place = if let HotLookup::Place(place) = begun { place } else { 0 };
        if let HotLookup::Way(wanted) = begun {
            let walked = self.watches.then(|| watch_way(&wanted.watcher, self.files.mount_table(), &wanted.path));
            self.hot.walked(wanted, walked);
        }
        let content = self.reads.then(|| fs::read(path).unwrap().into());
        self.hot.put(name, place, &Rc::new(HotFile::new(file, content)), Instant::now());
    }

    /// Opens the file until it is kept; returns how often.
    #[track_caller]
    fn keep(&mut self, path: &Path) -> u32 {
        for times in 0..100 {
            if self.has(path) {
                return times;
            }
            self.open(path);
        }
        panic!("it is not kept")
    }
}

#[test]
fn a_file_is_kept_from_the_second_request_on_until_something_changes() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-kept"), Site::new());
        let (a, b) = (file(&folder, "a"), file(&folder, "b"));
        assert_eq!(site.keep(&a), 3, "noted; its way is watched; kept");
        assert_eq!(site.keep(&b), 2, "the way is watched");
        fs::write(&a, "other").unwrap();
        assert!(!site.has(&a) && site.has(&b));
        assert_eq!((site.hot.bytes, site.hot.open), (1, 0));
        assert_eq!(site.keep(&a), 1);
        let aside = folder.path().with_extension("aside");
        fs::rename(folder.path(), &aside).unwrap();
        assert!(!site.has(&a) && !site.has(&b));
        fs::rename(&aside, folder.path()).unwrap();
        assert_eq!(site.hot.bytes, 0);
        site.keep(&a);
        assert!(!site.hot.is_empty());
        site.hot.retire();
        assert!(site.hot.is_empty() && !site.has(&a));
    });
}

#[test]
fn a_link_at_the_end_is_watched_with_its_way() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-link"), Site::new());
        fs::create_dir(folder.path().join("d")).unwrap();
        file(&folder, "d/a");
        let link = folder.path().join("l");
        symlink("d/a", &link).unwrap();
        site.keep(&link);
        fs::rename(folder.path().join("d"), folder.path().join("e")).unwrap();
        assert!(!site.has(&link));
        fs::rename(folder.path().join("e"), folder.path().join("d")).unwrap();
        site.keep(&link);
        symlink("none", folder.path().join("next")).unwrap();
        fs::rename(folder.path().join("next"), &link).unwrap();
        assert!(!site.has(&link));
    });
}

#[test]
fn what_changes_while_it_is_opened_is_not_kept() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-races"), Site::new());
        let (a, b) = (file(&folder, "a"), file(&folder, "b"));
        site.keep(&a);
        site.open(&b);
        let name = b.as_os_str().as_bytes();
        let c_path = CString::new(name).unwrap();
        let open = |site: &Site| site.files.try_open_now(&c_path, &Aio::Off).unwrap().unwrap();
        // Between opening and watching.
        let (moment, opened) = (site.hot.moment(), open(&site));
        fs::write(&b, "changed").unwrap();
        let as_opened = OpenedFile { path: &c_path, file: &opened, can_be_asked: true, moment };
        assert!(matches!(site.hot.begin(name, &as_opened, &site.files, Instant::now()), HotLookup::No));
        assert!(!site.hot.files.contains_key(name));
        // Between watching and keeping, with a look in between or without.
        for looks in [true, false] {
            let (moment, opened) = (site.hot.moment(), open(&site));
            let as_opened = OpenedFile { path: &c_path, file: &opened, can_be_asked: true, moment };
            let begun = site.hot.begin(name, &as_opened, &site.files, Instant::now());
            let HotLookup::Place(place) = begun else { panic!("it has no place") };
            fs::write(&b, "changed again").unwrap();
            if looks {
                site.has(&a);
                // Another request finds the file as it is now, and is about to keep it.
                let opened = open(&site);
                let as_opened = OpenedFile { path: &c_path, file: &opened, can_be_asked: true, moment };
                assert!(matches!(site.hot.begin(name, &as_opened, &site.files, Instant::now()), HotLookup::Place(_)));
            }
            site.hot.put(name, place, &Rc::new(HotFile::new(opened, None)), Instant::now());
            assert!(!site.has(&b), "{looks}");
        }
        assert!(site.has(&a));
        assert_eq!((site.hot.open, site.hot.bytes), (0, 1));
    });
}

#[test]
fn where_a_way_cannot_be_watched_settled_files_are_asked_about() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-asked"), Site::new());
        let a = file(&folder, "a");
        let name = a.as_os_str().as_bytes();
        site.open(&a);
        // What a way through another kind of file system gets.
        let c_path = CString::new(name).unwrap();
        let opened = site.files.try_open_now(&c_path, &Aio::Off).unwrap().unwrap();
        let as_opened =
            |can_be_asked| OpenedFile { path: &c_path, file: &opened, can_be_asked, moment: site.hot.moment() };
        let as_opened = [as_opened(true), as_opened(false)];
        let begun = site.hot.begin(name, &as_opened[0], &site.files, Instant::now());
        let HotLookup::Way(wanted) = begun else { panic!("its way is watched") };
        let mut walked = watch_way(&wanted.watcher, site.files.mount_table(), &wanted.path);
        walked.trouble = Some(rustix::io::Errno::XDEV);
        site.hot.walked(wanted, Some(walked));
        assert!(matches!(site.hot.begin(name, &as_opened[0], &site.files, Instant::now()), HotLookup::No));
        assert!(site.hot.files.is_empty(), "a file that was just made could change without another date");
        assert!(!opened.meta().is_settled());
        let old = fs::metadata("/proc/self/exe").unwrap().modified().unwrap();
        assert!(old < std::time::SystemTime::now());
    });
}

#[test]
fn descriptors_and_bytes_are_bounded() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-bounds"), Site::new());
        site.hot.max_open = 2;
        site.reads = false;
        let paths: Vec<PathBuf> = ["a", "b", "c"].into_iter().map(|name| file(&folder, name)).collect();
        site.keep(&paths[0]);
        site.keep(&paths[1]);
        for _ in 0..3 {
            site.open(&paths[2]);
        }
        assert!(!site.has(&paths[2]), "no more than two");
        site.reads = true;
        site.keep(&paths[2]);
        assert!(site.hot.close_files() && !site.hot.close_files());
        assert!(!site.has(&paths[0]) && site.has(&paths[2]));
        assert_eq!((site.hot.open, site.hot.bytes), (0, 1));
        let later = Instant::now() + VALID;
        assert!(site.hot.get(paths[2].as_os_str().as_bytes(), later).is_none(), "old");
        site.hot.purge(later);
        assert!(site.hot.files.is_empty() && !site.hot.is_empty(), "the way stays watched for a while");
        site.hot.purge(later + 10 * VALID);
        assert!(site.hot.is_empty());
    });
}

/// A stand-in for a location.
fn location(name: &'static str) -> LoopLocal<&'static str> {
    LoopLocal::new(Arc::new(name))
}

#[test]
fn a_path_is_known_in_its_location_for_as_long_as_the_file() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-known"), Site::new());
        let a = file(&folder, "a");
        let name = a.as_os_str().as_bytes();
        let (one, other) = (location("one"), location("other"));
        let html = || Bytes::from_static(b"text/html");
        site.hot.learn(&one, b"/a", name, html());
        assert!(site.hot.known(&one, b"/a").is_none(), "no such file is kept");
        site.keep(&a);
        site.hot.learn(&one, b"/a", name, html());
        assert!(site.hot.known(&one, b"/a").is_some_and(|known| known.media_type == html()));
        assert!(site.hot.known(&one, b"/b").is_none() && site.hot.known(&other, b"/a").is_none());
        fs::write(&a, "changed").unwrap();
        arrival_era::begin();
        assert!(site.hot.known(&one, b"/a").is_none(), "forgotten with the file");
        site.keep(&a);
        site.hot.learn(&one, b"/a", name, html());
        assert!(site.hot.known(&one, b"/a").is_some());
        site.hot.purge(Instant::now() + VALID);
        assert!(site.hot.known(&one, b"/a").is_none(), "old");
    });
}

#[test]
fn a_file_that_turned_out_to_be_another_is_forgotten_alone() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-forgotten"), Site::new());
        site.reads = false;
        let (a, b) = (file(&folder, "a"), file(&folder, "b"));
        site.keep(&a);
        site.keep(&b);
        let kept = site.hot.get(a.as_os_str().as_bytes(), Instant::now()).unwrap();
        let Content::Open(open) = &kept.file.content else { panic!("it has no content") };
        site.hot.forget(open);
        assert!(!site.has(&a) && site.has(&b));
    });
}

#[test]
fn the_ways_are_bounded_and_end_together() {
    undisturbed(|| {
        let (folder, mut site) = (TempDir::new("hot-many"), Site::new());
        let below = folder.path().join("below");
        let paths: Vec<PathBuf> = (0..800).map(|number| below.join(format!("{number}/a"))).collect();
        for (number, path) in paths.iter().enumerate() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
            (0..3).for_each(|_| site.open(path));
            if number % 400 == 399 {
                site.hot.purge(Instant::now() + VALID);
            }
        }
        assert!((700..=768).contains(&site.hot.watches.ways()), "{}", site.hot.watches.ways());
        site.keep(&paths[0]);
        fs::rename(&below, folder.path().join("elsewhere")).unwrap();
        assert!(!site.has(&paths[0]));
        assert!(site.hot.files.is_empty() && site.hot.watches.is_empty());
    });
}
