use freerun_conf::testing::{LevelSettings, read_level};
use freerun_conf::{Group, group};
use freerun_proto::HeaderId;

use super::*;
use crate::settings::lists::{HiddenFields, KnownFields};
use crate::settings::members::{
    FastCgiDirectives, GrpcDirectives, MemcachedDirectives, ProxyDirectives, ScgiDirectives, TunnelDirectives,
    UwsgiDirectives,
};

/// The settings of both members at a location, and the warnings.
fn read(text: &str) -> Result<(FamilySettings, FamilySettings, Vec<String>), String> {
    let groups = [group::<PrefixedSettings<FastCgiDirectives>>(), group::<PrefixedSettings<ProxyDirectives>>()];
    let LevelSettings { set, warnings } = read_level(&groups, Contexts::LOCATION, text)?;
    Ok((
        set.get::<PrefixedSettings<FastCgiDirectives>>().0.clone(),
        set.get::<PrefixedSettings<ProxyDirectives>>().0.clone(),
        warnings,
    ))
}

#[test]
fn each_member_has_its_own_values_under_its_own_names() {
    let (fast, proxy, _) = read("fastcgi_buffer_size 8k; proxy_read_timeout 5s; fastcgi_hide_header X-A;").unwrap();
    assert_eq!((fast.proxy_buffer_size.0, proxy.proxy_buffer_size.0), (8192, 4096));
    assert_eq!((fast.proxy_read_timeout.as_secs(), proxy.proxy_read_timeout.as_secs()), (60, 5));
    let hides = |settings: &FamilySettings| settings.hides(HeaderId::Other, b"x-a", &HiddenFields::NOTHING);
    assert!(hides(&fast) && !hides(&proxy));
    assert_eq!(fast.proxy_temp_path.path, freerun_serve::configuration::compiled_paths::FASTCGI_TEMP_PATH);
    assert_eq!(proxy.proxy_temp_path.path, freerun_serve::configuration::compiled_paths::PROXY_TEMP_PATH);
    assert_eq!((fast.busy_buffers_size(), proxy.busy_buffers_size()), (16384, 8192));
}

#[test]
fn rows_that_a_member_lacks_are_unknown() {
    assert!(read("fastcgi_ssl_verify on;").err().unwrap().starts_with("unknown directive \"fastcgi_ssl_verify\""));
    let rows = PrefixedSettings::<FastCgiDirectives>::directives();
    assert!(rows.iter().all(|row| row.name.starts_with("fastcgi_")));
    let buffers = rows.iter().find(|row| row.name == "fastcgi_buffer_size").unwrap();
    assert!(!buffers.documentation.contains("proxy_"));
}

#[test]
fn what_nginx_refuses_is_refused_in_its_words() {
    for (text, want) in [
        ("proxy_bind x;", "invalid address \"x\""),
        ("proxy_bind 127.0.0.1 x;", "invalid parameter \"x\""),
        ("proxy_bind off transparent;", "invalid address \"off\""),
        ("proxy_bind 127.0.0.1; proxy_bind off;", "\"proxy_bind\" directive is duplicate"),
        ("proxy_buffers 0 4k;", "\"proxy_buffers\" directive invalid value"),
        ("fastcgi_buffers 2 0;", "\"fastcgi_buffers\" directive invalid value"),
        ("proxy_max_temp_file_size 1g;", "\"proxy_max_temp_file_size\" directive invalid value"),
        ("proxy_limit_rate x;", "\"proxy_limit_rate\" directive invalid value"),
        ("fastcgi_next_upstream http_504;", "invalid value \"http_504\""),
        ("proxy_next_upstream not_found;", "invalid value \"not_found\""),
        ("proxy_next_upstream_tries x;", "\"proxy_next_upstream_tries\" directive invalid number"),
        ("proxy_next_upstream_timeout x;", "\"proxy_next_upstream_timeout\" directive invalid value"),
        ("proxy_ignore_headers X;", "invalid value \"X\""),
        ("proxy_store off; proxy_store on;", "\"proxy_store\" directive is duplicate"),
        ("proxy_store_access user:x;", "invalid value \"user:x\""),
        ("proxy_hide_header a b;", "invalid number of arguments in \"proxy_hide_header\" directive"),
        ("proxy_temp_path /tmp 1 2 3 4;", "invalid number of arguments in \"proxy_temp_path\" directive"),
        ("proxy_read_timeout -1;", "\"proxy_read_timeout\" directive invalid value"),
        ("proxy_buffering x;", "invalid value \"x\" in \"proxy_buffering\" directive, it must be \"on\" or \"off\""),
    ] {
        assert_eq!(read(text).err().as_deref(), Some(want), "{text}");
    }
    let warnings = read("proxy_send_lowat 1k; fastcgi_next_upstream error error;").unwrap().2;
    assert_eq!(warnings, ["\"proxy_send_lowat\" is not supported, ignored", "duplicate value \"error\""]);
}

