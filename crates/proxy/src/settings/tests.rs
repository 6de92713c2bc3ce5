use freerun_conf::{Registry, apply_block, group, parse};
use freerun_proto::HeaderId;

use super::*;
use crate::settings::lists::{HiddenFields, KnownFields};
use crate::settings::members::{self, Memcached, Proxy};

member! {
    /// A member for tests.
    pub struct Fast: "fastcgi_", "fastcgi", lacks &["buffering", "bind"], temp freerun_serve::configuration::compiled::FASTCGI_TEMP_PATH;
}

/// A loader with only this text; there are no other files.
struct Text(&'static str);

impl freerun_conf::Loader for Text {
    fn load(&mut self, _: &str) -> std::io::Result<Vec<u8>> {
        Ok(self.0.as_bytes().to_vec())
    }

    fn glob(&mut self, _: &str) -> std::io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// The settings of both members at a location, and the warnings.
fn read(text: &'static str) -> Result<(FamilySettings, FamilySettings, Vec<String>), String> {
    let registry =
        Registry::new(&[group::<PrefixedSettings<Fast>>(), group::<PrefixedSettings<Proxy>>()], &[]).unwrap();
    let tree = parse("x.conf", None, "", &mut Text(text));
    let mut cx = Cx::new(tree.sources.clone());
    assert_eq!(registry.check(&mut cx), [] as [String; 0]);
    let built = (|| {
        let defaults = registry.defaults(&mut cx)?;
        Ok(apply_block(&registry, Contexts::LOCATION, &tree.nodes, &defaults, &mut cx)?.0)
    })();
    let warnings = cx.warnings.iter().map(|warning| warning.message.clone()).collect();
    let set = cx.conclude(built, tree.error).map_err(|problems| problems[0].message.clone())?;
    Ok((set.get::<PrefixedSettings<Fast>>().0.clone(), set.get::<PrefixedSettings<Proxy>>().0.clone(), warnings))
}

#[test]
fn each_member_has_its_own_values_under_its_own_names() {
    let (fast, proxy, _) = read("fastcgi_buffer_size 8k; proxy_read_timeout 5s; fastcgi_hide_header X-A;").unwrap();
    assert_eq!((fast.proxy_buffer_size.0, proxy.proxy_buffer_size.0), (8192, 4096));
    assert_eq!((fast.proxy_read_timeout.as_secs(), proxy.proxy_read_timeout.as_secs()), (60, 5));
    let hides = |settings: &FamilySettings| settings.hides(HeaderId::Other, b"x-a", &HiddenFields::NOTHING);
    assert!(hides(&fast) && !hides(&proxy));
    assert_eq!(fast.proxy_temp_path.path, freerun_serve::configuration::compiled::FASTCGI_TEMP_PATH);
    assert_eq!(proxy.proxy_temp_path.path, freerun_serve::configuration::compiled::PROXY_TEMP_PATH);
    assert_eq!((fast.busy_buffers_size(), proxy.busy_buffers_size()), (16384, 8192));
}

#[test]
fn rows_that_a_member_lacks_are_unknown() {
    assert!(read("fastcgi_buffering on;").err().unwrap().starts_with("unknown directive \"fastcgi_buffering\""));
    let names: Vec<&str> = PrefixedSettings::<Fast>::directives().iter().map(|directive| directive.name).collect();
    assert!(names.iter().all(|name| name.starts_with("fastcgi_") && *name != "fastcgi_bind"));
    let buffers = PrefixedSettings::<Fast>::directives().iter().find(|row| row.name == "fastcgi_buffer_size").unwrap();
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
fn memcached_has_few_of_them() {
    let names: Vec<&str> = PrefixedSettings::<Memcached>::directives().iter().map(|directive| directive.name).collect();
    assert_eq!(
        names,
        [
            "memcached_allow_upstream",
            "memcached_bind",
            "memcached_bind_dynamic",
            "memcached_buffer_size",
            "memcached_connect_timeout",
            "memcached_next_upstream",
            "memcached_next_upstream_timeout",
            "memcached_next_upstream_tries",
            "memcached_read_timeout",
            "memcached_send_timeout",
            "memcached_socket_keepalive",
            "memcached_socket_rcvbuf",
            "memcached_socket_sndbuf",
        ]
    );
}

#[test]
fn tunnels_have_what_is_about_connections() {
    let names: Vec<&str> =
        PrefixedSettings::<members::Tunnel>::directives().iter().map(|directive| directive.name).collect();
    assert_eq!(
        names,
        [
            "tunnel_allow_upstream",
            "tunnel_bind",
            "tunnel_bind_dynamic",
            "tunnel_connect_timeout",
            "tunnel_next_upstream_timeout",
            "tunnel_next_upstream_tries",
            "tunnel_send_lowat",
            "tunnel_send_timeout",
            "tunnel_socket_keepalive",
            "tunnel_socket_rcvbuf",
            "tunnel_socket_sndbuf",
        ]
    );
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
