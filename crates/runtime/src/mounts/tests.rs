//! Tests of the mount table from text, and of the records of mounts.

use std::sync::Arc;

use super::state::{COOL_MS, DEMOTION, HITS_A_STALL, MANY_STALLS, STALL_WINDOW, WARM_BYTES, WARM_PROBES};
use super::*;

const TABLE: &[u8] = b"\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 27 0:50 / /srv/with\\040space rw - tmpfs tmpfs rw
41 27 0:51 /sub /srv rw shared:7 master:3 - fuse.sshfs user@host:/ rw
42 27 254:0 /data /bind rw - ext4 /dev/vda rw
43 27 0:52 / /srv/deep/mount rw - xfs /dev/vdb rw
this line is no mount
44 27 x:y / /odd rw - ext4 /dev/vda rw
45 27 0:53 / /cut rw";

fn dev(major: u32, minor: u32) -> u64 {
    rustix::fs::makedev(major, minor)
}

#[test]
fn mountinfo_is_read_line_by_line_and_nonsense_left_out() {
    let table = MountTable::parse(TABLE);
    assert_eq!(table.mounts().count(), 5);
    let root = table.get(dev(254, 0)).unwrap();
    assert_eq!((root.point(), root.fs_type(), root.class()), ("/", "ext4", Class::Local));
    assert_eq!(table.get(dev(0, 51)).unwrap().class(), Class::Remote);
    assert_eq!(table.get(dev(0, 50)).unwrap().point(), "/srv/with space");
    assert!(table.get(dev(0, 53)).is_none());
}

#[test]
fn the_longest_mount_point_above_a_path_counts() {
    let table = MountTable::parse(TABLE);
    let fs_type = |path: &str| table.of_path(path.as_bytes()).map(|mount| mount.fs_type().to_owned());
    for (path, expected) in [
        ("/", "ext4"),
        ("/etc/passwd", "ext4"),
        ("/srv", "fuse.sshfs"),
        ("/srv/a", "fuse.sshfs"),
        ("/srvx", "ext4"),
        ("/srv/with space/a", "tmpfs"),
        ("/srv/deep/mount/a", "xfs"),
        ("/srv/deep", "fuse.sshfs"),
        ("/bind/a", "ext4"),
    ] {
        assert_eq!(fs_type(path).as_deref(), Some(expected), "{path}");
    }
}

#[test]
fn a_relative_path_begins_in_the_folder_of_the_process() {
    let here = std::env::current_dir().unwrap();
    let lines = format!("1 0 8:1 / / rw - ext4 a rw\n2 1 0:60 / {}/slow rw - nfs b rw\n", here.display());
    let table = MountTable::parse(lines.as_bytes());
    let fs_type = |path: &str| table.of_path(path.as_bytes()).map(|mount| mount.fs_type().to_owned());
    for (path, expected) in [("./slow/a", "nfs"), ("slow", "nfs"), ("././slow/a", "nfs"), ("slower", "ext4")] {
        assert_eq!(fs_type(path).as_deref(), Some(expected), "{path}");
    }
    assert_eq!(fs_type("slow/../../a"), None);
}

#[test]
fn a_later_mount_hides_an_earlier_one_at_the_same_place() {
    let table = MountTable::parse(b"1 0 8:1 / / rw - ext4 a rw\n2 1 0:60 / / rw - nfs b rw\n");
    assert_eq!(table.of_path(b"/x").unwrap().fs_type(), "nfs");
}

#[test]
fn only_mounts_that_may_wait_make_the_table_watchful() {
    assert!(MountTable::parse(TABLE).watchful());
    assert!(!MountTable::parse(b"1 0 8:1 / / rw - ext4 a rw\n2 1 0:5 / /t rw - tmpfs t rw\n").watchful());
    assert!(MountTable::parse(b"1 0 8:1 / / rw - ext4 a rw\n2 1 0:5 / /t rw - autofs t rw\n").watchful());
    assert!(MountTable::parse(b"1 0 8:1 / / rw - ext4 a rw\n2 1 0:5 / /t rw - unheard_of t rw\n").watchful());
    // Nothing is known here.
    assert!(MountTable::parse(b"").watchful());
}

