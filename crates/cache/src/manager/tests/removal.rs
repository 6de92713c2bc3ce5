//! Tests of files that cannot be removed.

use super::*;

/// Puts something under an object's name that cannot be unlinked.
fn nail(bench: &Bench, text: &str) -> PathBuf {
    let path = bench.cache.path_of(Key::of(text.as_bytes()));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    path
}

#[test]
fn one_file_that_cannot_be_removed_does_not_keep_others() {
    let folder = TempDir::new("nailed");
    let mut bench = Bench::open(&config(&folder));
    bench.settle();
    for text in ["a", "b", "c"] {
        bench.store(text, 10_000).unwrap();
    }
    bench.settle();
    let nailed = ["a", "b", "c"].map(|text| nail(&bench, text));
    let refused = (0..300).filter(|number| {
        let stored = bench.store(&number.to_string(), 10_000);
        bench.settle();
        stored.is_none()
    });
    assert_eq!(refused.count(), 0);
    // The files are tried again, and none waits for another one.
    fs::remove_dir(&nailed[2]).unwrap();
    bench.clock += Duration::from_secs(20);
    bench.settle();
    let figures = bench.cache.figures();
    assert_eq!(figures.used - files(folder.path()).1, 2 * 12_288);
}
