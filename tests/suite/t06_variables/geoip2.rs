//! `geoip2`: bad databases, and databases that change.

use freerun_testkit::mmdb::{MmdbValue, database};
use freerun_testkit::{Kind, Setup, Site, check, eventually, require};

fn country(code: &'static str, build_epoch: u64) -> Vec<u8> {
    let record = MmdbValue::Map(vec![("country", MmdbValue::Map(vec![("iso_code", MmdbValue::Text(code))]))]);
    database(&[("127.0.0.0/8", record)], build_epoch)
}

/// Replaces a file as one should.
fn replace(site: &Site, name: &str, content: &[u8]) {
    site.file("next", content);
    std::fs::rename(site.at("next"), site.at(name)).expect("renaming");
}

fn setup(site: &Site, reload: &str) -> Setup {
    let lines = format!(
        "geoip2 @ROOT@/test.mmdb {{ {reload} $code country iso_code; $build metadata build_epoch; $long u128; }}"
    );
    Setup::new().root(site).http(&lines).http(
        "server { listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; location / { return 200 \"$code $build $long\"; } }",
    )
}

#[test]
fn a_changed_database_is_taken_by_itself() {
    let site = Site::new();
    site.file("test.mmdb", country("AA", 1));
    let server = setup(&site, "auto_reload 1s;").freerun();
    assert_eq!(server.get("/").text(), "AA 1 ");
    replace(&site, "test.mmdb", &country("BB", 2));
    eventually("the new database", || server.get("/").text() == "BB 2 ");
    server.logs("Reload MMDB");
    // A broken one is not taken, and said.
    replace(&site, "test.mmdb", b"garbage");
    eventually("a refusal", || {
        server.get("/");
        server.error_log().contains("failed to reload - ")
    });
    assert_eq!(server.get("/").text(), "BB 2 ");
    replace(&site, "test.mmdb", &country("CC", 3));
    eventually("the newest database", || server.get("/").text() == "CC 3 ");
}

#[test]
fn a_reload_takes_a_changed_database_and_refuses_a_broken_one() {
    let site = Site::new();
    site.file("test.mmdb", country("AA", 1));
    let server = setup(&site, "").freerun();
    assert_eq!(server.get("/").text(), "AA 1 ");
    replace(&site, "test.mmdb", &country("BB", 2));
    assert_eq!(server.get("/").text(), "AA 1 ");
    server.reload();
    eventually("the new database", || server.get("/").text() == "BB 2 ");
    replace(&site, "test.mmdb", b"garbage");
    server.signal(rustix::process::Signal::HUP);
    server.logs("MMDB_open(");
    assert_eq!(server.get("/").text(), "BB 2 ");
}

#[test]
fn bad_databases_are_refused() {
    if !require::freerun() {
        return;
    }
    let site = Site::new();
    let good = country("AA", 1);
    site.file("bad", "garbage").file("empty", "").folder("folder").file("cut", &good[..good.len() - 40]);
    let huge = std::fs::File::create(site.at("huge")).expect("a file");
    huge.set_len(2 << 30).expect("a hole of 2 GB");
    for (name, why) in [
        ("none", "No such file or directory"),
        ("bad", ""),
        ("empty", ""),
        ("cut", ""),
        ("folder", "it is not a file"),
        ("huge", "it is too large: 2147483648 bytes"),
    ] {
        let path = site.at(name).display().to_string();
        let text = format!("events {{ }}\nhttp {{\ngeoip2 {path} {{ $a country; }}\n}}\n");
        let checked = check(Kind::Freerun, &text).expect("freerun starts");
        let line = checked.stderr.lines().next().unwrap_or_default();
        assert!(line.contains(&format!("[emerg] MMDB_open(\"{path}\") failed - {why}")), "{}", checked.stderr);
        assert!(line.ends_with("nginx.conf:3"), "{}", checked.stderr);
    }
    let legacy = check(Kind::Freerun, "events { }\nhttp { geoip_country GeoIP.dat; }\n").expect("freerun starts");
    assert!(legacy.stderr.contains("unknown directive \"geoip_country\""), "{}", legacy.stderr);
    assert!(legacy.stderr.contains("write \"geoip2 file.mmdb"), "{}", legacy.stderr);
}

#[test]
fn damaged_databases_answer_nothing_worse_than_nothing() {
    let site = Site::new();
    let good = country("AA", 1);
    // Every byte of the tree and of the records once, two bits each: the metadata is read when it starts.
    let metadata = good.windows(3).position(|window| window == b"\xab\xcd\xef").expect("metadata");
    site.file("test.mmdb", &good);
    let server = setup(&site, "auto_reload 1s;").freerun();
    for at in (0..metadata).step_by(metadata / 20) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x81;
        replace(&site, "test.mmdb", &damaged);
        server.reload();
        assert_eq!(server.get("/").status, 200);
    }
}
