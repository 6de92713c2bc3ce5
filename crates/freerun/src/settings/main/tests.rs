use freerun_conf::{Contexts, Cx, OneText, Problem, Registry, SettingsSet, apply_block, group, parse};

use super::*;
use crate::settings::affinity::Affinity;
use crate::settings::events::{Connections, DebugClient, EventSettings};
use crate::settings::{STRUCTURE, user};

fn registry() -> Registry {
    Registry::new(&[group::<MainSettings>(), group::<EventSettings>()], STRUCTURE).unwrap()
}

/// The settings of a text at the main level, with an `events` block.
fn read(text: &str) -> Result<SettingsSet, String> {
    let registry = registry();
    let tree = parse("x.conf", None, "", &mut OneText(text));
    let mut cx = Cx::new(tree.sources.clone());
    let built = (|| -> Result<SettingsSet, Problem> {
        let defaults = registry.defaults(&mut cx)?;
        let (mut set, blocks) = apply_block(&registry, Contexts::MAIN, &tree.nodes, &defaults, &mut cx)?;
        for events in blocks {
            set = apply_block(&registry, Contexts::EVENTS, events.children(), &set, &mut cx)?.0;
        }
        Ok(set)
    })();
    cx.conclude(built, tree.error).map_err(|problems| problems[0].message.clone())
}

/// The warnings about a text at the main level.
fn warnings(text: &str) -> Vec<String> {
    let registry = registry();
    let tree = parse("x.conf", None, "", &mut OneText(text));
    let mut cx = Cx::new(tree.sources.clone());
    let defaults = registry.defaults(&mut cx).unwrap();
    apply_block(&registry, Contexts::MAIN, &tree.nodes, &defaults, &mut cx).unwrap();
    cx.warnings.into_iter().map(|warning| warning.message).collect()
}

#[test]
fn the_tables_are_sound() {
    let registry = registry();
    assert_eq!(registry.check(&mut Cx::new(freerun_conf::Sources::default())), Vec::<String>::new());
}

#[test]
fn defaults_are_those_of_nginx() {
    let set = read("").unwrap();
    let main = set.get::<MainSettings>();
    assert!(main.daemon && main.master_process);
    assert_eq!(main.worker_processes, Loops::Number(1));
    assert_eq!(main.pid_path("/p/").as_deref(), Some(paths::PID_PATH));
    let events = set.get::<EventSettings>();
    assert_eq!(events.worker_connections, Connections(512));
    assert!(!events.accept_mutex && !events.multi_accept);
}

#[test]
fn values_are_read() {
    let set = read(
        "worker_processes auto; worker_cpu_affinity 01 10; worker_priority -5; pid run/x.pid; env A; env B=c=d;
         worker_shutdown_timeout 1m30s; thread_pool a threads=3 max_queue=0; thread_pool b max_queue=7 threads=1;
         events { use epoll; worker_connections 7; debug_connection 10.0.0.0/8; debug_connection unix:; }",
    )
    .unwrap();
    let main = set.get::<MainSettings>();
    assert!(main.worker_processes.count() >= 1);
    assert_eq!(main.worker_cpu_affinity, Some(Affinity::Masks(vec![vec![0], vec![1]])));
    assert_eq!(main.worker_priority, Some(Priority(-5)));
    assert_eq!(main.pid_path("/p/").as_deref(), Some("/p/run/x.pid"));
    assert_eq!(main.env[1], Variable { name: "B".into(), value: Some("c=d".into()) });
    assert_eq!(main.worker_shutdown_timeout, Some(Duration::from_secs(90)));
    let pools: Vec<_> = main.thread_pool.iter().map(|p| (p.name.as_str(), p.threads, p.max_queue)).collect();
    assert_eq!(pools, [("a", 3, 0), ("b", 1, 7)]);
    let events = set.get::<EventSettings>();
    assert_eq!(events.worker_connections, Connections(7));
    assert_eq!(events.debug_connection[0], DebugClient::Net("10.0.0.0".parse().unwrap(), 8));
    assert_eq!(events.debug_connection[1], DebugClient::Unix);
    assert_eq!(read("pid off;").unwrap().get::<MainSettings>().pid_path("/"), None);
}

