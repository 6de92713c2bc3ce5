use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use proptest::prelude::*;

use freerun_testkit::TempDir;

use super::line::{JournalKind, LINE, Line, Title};
use super::*;
use crate::index::About;
use crate::rules::Lifetime;

fn entry(number: u64) -> Arc<Entry> {
    let lifetime = Lifetime { fresh_until: number, ..Lifetime::default() };
    let key = Key::of(&number.to_le_bytes());
    let about = About { key, main: key, size: number * 10, sequence: number, lifetime };
    Arc::new(Entry::new(&about, number * 10, 1))
}

/// The objects in the journal: keys and sizes.
fn read(folder: &Path) -> (LoadedJournal, BTreeMap<Key, u64>) {
    let mut found = BTreeMap::new();
    let loaded = load(folder, |line| match line {
        Line::Stored(stored) => drop(found.insert(stored.key, stored.size)),
        Line::Removed { key, .. } => drop(found.remove(key)),
        Line::Title(_) => panic!("the head is no line"),
    });
    (loaded, found)
}

fn expected(numbers: impl IntoIterator<Item = u64>) -> BTreeMap<Key, u64> {
    numbers.into_iter().map(|number| (entry(number).key(), number * 10)).collect()
}

fn open(folder: &Path) -> Journal {
    let (loaded, _) = read(folder);
    Journal::open(folder, &loaded)
}

/// Makes a journal with a snapshot of 1 to 5 and a log in which 6 and 7 are stored and 1 is removed.
fn example(folder: &Path) {
    let mut journal = open(folder);
    assert!(journal.begin_snapshot((1..=5).map(entry).collect(), 9));
    while journal.step() {}
    journal.stored(&entry(6));
    journal.removed(entry(1).key(), 1);
    journal.stored(&entry(7));
    assert!(journal.end());
}

#[test]
fn what_was_written_is_read() {
    let folder = TempDir::new("whole");
    let (loaded, found) = read(folder.path());
    assert_eq!(loaded, LoadedJournal { intact: true, first: 1, next: 1, ..LoadedJournal::default() });
    assert!(found.is_empty());
    example(folder.path());
    let (loaded, found) = read(folder.path());
    assert!(loaded.exists && loaded.intact && loaded.clean);
    assert_eq!((loaded.sequence, loaded.lines), (9, 3));
    // The heads are counted, too.
    assert_eq!(lines(folder.path()), 5 + 3 + 2);
    assert_eq!(found, expected(2..=7));
    // Another process opens it: without an end in order it is not clean, and all objects are there.
    let mut journal = open(folder.path());
    assert_eq!(read(folder.path()).1, found);
    journal.removed(entry(2).key(), 2);
    journal.flush();
    drop(journal);
    let (loaded, found) = read(folder.path());
    assert!(loaded.intact && !loaded.clean);
    assert_eq!(found, expected(3..=7));
}

#[test]
fn a_snapshot_takes_the_place_of_logs() {
    let folder = TempDir::new("snapshot");
    let mut journal = open(folder.path());
    for number in 1..=20_000 {
        journal.stored(&entry(number));
    }
    assert!(journal.begin_snapshot((1..=20_000).map(entry).collect(), 1));
    assert!(journal.is_busy() && journal.step());
    // Meanwhile the cache works on.
    journal.removed(entry(1).key(), 1);
    journal.removed(entry(20_000).key(), 1);
    journal.stored(&entry(20_001));
    journal.flush();
    let half_way = read(folder.path()).1;
    while journal.step() {}
    let (loaded, found) = read(folder.path());
    assert!(loaded.intact);
    assert_eq!(found, expected((2..20_000).chain([20_001])));
    assert_eq!((half_way, loaded.lines), (found, 3));
    assert_eq!((loaded.first, loaded.next), (2, 3));
    assert!(!log_path(folder.path(), 1).exists());
}

#[test]
fn what_cannot_be_written_is_made_good_by_a_snapshot() {
    let folder = TempDir::new("broken");
    let mut journal = open(folder.path());
    journal.stored(&entry(1));
    journal.flush();
    // The disk goes away.
    journal.file = None;
    journal.stored(&entry(2));
    journal.flush();
    assert!(journal.is_broken() && journal.wants_snapshot(2));
    journal.stored(&entry(3));
    for _ in 0..100 {
        let _ = fs::create_dir(folder.path().join(NEW_SNAPSHOT));
        assert!(!journal.begin_snapshot(vec![entry(1)], 1));
    }
    assert!(journal.generation <= journal.first + 2 * MAX_LOGS);
    fs::remove_dir(folder.path().join(NEW_SNAPSHOT)).unwrap();
    assert!(journal.begin_snapshot((1..=3).map(entry).collect(), 1));
    while journal.step() {}
    journal.stored(&entry(4));
    assert!(!journal.is_broken() && journal.end());
    let (loaded, found) = read(folder.path());
    assert!(loaded.clean);
    assert_eq!(found, expected(1..=4));
    // A broken journal does not end clean.
    let mut journal = open(folder.path());
    journal.file = None;
    journal.stored(&entry(5));
    assert!(!journal.end());
    assert!(!read(folder.path()).0.clean);
}