#[test]
fn sizes_are_checked_together() {
    for (text, want) in [
        ("proxy_buffers 1 4k;", Some("there must be at least 2 \"x_buffers\"")),
        ("proxy_buffers 2 4k;", Some("\"x_busy_buffers_size\" must be less")),
        ("proxy_buffers 3 4k;", None),
        ("proxy_buffer_size 16k;", Some("\"x_busy_buffers_size\" must be less")),
        ("proxy_busy_buffers_size 28k;", None),
        ("proxy_busy_buffers_size 29k;", Some("\"x_busy_buffers_size\" must be less")),
        ("proxy_busy_buffers_size 1k;", Some("\"x_busy_buffers_size\" must be equal")),
        ("proxy_temp_file_write_size 1k;", Some("\"x_temp_file_write_size\" must be equal")),
        ("proxy_max_temp_file_size 1k;", Some("\"x_max_temp_file_size\" must be equal to zero")),
        ("proxy_max_temp_file_size 0;", None),
    ] {
        let message = read(text).unwrap().1.check_sizes("x_").err().map(|problem| problem.message);
        match want {
            None => assert_eq!(message, None, "{text}"),
            Some(want) => assert!(message.as_deref().is_some_and(|text| text.starts_with(want)), "{text}: {message:?}"),
        }
    }
}

#[test]
fn a_passed_field_is_not_hidden() {
    let (_, proxy, _) =
        read("proxy_hide_header X-A; proxy_hide_header X-B; proxy_pass_header DATE; proxy_pass_header x-b;").unwrap();
    let always = HiddenFields { known: KnownFields::of(&[HeaderId::Date, HeaderId::Server]), others: &[b"X-Pad"] };
    let hidden = [&b"X-A"[..], b"x-b", b"date", b"Server", b"Other", b"X-PAD", b"ETag"]
        .map(|name| proxy.hides(HeaderId::of(name), name, &always));
    assert_eq!(hidden, [true, false, false, true, false, true, false]);
}

#[test]
fn the_sets_of_members_are_those_of_nginx() {
    let groups = [
        group::<PrefixedSettings<ProxyDirectives>>(),
        group::<PrefixedSettings<FastCgiDirectives>>(),
        group::<PrefixedSettings<UwsgiDirectives>>(),
        group::<PrefixedSettings<ScgiDirectives>>(),
        group::<PrefixedSettings<GrpcDirectives>>(),
        group::<PrefixedSettings<MemcachedDirectives>>(),
        group::<PrefixedSettings<TunnelDirectives>>(),
    ];
    for (row, members) in [
        ("_connect_timeout", "proxy fastcgi uwsgi scgi grpc memcached tunnel"),
        ("_bind", "proxy fastcgi uwsgi scgi grpc memcached tunnel"),
        ("_buffer_size", "proxy fastcgi uwsgi scgi grpc memcached"),
        ("_intercept_errors", "proxy fastcgi uwsgi scgi grpc"),
        ("_buffers", "proxy fastcgi uwsgi scgi"),
        ("_cache_valid", "proxy fastcgi uwsgi scgi"),
        ("_ssl_verify", "proxy uwsgi grpc"),
        ("_send_lowat", "proxy fastcgi tunnel"),
        ("_cache_convert_head", "proxy"),
    ] {
        let has =
            |group: &&&dyn Group| group.directives().iter().any(|own| own.name.strip_prefix(group.name()) == Some(row));
        let names: Vec<&str> = groups.iter().filter(has).map(|group| group.name()).collect();
        assert_eq!(names.join(" "), members, "{row}");
    }
}

#[test]
fn off_is_stronger_than_all_other_causes() {
    use crate::settings::next::NextUpstream;
    let causes = |text| read(text).unwrap().1.proxy_next_upstream.0;
    let off = causes("proxy_next_upstream http_500 off error;");
    assert!(off.contains(NextUpstream::Off) && !off.contains(NextUpstream::Http500));
    let default = causes("");
    assert!(default.contains(NextUpstream::Error) && default.contains(NextUpstream::Timeout));
    assert!(!default.contains(NextUpstream::InvalidHeader));
}