/// The messages are what Debian's nginx prints for the same text.
#[test]
fn mistakes_are_told_as_nginx_tells_them() {
    for (text, message) in [
        ("worker_processes x;", r#""worker_processes" directive invalid value"#),
        ("worker_processes -1;", r#""worker_processes" directive invalid value"#),
        ("worker_processes 99999;", r#""worker_processes" directive invalid value"#),
        ("worker_priority x;", r#""worker_priority" directive invalid number"#),
        ("worker_rlimit_nofile x;", r#""worker_rlimit_nofile" directive invalid number"#),
        ("worker_rlimit_core x;", r#""worker_rlimit_core" directive invalid value"#),
        ("worker_shutdown_timeout x;", r#""worker_shutdown_timeout" directive invalid value"#),
        ("worker_cpu_affinity 01 2;", r#"invalid character "2" in "worker_cpu_affinity""#),
        ("worker_cpu_affinity auto 1 1;", r#"invalid number of arguments in "worker_cpu_affinity" directive"#),
        ("daemon on; daemon on;", r#""daemon" directive is duplicate"#),
        ("debug_points foo;", r#"invalid value "foo""#),
        ("thread_pool a;", r#"invalid number of arguments in "thread_pool" directive"#),
        ("thread_pool a threads=0;", r#"invalid threads value "threads=0""#),
        ("thread_pool a threads=1 max_queue=-1;", r#"invalid max_queue value "max_queue=-1""#),
        ("thread_pool a threads=1; thread_pool a threads=2;", r#"duplicate thread pool "a""#),
        ("thread_pool (cpu) threads=1;", r#"duplicate thread pool "(cpu)""#),
        ("events { use x; }", r#"invalid event type "x""#),
        ("events { worker_connections x; }", r#"invalid number "x""#),
        ("events { worker_aio_requests x; }", r#""worker_aio_requests" directive invalid number"#),
        ("events { accept_mutex_delay x; }", r#""accept_mutex_delay" directive invalid value"#),
        ("events { debug_connection foo; }", r#"host not found in debug_connection "foo""#),
        ("env A B;", r#"invalid number of arguments in "env" directive"#),
    ] {
        assert_eq!(read(text).err().as_deref(), Some(message), "{text}");
    }
}

#[test]
fn users_and_groups_must_exist() {
    if !user::privileged() {
        assert!(read("user no-such-user;").is_ok(), "a warning only");
        return;
    }
    assert_eq!(read("user no-such-user;").err().as_deref(), Some(r#"getpwnam("no-such-user") failed"#));
    assert_eq!(read("user root no-such-group;").err().as_deref(), Some(r#"getgrnam("no-such-group") failed"#));
    let set = read("user root;").unwrap();
    let identity = set.get::<MainSettings>().user.clone().unwrap().identity.unwrap();
    assert_eq!((identity.uid, identity.gid), (0, 0));
}

#[test]
fn modules_are_known_by_their_file() {
    let rows = [
        ("load_module modules/ngx_http_brotli_filter_module.so;", None),
        ("load_module /usr/lib/nginx/modules/ngx_stream_module.so; load_module ngx_mail_module.so;", None),
        ("load_module /nope.so;", Some("module \"/nope.so\" cannot be loaded")),
        (
            "load_module a/ngx_mail_module.so; load_module b/ngx_mail_module.so;",
            Some("module \"ngx_mail_module\" is already loaded"),
        ),
        ("load_module;", Some("invalid number of arguments in \"load_module\" directive")),
        ("events { load_module x; }", Some("\"load_module\" directive is not allowed here")),
    ];
    for (text, message) in rows {
        assert_eq!(read(text).err().as_deref(), message, "{text}");
    }
}

#[test]
fn only_what_a_module_would_have_brought_and_is_not_there_is_warned_of() {
    // What Debian's packages load, and what is told of it.
    let rows = [
        ("ngx_stream_module", None),
        ("ngx_stream_geoip2_module", None),
        ("ngx_http_brotli_static_module", None),
        ("ngx_http_headers_more_filter_module", None),
        ("ngx_http_cache_purge_module", None),
        ("ngx_mail_module", Some("there is no such module, its directives are unknown")),
    ];
    for (module, told) in rows {
        let warnings = warnings(&format!("load_module modules/{module}.so;"));
        let expected = told.map(|told| format!("module \"{module}\" is not loaded: {told}"));
        assert_eq!(warnings, Vec::from_iter(expected), "{module}");
    }
}