#[test]
fn tables_beyond_the_bound_are_cut_and_watched() {
    let mut text = String::new();
    for n in 0..MAX_MOUNTS + 10 {
        text += &format!("{n} 0 7:{n} / /m{n} rw - ext4 a rw\n");
    }
    let table = MountTable::parse(text.as_bytes());
    assert_eq!(table.mounts().count(), MAX_MOUNTS);
    assert!(table.watchful());
}

#[test]
fn escapes_are_undone_and_broken_ones_kept() {
    let point = |escaped: &str| {
        let line = format!("1 0 8:1 / {escaped} rw - ext4 a rw");
        MountTable::parse(line.as_bytes()).mounts().next().unwrap().point().to_owned()
    };
    assert_eq!(point("/a\\011b\\012c\\134d"), "/a\tb\nc\\d");
    assert_eq!(point("/a\\04"), "/a\\04");
    assert_eq!(point("/a\\999b\\777"), "/a\\999b\\777");
}

#[test]
fn file_systems_are_known_by_name_and_by_magic_number() {
    for (name, class) in [
        ("tmpfs", Class::Memory),
        ("btrfs", Class::Local),
        ("overlay", Class::Local),
        ("proc", Class::Kernel),
        ("fusectl", Class::Kernel),
        ("fuse", Class::Remote),
        ("fuseblk", Class::Remote),
        ("fuse.rclone", Class::Remote),
        ("nfs4", Class::Remote),
        ("autofs", Class::Unknown),
        ("", Class::Unknown),
    ] {
        assert_eq!(Class::of(name), class, "{name}");
    }
    assert_eq!(Class::of_magic(0x9123_683e), (Class::Local, "btrfs"));
    assert_eq!(Class::of_magic(0x6573_5546).0, Class::Remote);
    // Some magic numbers have the highest bit set and come sign-extended.
    assert_eq!(Class::of_magic(0xff53_4d42_u32 as i32 as i64 as u64).0, Class::Remote);
    assert_eq!(Class::of_magic(1).0, Class::Unknown);
}

#[test]
fn a_changed_table_keeps_what_is_known_of_the_mounts_that_stay() {
    let mounts = Mounts::fixed(TABLE);
    let root = mounts.get(dev(254, 0)).unwrap();
    root.step_down(Rung::Nowait);
    let file = std::fs::File::open("/dev/null").unwrap();
    let learned = mounts.learn(123_456, &file);
    assert!(Arc::ptr_eq(&learned, &mounts.learn(123_456, &file)));
    mounts.replace(b"1 0 254:0 / / rw - ext4 a rw\n2 1 0:51 / /srv rw - ext4 b rw\n");
    assert!(Arc::ptr_eq(&root, &mounts.get(dev(254, 0)).unwrap()));
    assert_eq!(mounts.get(dev(254, 0)).unwrap().rung(1), Rung::Mincore);
    assert!(Arc::ptr_eq(&learned, &mounts.get(123_456).unwrap()));
    // The same device number, another file system.
    assert_eq!(mounts.get(dev(0, 51)).unwrap().class(), Class::Local);
    assert!(mounts.get(dev(0, 50)).is_none());
    assert!(Arc::ptr_eq(mounts.table().of_path(b"/etc").unwrap(), &root));
}

#[test]
fn learned_devices_are_bounded() {
    let mounts = Mounts::fixed(TABLE);
    let file = std::fs::File::open("/dev/null").unwrap();
    for n in 0..MAX_LEARNED as u64 + 5 {
        mounts.learn(1_000_000 + n, &file);
    }
    assert!(mounts.get(1_000_000).is_some());
    assert!(mounts.get(1_000_000 + MAX_LEARNED as u64).is_none());
    assert_eq!(mounts.table().mounts().count(), 5 + MAX_LEARNED);
}

fn mount(class: Class) -> Mount {
    Mount::new(1, "/".to_owned(), "x".to_owned(), class)
}

