//! `geoip2`, compared with the third-party module of that name.

use crate::harness::{Case, compare, get};
use crate::runner::{Both, compare_verdicts};
use crate::site::{MTIME, site};
use freerun_testkit::mmdb::{MmdbValue, database};
use freerun_testkit::{Setup, Site, require};

fn with_database() -> Site {
    use MmdbValue::{Bool, Bytes, Double, Float, I32, List, Map, Text, U16, U32, U64};
    let record = Map(vec![
        (
            "country",
            Map(vec![
                ("iso_code", Text("ZZ")),
                ("names", Map(vec![("en", Text("Test Land")), ("de", Text("Prüfland"))])),
                ("geoname_id", U32(6_252_001)),
                ("empty", Text("")),
            ]),
        ),
        ("list", List(vec![Text("a"), Text("b"), List(vec![Text("c")]), Map(vec![("en", Text("d"))])])),
        ("u16", U16(65_535)),
        ("u32", U32(u32::MAX)),
        ("u64", U64(u64::MAX)),
        ("i32", I32(-5)),
        ("zero", U32(0)),
        ("latitude", Double(51.5142)),
        ("longitude", Double(-0.0931)),
        ("three", Double(3.0)),
        ("tiny", Double(1e-10)),
        ("float", Float(0.5)),
        ("yes", Bool(true)),
        ("no", Bool(false)),
        ("bytes", Bytes(b"\x01\x02\xff")),
        ("0", Text("zero as a key")),
    ]);
    let country = |code| Map(vec![("country", Map(vec![("iso_code", Text(code))]))]);
    let networks = [
        ("127.0.0.0/8", record),
        ("1.2.0.0/16", country("AA")),
        ("1.2.3.0/24", country("BB")),
        ("2001:db8::/32", country("VV")),
    ];
    let site = site();
    site.dated("test.mmdb", database(&networks, 1_700_000_000), MTIME).dated("bad.mmdb", "garbage", MTIME);
    site
}

const PATHS: &[&str] = &[
    "country iso_code",
    "country names en",
    "country names de",
    "country names fr",
    "country geoname_id",
    "country empty",
    "country",
    "list 0",
    "list 1",
    "list 2 0",
    "list 3 en",
    "list 2",
    "list 9",
    "list -1 en",
    "list x",
    "u16",
    "u32",
    "u64",
    "i32",
    "zero",
    "latitude",
    "longitude",
    "three",
    "tiny",
    "float",
    "yes",
    "no",
    "bytes",
    "0",
    "none",
    "country none",
    "country iso_code more",
    "\"\"",
    "country 0",
];

fn setup(site: &Site, http: &str, server: &str) -> Option<Setup> {
    let module = require::nginx_module("ngx_http_geoip2_module")?;
    Some(
        Setup::new()
            .root(site)
            .main(&format!("load_module {};", module.display()))
            .http(http)
            .http(&format!("server {{ listen 127.0.0.1:@PORT@; server_name localhost; root @ROOT@; {server} }}")),
    )
}

#[test]
fn values() {
    let site = with_database();
    let (mut variables, mut locations, mut cases) = (String::new(), String::new(), Vec::new());
    for (index, path) in PATHS.iter().enumerate() {
        variables += &format!("$with{index} default=none {path}; $without{index} {path};\n");
        locations += &format!("location = /{index} {{ return 200 \"$with{index}|$without{index}\"; }}\n");
        cases.push(get(&format!("/{index}")));
    }
    let Some(setup) = setup(&site, &format!("geoip2 @ROOT@/test.mmdb {{ auto_reload 1h; {variables} }}"), &locations)
    else {
        return;
    };
    compare(&setup, cases);
}

