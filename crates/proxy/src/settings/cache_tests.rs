//! Tests of reading the directives about caching.

use freerun_conf::testing::{LevelSettings, read_and_check};
use freerun_conf::{Contexts, group};

use crate::settings::members::{FastCgiDirectives, MemcachedDirectives, ProxyDirectives};
use crate::settings::{FamilySettings, PrefixedSettings};

/// The settings of a proxy at a level of `context`, with the checks of the configuration's caches.
fn read_at(context: Contexts, text: &str) -> Result<(FamilySettings, Vec<String>), String> {
    let groups = [
        group::<PrefixedSettings<FastCgiDirectives>>(),
        group::<PrefixedSettings<ProxyDirectives>>(),
        group::<PrefixedSettings<MemcachedDirectives>>(),
    ];
    let LevelSettings { set, warnings } = read_and_check(&groups, context, text, |set, cx| {
        set.get::<PrefixedSettings<ProxyDirectives>>().check_cache("proxy_", true, cx)?;
        set.get::<PrefixedSettings<FastCgiDirectives>>().check_cache("fastcgi_", false, cx)
    })?;
    let family: &FamilySettings = set.get::<PrefixedSettings<ProxyDirectives>>();
    Ok((family.clone(), warnings))
}

fn read(text: &str) -> Result<(FamilySettings, Vec<String>), String> {
    read_at(Contexts::HTTP, text)
}