#[test]
fn rungs_go_down_only() {
    let local = mount(Class::Local);
    assert_eq!(local.rung(1), Rung::Nowait);
    local.step_down(Rung::Mincore);
    local.step_down(Rung::Nowait);
    assert_eq!(local.rung(1), Rung::Pool);
    assert_eq!(mount(Class::Memory).rung(1), Rung::Memory);
    assert_eq!(mount(Class::Remote).rung(1), Rung::Pool);
}

#[test]
fn a_mount_warms_up_by_bytes_or_by_probes_and_cools_at_once() {
    let mount = mount(Class::Local);
    assert_eq!(mount.density(), Density::Dense);
    mount.found_warm(WARM_BYTES - 1, 1, COOL_MS);
    assert_eq!(mount.density(), Density::Dense);
    mount.found_warm(1, 1, COOL_MS);
    assert_eq!(mount.density(), Density::Medium);
    mount.found_warm(1, WARM_PROBES, COOL_MS);
    assert_eq!(mount.density(), Density::Sparse);
    mount.missed(10 * COOL_MS);
    assert_eq!(mount.density(), Density::Dense);
    mount.found_warm(WARM_BYTES, 1, 10 * COOL_MS + 1);
    assert_eq!(mount.density(), Density::Dense);
    mount.found_warm(WARM_BYTES, 1, 11 * COOL_MS);
    assert_eq!(mount.density(), Density::Medium);
}

#[test]
fn a_few_stalls_among_many_good_answers_demote_nothing() {
    let mount = mount(Class::Local);
    mount.stalled(1, Some(true));
    mount.hits.add_n(100 * HITS_A_STALL);
    for _ in 2..MANY_STALLS {
        mount.stalled(2, Some(true));
    }
    assert_eq!(mount.rung(3), Rung::Nowait);
    mount.stalled(3, Some(true));
    assert_eq!(mount.rung(3), Rung::Pool);
}

#[test]
fn stalls_demote_only_when_two_come_close_together() {
    let mount = mount(Class::Local);
    let window = STALL_WINDOW.as_millis() as u64;
    assert!(!mount.is_suspect(1));
    assert!(mount.stalled(1, None));
    assert!(mount.is_suspect(1 + window) && !mount.is_suspect(2 + window));
    assert!(mount.stalled(2 + window, None));
    // The first is slow only for lack of a processor; the second is slow for an unknown reason.
    assert!(!mount.stalled(3 + window, Some(false)));
    assert!(mount.stalled(3 + window, None));
    assert_eq!(mount.rung(3 + window), Rung::Nowait);
    assert!(mount.stalled(2 + 2 * window, Some(true)));
    let end = 2 + 2 * window + DEMOTION.as_millis() as u64;
    assert_eq!(mount.rung(end - 1), Rung::Pool);
    assert_eq!(mount.rung(end), Rung::Nowait);
    let status = mount.status(end);
    assert_eq!((status.stalls, status.demotions, status.demoted), (4, 1, false));
}

#[test]
fn access_times_are_written_where_the_options_say_so() {
    let updates = |text: &[u8]| MountTable::parse(text).get(dev(8, 1)).unwrap().updates_atime(1);
    assert!(updates(b"1 0 8:1 / / rw,nosuid,relatime shared:1 - ext4 a rw,discard\n"));
    assert!(updates(b"1 0 8:1 / / rw,relatime - ext4 a\n"));
    assert!(!updates(b"1 0 8:1 / / rw,noatime - ext4 a rw\n"));
    assert!(!updates(b"1 0 8:1 / / ro,relatime - ext4 a rw\n"));
    assert!(!updates(b"1 0 8:1 / / rw,relatime - ext4 a ro,discard\n"));
    assert!(!updates(b"1 0 8:1 / / rw,relatime - tmpfs a rw\n"));
    // One of the places where it is mounted is enough.
    assert!(updates(b"1 0 8:1 / / ro,relatime - ext4 a rw\n2 1 8:1 / /b rw,relatime - ext4 a rw\n"));
    let mounts = Mounts::fixed(b"1 0 8:1 / / rw,relatime - ext4 a rw\n");
    let mount = mounts.get(dev(8, 1)).unwrap();
    mounts.replace(b"1 0 8:1 / / rw,noatime - ext4 a rw\n");
    assert!(!mount.updates_atime(1), "mounted again with other options");
}
