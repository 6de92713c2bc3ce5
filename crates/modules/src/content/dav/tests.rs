use freerun_conf::Contexts;
use freerun_conf::testing::read_level;

use super::*;

fn read(text: &str) -> Result<DavSettings, String> {
    let read = read_level(&[group::<DavSettings>()], Contexts::HTTP, text)?;
    Ok(read.set.get::<DavSettings>().clone())
}

#[test]
fn values_are_read() {
    let set = read("dav_methods PUT delete; dav_access user:rw group:r all:r; min_delete_depth 3;").unwrap();
    assert!(set.dav_methods.has(Method::Put) && set.dav_methods.has(Method::Delete));
    assert!(!set.dav_methods.has(Method::Mkcol) && !set.dav_methods.has(Method::Get));
    assert_eq!((set.dav_access.of_files(), set.dav_access.of_folders()), (0o644, 0o755));
    let set = read("dav_access all:rw;").unwrap();
    assert_eq!((set.dav_access.of_files(), set.dav_access.of_folders()), (0o606, 0o707));
    assert_eq!(read("").unwrap().dav_access.of_folders(), 0o700);
    assert!(read("dav_methods off;").unwrap().dav_methods.is_empty());
    let several = read("dav_methods PUT; dav_methods off PUT; dav_methods MKCOL;").unwrap().dav_methods;
    assert!(several.has(Method::Put) && several.has(Method::Mkcol) && !several.has(Method::Delete));
}

#[test]
fn what_nginx_refuses_is_refused_in_its_words() {
    let rows = [
        ("dav_methods;", "invalid number of arguments in \"dav_methods\" directive"),
        ("dav_methods GET;", "invalid value \"GET\""),
        ("dav_access rw;", "invalid value \"rw\""),
        ("dav_access user:x;", "invalid value \"user:x\""),
        ("dav_access nobody:r;", "invalid value \"nobody:r\""),
        ("dav_access user:r group:r all:r all:r;", "invalid number of arguments in \"dav_access\" directive"),
        ("min_delete_depth -1;", "\"min_delete_depth\" directive invalid number"),
        (
            "create_full_put_path 1;",
            "invalid value \"1\" in \"create_full_put_path\" directive, it must be \"on\" or \"off\"",
        ),
    ];
    for (text, message) in rows {
        assert_eq!(read(text).err().as_deref(), Some(message), "{text}");
    }
}