#[test]
fn what_nginx_refuses_is_refused_in_its_words() {
    for (text, want) in [
        ("proxy_cache_path c;", "invalid number of arguments in \"proxy_cache_path\" directive"),
        ("proxy_cache_path c levels=1:2;", "\"proxy_cache_path\" must have \"keys_zone\" parameter"),
        ("proxy_cache_path c keys_zone=a:1;", "keys zone \"keys_zone=a:1\" is too small"),
        ("proxy_cache_path c keys_zone=a:8191;", "keys zone \"keys_zone=a:8191\" is too small"),
        ("proxy_cache_path c keys_zone=a;", "invalid keys zone size \"keys_zone=a\""),
        ("proxy_cache_path c keys_zone=a:;", "invalid keys zone size \"keys_zone=a:\""),
        ("proxy_cache_path c keys_zone=a:1g;", "invalid keys zone size \"keys_zone=a:1g\""),
        ("proxy_cache_path c keys_zone=:1m;", "\"proxy_cache_path\" must have \"keys_zone\" parameter"),
        ("proxy_cache_path c levels=3 keys_zone=a:1m;", "invalid \"levels\" \"levels=3\""),
        ("proxy_cache_path c levels=1:2:2:1 keys_zone=a:1m;", "invalid \"levels\" \"levels=1:2:2:1\""),
        ("proxy_cache_path c levels=1: keys_zone=a:1m;", "invalid \"levels\" \"levels=1:\""),
        ("proxy_cache_path c levels=:1 keys_zone=a:1m;", "invalid \"levels\" \"levels=:1\""),
        ("proxy_cache_path c levels=12 keys_zone=a:1m;", "invalid \"levels\" \"levels=12\""),
        (
            "proxy_cache_path c use_temp_path=x keys_zone=a:1m;",
            "invalid use_temp_path value \"use_temp_path=x\", it must be \"on\" or \"off\"",
        ),
        ("proxy_cache_path c inactive=x keys_zone=a:1m;", "invalid inactive value \"inactive=x\""),
        ("proxy_cache_path c inactive= keys_zone=a:1m;", "invalid inactive value \"inactive=\""),
        ("proxy_cache_path c max_size=-1 keys_zone=a:1m;", "invalid max_size value \"max_size=-1\""),
        ("proxy_cache_path c min_free=x keys_zone=a:1m;", "invalid min_free value \"min_free=x\""),
        ("proxy_cache_path c memory=x keys_zone=a:1m;", "invalid memory value \"memory=x\""),
        ("proxy_cache_path c loader_files=x keys_zone=a:1m;", "invalid loader_files value \"loader_files=x\""),
        ("proxy_cache_path c loader_sleep=x keys_zone=a:1m;", "invalid loader_sleep value \"loader_sleep=x\""),
        (
            "proxy_cache_path c manager_threshold=x keys_zone=a:1m;",
            "invalid manager_threshold value \"manager_threshold=x\"",
        ),
        ("proxy_cache_path c foo keys_zone=a:1m;", "invalid parameter \"foo\""),
        ("proxy_cache_path c foo=1 keys_zone=a:1m;", "invalid parameter \"foo=1\""),
        ("proxy_cache_path c loader_x=1 keys_zone=a:1m;", "invalid parameter \"loader_x=1\""),
        ("proxy_cache_path c keys_zone=a:1m; proxy_cache_path d keys_zone=a:1m;", "duplicate zone \"a\""),
        (
            "proxy_cache_path c keys_zone=a:1m; proxy_cache_path d keys_zone=a:2m;",
            "the size 2097152 of shared memory zone \"a\" conflicts with already declared size 1048576",
        ),
        (
            "proxy_cache_path /c keys_zone=a:1m; proxy_cache_path /c/ keys_zone=b:1m;",
            "the same path name \"/c\" used in x.conf:1 and",
        ),
        (
            "proxy_cache_path c keys_zone=a:1m; fastcgi_cache_path d keys_zone=a:1m;",
            "the shared memory zone \"a\" is already declared for a different use",
        ),
        (
            "proxy_cache_path c keys_zone=a:1m; fastcgi_cache a;",
            "the shared memory zone \"a\" is already declared for a different use",
        ),
        ("proxy_cache x;", "\"proxy_cache\" zone \"x\" is unknown"),
        ("fastcgi_cache x;", "\"fastcgi_cache\" zone \"x\" is unknown"),
        ("proxy_cache \"\";", "\"proxy_cache\" zone \"\" is unknown"),
        ("proxy_cache off; proxy_cache off;", "\"proxy_cache\" directive is duplicate"),
        (
            "proxy_store on; proxy_cache_path p/c keys_zone=a:1m; proxy_cache a;",
            "\"proxy_cache\" directive is incompatible with \"proxy_store\"",
        ),
        (
            "proxy_cache_path p/c keys_zone=a:1m; proxy_cache a; proxy_store on;",
            "\"proxy_store\" directive is incompatible with \"proxy_cache\"",
        ),
        ("proxy_cache_key x; proxy_cache_key y;", "\"proxy_cache_key\" directive is duplicate"),
        ("proxy_cache_valid x;", "invalid time value \"x\""),
        ("proxy_cache_valid 200 x;", "invalid time value \"x\""),
        ("proxy_cache_valid -1;", "invalid time value \"-1\""),
        ("proxy_cache_valid x 1m;", "invalid status \"x\""),
        ("proxy_cache_valid ANY 1m;", "invalid status \"ANY\""),
        ("proxy_cache_valid 99 1m;", "invalid status \"99\""),
        ("proxy_cache_valid 600 1m;", "invalid status \"600\""),
        ("proxy_cache_methods PUT;", "invalid value \"PUT\""),
        ("proxy_cache_methods;", "invalid number of arguments in \"proxy_cache_methods\" directive"),
        ("proxy_cache_bypass;", "invalid number of arguments in \"proxy_cache_bypass\" directive"),
        ("proxy_no_cache;", "invalid number of arguments in \"proxy_no_cache\" directive"),
        ("proxy_cache_min_uses x;", "\"proxy_cache_min_uses\" directive invalid number"),
        ("proxy_cache_use_stale x;", "invalid value \"x\""),
        ("fastcgi_cache_use_stale http_502;", "invalid value \"http_502\""),
        ("proxy_cache_lock x;", "invalid value \"x\" in \"proxy_cache_lock\" directive, it must be \"on\" or \"off\""),
        ("proxy_cache_lock_timeout x;", "\"proxy_cache_lock_timeout\" directive invalid value"),
        ("proxy_cache_lock_age x;", "\"proxy_cache_lock_age\" directive invalid value"),
        ("proxy_cache_max_range_offset x;", "\"proxy_cache_max_range_offset\" directive invalid value"),
    ] {
        assert_eq!(read(text).err().as_deref(), Some(want), "{text}");
    }
    for text in ["fastcgi_cache_convert_head off;", "memcached_cache x;", "memcached_no_cache x;"] {
        assert!(read(text).err().unwrap().starts_with("unknown directive"), "{text}");
    }
    let told = read_at(Contexts::LOCATION, "proxy_cache_path c keys_zone=a:1m;").err().unwrap();
    assert!(told.contains("is not allowed here"), "{told}");
}

