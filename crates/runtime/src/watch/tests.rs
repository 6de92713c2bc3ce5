use std::fs;
use std::os::unix::fs::symlink;

use freerun_testkit::{TempDir, undisturbed};

use super::*;
use crate::mounts::Mounts;

fn bytes(path: &std::path::Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes()
}

fn look(watcher: &Watcher, tell: impl FnMut(FileChange<'_>)) {
    if let Some(news) = watcher.news() {
        watcher.take_news(news, tell);
    }
}

/// Whether the way, or the file at its end, has changed since the last call.
fn changed(watcher: &Watcher, way: &WatchedPath, file: Option<i32>) -> bool {
    let mut changed = false;
    look(watcher, |change| {
        changed |= match change {
            FileChange::Name(watch, name) => way.names.iter().any(|(of, own)| *of == watch && **own == *name),
            FileChange::Itself(watch) => way.folders.contains(&watch) || file == Some(watch),
            FileChange::Anything => true,
        };
    });
    changed
}

fn here() -> Arc<Mounts> {
    Mounts::fixed(&fs::read("/proc/self/mountinfo").unwrap())
}

#[test]
fn every_change_of_a_way_is_seen_when_it_is_complete() {
    undisturbed(|| {
        let folder = TempDir::new("watch-way");
        fs::create_dir_all(folder.path().join("releases/1/html")).unwrap();
        fs::create_dir_all(folder.path().join("releases/2/html")).unwrap();
        symlink("releases/1", folder.path().join("current")).unwrap();
        fs::write(folder.path().join("releases/1/html/a"), "one").unwrap();
        let watcher = Watcher::new().unwrap();
        let path = folder.path().join("current/html");
        let watched = || {
            let walked = watch_way(&watcher, &here(), bytes(&path));
            assert_eq!(walked.trouble, None);
            walked.way
        };
        let way = watched();
        assert!(way.end.is_some());
        assert!(!changed(&watcher, &way, None));
        // What does not concern the way.
        fs::write(folder.path().join("releases/new"), "x").unwrap();
        fs::remove_file(folder.path().join("releases/new")).unwrap();
        assert!(!changed(&watcher, &way, None));
        // The link is switched as deployments do it.
        symlink("releases/2", folder.path().join("next")).unwrap();
        fs::rename(folder.path().join("next"), folder.path().join("current")).unwrap();
        assert!(changed(&watcher, &way, None));
        let way = watched();
        fs::rename(folder.path().join("releases/2"), folder.path().join("releases/3")).unwrap();
        assert!(changed(&watcher, &way, None));
        fs::rename(folder.path().join("releases/3"), folder.path().join("releases/2")).unwrap();
        let way = watched();
        changed(&watcher, &way, None);
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(folder.path().join("releases/2/html"), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(changed(&watcher, &way, None));
        fs::rename(folder.path().join("releases"), folder.path().join("elsewhere")).unwrap();
        assert!(changed(&watcher, &way, None));
    });
}

#[test]
fn every_change_of_a_file_is_seen_when_it_is_complete() {
    undisturbed(|| {
        use std::io::Write;
        use std::os::unix::fs::PermissionsExt;
        let folder = TempDir::new("watch-file");
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "one").unwrap();
        let watcher = Watcher::new().unwrap();
        let none = WatchedPath::default();
        let changes: [&dyn Fn(); 8] = [
            &|| fs::write(&path, "two").unwrap(),
            &|| fs::File::options().append(true).open(&path).unwrap().write_all(b"more").unwrap(),
            &|| fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap(),
            &|| fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap(),
            &|| fs::hard_link(&path, &other).unwrap(),
            // Through another name than the one that was opened.
            &|| fs::write(&other, "three").unwrap(),
            &|| fs::remove_file(&path).unwrap(),
            &|| fs::rename(&other, &path).unwrap(),
        ];
        let open = fs::File::open(&path).unwrap();
        let watch = watcher.add_file(&open).unwrap();
        for (number, change) in changes.iter().enumerate() {
            assert!(!changed(&watcher, &none, Some(watch)), "{number}");
            change();
            assert!(changed(&watcher, &none, Some(watch)), "{number}");
        }
        // Another file takes its name.
        fs::write(&other, "four").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(changed(&watcher, &none, Some(watch)));
        watcher.remove(watch);
        changed(&watcher, &none, None);
        let again = watcher.add_file(&open).unwrap();
        assert_ne!(watch, again, "numbers of watches are not used again");
    });
}

#[test]
fn ways_that_cannot_be_watched_are_known() {
    undisturbed(|| {
        let folder = TempDir::new("watch-no-way");
        symlink("loop", folder.path().join("loop")).unwrap();
        symlink("/proc/self", folder.path().join("proc")).unwrap();
        fs::write(folder.path().join("file"), "x").unwrap();
        let watcher = Watcher::new().unwrap();
        let trouble = |path: &str| watch_way(&watcher, &here(), bytes(&folder.path().join(path))).trouble;
        assert_eq!(trouble("loop"), Some(Errno::LOOP));
        assert_eq!(trouble("none"), Some(Errno::NOENT));
        assert_eq!(trouble("file/x"), Some(Errno::NOTDIR));
        assert_eq!(trouble("proc"), Some(Errno::XDEV));
        let walked = watch_way(&watcher, &here(), bytes(&folder.path().join("file")));
        assert_eq!((walked.trouble, walked.way.end), (None, None));
        assert_eq!(watch_way(&watcher, &here(), b"relative").trouble, Some(Errno::INVAL));
    });
}

#[test]
fn more_changes_than_the_queue_holds_are_anything() {
    undisturbed(|| {
        let folder = TempDir::new("watch-many");
        let watcher = Watcher::new().unwrap();
        let file = fs::File::create(folder.path().join("a")).unwrap();
        let other = fs::File::create(folder.path().join("b")).unwrap();
        watcher.add_file(&file).unwrap();
        watcher.add_file(&other).unwrap();
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        // Equal changes in a row are one.
        for _ in 0..limit.trim().parse::<usize>().unwrap() {
            file.set_len(0).unwrap();
            other.set_len(0).unwrap();
        }
        let mut anything = false;
        look(&watcher, |change| anything |= change == FileChange::Anything);
        assert!(anything);
        let mut more = 0;
        look(&watcher, |_| more += 1);
        assert_eq!(more, 0);
    });
}