#[test]
fn addresses() {
    let site = with_database();
    let block = "geoip2 @ROOT@/test.mmdb { $own default=none country iso_code; $given default=none source=$arg_ip country iso_code;
                                          $both source=$arg_ip default=no country iso_code; $build metadata build_epoch; }
                 add_header Own $own always;";
    let server = "location / { return 200 $own; }
                  location /given { return 200 $given|$both|$build; }
                  location /real { set_real_ip_from 127.0.0.1; try_files /a.txt =404; }";
    let ips = [
        "1.2.3.4",
        "1.2.4.4",
        "01.2.3.4",
        "2001:db8::1",
        "2001:DB8::1",
        "9.9.9.9",
        "",
        "x",
        "127.0.0.1",
        "1.2.3",
        "1.2.3.4:80",
        "[2001:db8::1]",
        "unix:",
        "1.2.3.4,1.2.4.4",
    ];
    for (proxies, recursive) in [
        ("", "off"),
        ("geoip2_proxy 127.0.0.1; geoip2_proxy 1.2.0.0/16;", "off"),
        ("geoip2_proxy 127.0.0.1; geoip2_proxy 1.2.0.0/16;", "on"),
    ] {
        let http = format!("{block} {proxies} geoip2_proxy_recursive {recursive};");
        let Some(setup) = setup(&site, &http, server) else { return };
        let mut cases: Vec<Case> = vec![get("/"), get("/given")];
        for ip in ips {
            cases.push(get(&format!("/given?ip={ip}")));
            cases.push(get("/").field(&format!("X-Forwarded-For: {ip}")));
            let real = get("/real").field(&format!("X-Real-IP: {ip}"));
            cases.push(if ip.starts_with('[') {
                real.differs("since nginx 1.27.3 brackets need no port", "HTTP/1.1 200 OK")
            } else {
                real
            });
            cases.push(get("/").field(&format!("X-Forwarded-For: 2001:db8::9, {ip}")));
            let two = get("/").field("X-Forwarded-For: 2001:db8::9").field(&format!("X-Forwarded-For: {ip}, 1.2.4.4"));
            cases.push(match ip {
                "" => two.differs("nginx takes a comma at the very beginning for an address", "HTTP/1.1 200 OK"),
                _ => two,
            });
        }
        compare(&setup, cases);
    }
}

#[test]
fn directives_that_are_refused() {
    let Some(module) = require::nginx_module("ngx_http_geoip2_module") else { return };
    let site = with_database();
    let file = site.at("test.mmdb").display().to_string();
    let lines = [
        "geoip2;",
        "geoip2 FILE;",
        "geoip2 FILE FILE { }",
        "geoip2 FILE { }",
        "geoip2 FILE { a country; }",
        "geoip2 FILE { $a source=y country; }",
        "geoip2 FILE { $a source= country; }",
        "geoip2 FILE { $a default= country; }",
        "geoip2 FILE { $a source=$arg_x default=x country; }",
        "geoip2 FILE { $a; }",
        "geoip2 FILE { $a metadata last_check; $b metadata last_change; }",
        "geoip2 FILE { auto_reload; }",
        "geoip2 FILE { auto_reload 5m 6m; }",
        "geoip2 FILE { auto_reload 5m; }",
        "geoip2 FILE { foo bar; }",
        "geoip2 FILE { default=x $a; }",
        "geoip2 FILE { $ country; }",
        "geoip2 FILE { $a country; } geoip2 FILE { $b country; }",
        "geoip2 FILE { $uri country; }",
        "geoip2 FILE { $a country { } }",
        "geoip2_proxy;",
        "geoip2_proxy x;",
        "geoip2_proxy all;",
        "geoip2_proxy 127.0.0.1/8;",
        "geoip2_proxy ::1; geoip2_proxy 1.2.3.0/24;",
        "geoip2_proxy_recursive;",
        "geoip2_proxy_recursive x;",
        "geoip2_proxy_recursive on; geoip2_proxy_recursive on;",
        "server { geoip2_proxy 1.2.3.4; }",
    ];
    let whole = format!(
        "load_module {};\nevents {{ }}\nhttp {{\n@LINE@\nserver {{ listen 127.0.0.1:@PORT@; }}\n}}\n",
        module.display()
    );
    // The module says something to each of them: a silent refusal is none of these.
    let cases = lines.iter().map(|line| (line, whole.replace("@LINE@", &line.replace("FILE", &file))));
    compare_verdicts(cases, |_, Both { nginx, freerun }| nginx == freerun);
}