#[test]
fn many_starts_make_no_endless_row_of_logs() {
    let folder = TempDir::new("starts");
    for number in 1..=50 {
        let mut journal = open(folder.path());
        journal.stored(&entry(number));
        if journal.wants_snapshot(0) {
            assert!(journal.begin_snapshot((1..=number).map(entry).collect(), 1));
            while journal.step() {}
        }
        assert!(journal.end());
    }
    assert_eq!(read(folder.path()).1, expected(1..=50));
    let logs = fs::read_dir(folder.path()).unwrap().flatten();
    let logs = logs.filter(|file| file.file_name().to_str().unwrap().starts_with(LOG)).count();
    assert!(logs as u64 <= MAX_LOGS + 1, "{logs}");
}

/// Cuts all files of a journal at every byte, one after the other: only lines that were written are read.
#[test]
fn cut_files_are_read_as_far_as_they_go() {
    let folder = TempDir::new("cut");
    example(folder.path());
    let (loaded, whole) = read(folder.path());
    let log = log_path(folder.path(), loaded.next - 1);
    for path in [folder.path().join(SNAPSHOT), log, folder.path().join(CLEAN)] {
        let bytes = fs::read(&path).unwrap();
        for len in 0..bytes.len() {
            fs::write(&path, &bytes[..len]).unwrap();
            let (loaded, found) = read(folder.path());
            assert!(!loaded.clean, "{} at {len}", path.display());
            assert!(found.iter().all(|(key, size)| whole.get(key).is_none_or(|own| own == size)));
            assert!(found.keys().all(|key| expected(1..=7).contains_key(key)));
        }
        fs::remove_file(&path).unwrap();
        assert!(!read(folder.path()).0.clean, "without {}", path.display());
        fs::write(&path, bytes).unwrap();
    }
    assert!(read(folder.path()).0.clean);
}

#[test]
fn logs_without_their_snapshot_are_forgotten() {
    let folder = TempDir::new("lost");
    example(folder.path());
    fs::remove_file(folder.path().join(SNAPSHOT)).unwrap();
    let (loaded, found) = read(folder.path());
    assert!(!loaded.exists && found.is_empty());
    let mut journal = Journal::open(folder.path(), &loaded);
    journal.stored(&entry(9));
    journal.flush();
    assert_eq!(read(folder.path()).1, expected([9]));
    assert!(!log_path(folder.path(), 2).exists());
}

#[test]
fn another_versions_files_are_not_read() {
    let folder = TempDir::new("version");
    example(folder.path());
    let (loaded, _) = read(folder.path());
    let mut other = [0_u8; LINE];
    other.copy_from_slice(&Line::Title(Title { what: JournalKind::Log, generation: 1, first: 0, second: 0 }).encode());
    other[15] = b'9';
    let sum = crc32fast::hash(&other[4..]);
    other[..4].copy_from_slice(&sum.to_le_bytes());
    for path in [folder.path().join(SNAPSHOT), log_path(folder.path(), loaded.next - 1)] {
        let bytes = fs::read(&path).unwrap();
        for front in [&other[..], &[0; LINE], &Line::Removed { key: entry(1).key(), sequence: 1 }.encode()] {
            let mut changed = bytes.clone();
            changed[..LINE].copy_from_slice(front);
            fs::write(&path, changed).unwrap();
            let (loaded, _) = read(folder.path());
            assert!(loaded.exists && !loaded.intact && !loaded.clean);
            // The journal continues behind everything that is there.
            assert!(!log_path(folder.path(), loaded.next).exists() || loaded.next > 1);
        }
        fs::write(&path, bytes).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_lose_lines_and_invent_none(flips in proptest::collection::vec(any::<(u8, u32)>(), 1..6), case in any::<u32>()) {
        let folder = TempDir::new(&format!("flipped-{case}"));
        example(folder.path());
        let log = log_path(folder.path(), read(folder.path()).0.next - 1);
        let files = [folder.path().join(SNAPSHOT), log, folder.path().join(CLEAN)];
        let before: Vec<_> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        let mut after = before.clone();
        for (file, bit) in flips {
            let bytes = &mut after[usize::from(file) % 3];
            let bit = bit as usize % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        for (path, bytes) in files.iter().zip(&after) {
            fs::write(path, bytes).unwrap();
        }
        let (loaded, found) = read(folder.path());
        prop_assert!(loaded.clean == (before == after));
        let known = expected(1..=7);
        prop_assert!(found.iter().all(|(key, size)| known.get(key) == Some(size)));
    }

    #[test]
    fn any_history_is_read_as_it_was(
        steps in proptest::collection::vec((1..40_u64, 0..6_u8), 1..300),
        case in any::<u32>(),
    ) {
        let folder = TempDir::new(&format!("history-{case}"));
        let mut journal = open(folder.path());
        let mut now: BTreeMap<u64, Arc<Entry>> = BTreeMap::new();
        for (number, what) in steps {
            match what {
                0 => {
                    if let Some(gone) = now.remove(&number) {
                        gone.leave();
                        journal.removed(gone.key(), 1);
                    }
                }
                1 if !journal.is_busy() => {
                    prop_assert!(journal.begin_snapshot(now.values().cloned().collect(), 1));
                }
                2 => drop(journal.step()),
                3 if number < 3 => {
                    journal.flush();
                    drop(journal);
                    journal = open(folder.path());
                }
                _ => {
                    let entry = entry(number);
                    journal.stored(&entry);
                    now.insert(number, entry);
                }
            }
        }
        prop_assert!(journal.end());
        let (loaded, found) = read(folder.path());
        prop_assert!(loaded.clean);
        prop_assert_eq!(found, expected(now.into_keys()));
    }
}