#[test]
fn what_nginx_takes_is_taken() {
    for text in [
        "proxy_cache_path c levels= keys_zone=a:8k;",
        "proxy_cache_path c levels=1:2:2 keys_zone=a:1m use_temp_path=off inactive=0 max_size=1024G min_free=1g;",
        "proxy_cache_path c keys_zone=a:1m loader_files=0 loader_sleep=5 loader_threshold=1s manager_files=1;",
        "proxy_cache_path c keys_zone=a:1m purger=on purger_files=1 purger_sleep=1 purger_threshold=1 memory=1g;",
        "proxy_cache_path c keys_zone=a:1m; proxy_cache a;",
        "proxy_cache a; proxy_cache_path c keys_zone=a:1m;",
        "proxy_cache off; proxy_store on;",
        "proxy_cache_methods post; proxy_cache_bypass a b; proxy_cache_bypass c; proxy_cache_min_uses 0;",
        "proxy_cache_use_stale error timeout invalid_header updating http_500 http_502 http_503 http_504 http_429 off;",
        "proxy_cache_use_stale non_idempotent; proxy_cache_use_stale error;",
        "proxy_cache_methods POST; proxy_cache_methods GET;",
        "proxy_cache_purge a; proxy_cache_rfc9111 on; proxy_no_cache a; proxy_no_cache b;",
    ] {
        assert_eq!(read(text).err(), None, "{text}");
    }
    for text in [
        "on",
        "off",
        "PURGE",
        "PURGE from all",
        "PURGE from 127.0.0.1 10.0.0.0/8",
        "PURGE purge_all from all",
        "on from all",
        "$a $b",
        "0",
    ] {
        assert_eq!(read(&format!("proxy_cache_purge {text};")).err(), None, "{text}");
    }
    for (text, told) in [
        ("1", "invalid parameter \"1\""),
        ("PURGE from", "invalid parameter \"from\", expected \"from\" keyword"),
        ("PURGE form all", "invalid parameter \"form\", expected \"from\" keyword"),
        ("PURGE from 300.1.1.1", "invalid parameter \"300.1.1.1\""),
        ("PURGE purge_all", ""),
        ("pages $uri", "\"proxy_cache_purge\" directive with a key is not allowed here"),
        ("PURGE; proxy_cache_purge $a", "\"proxy_cache_purge\" directive is duplicate"),
    ] {
        let result = read(&format!("proxy_cache_purge {text};")).err();
        assert!(
            result.clone().unwrap_or_default().starts_with(told) && result.is_some() != told.is_empty(),
            "{text}: {result:?}"
        );
    }
    let (_, warnings) =
        read("fastcgi_cache_path c keys_zone=a:1m; fastcgi_cache a; proxy_cache_methods GET GET;").unwrap();
    assert_eq!(warnings, ["duplicate value \"GET\"", "no \"fastcgi_cache_key\" for \"fastcgi_cache\""]);
}

#[test]
fn times_are_found_by_status() {
    let valid = |text| read(text).unwrap().0.proxy_cache_valid;
    let usual = valid("proxy_cache_valid 10m;");
    assert_eq!([200, 301, 302, 404].map(|status| usual.rules().seconds(status)), [600, 600, 600, 0]);
    let several = valid("proxy_cache_valid 200 404 1m; proxy_cache_valid any 5; proxy_cache_valid 500 1h;");
    assert_eq!([200, 404, 500].map(|status| several.rules().seconds(status)), [60, 60, 5]);
    assert!(valid("").rules().is_empty());
}
