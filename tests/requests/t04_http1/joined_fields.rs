//! Fields that several parts of the server add to one response: all of them arrive.

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site, TestUpstream};

#[test]
fn every_way_in_is_offered_where_one_is_enough() {
    let upstream = TestUpstream::answering(|_| {
        b"HTTP/1.1 401 No\r\nWWW-Authenticate: Digest q\r\nWWW-Authenticate: Basic realm=\"basic\"\r\nContent-Length: 0\r\n\r\n"
            .into()
    });
    let site = Site::new();
    site.file("users", "a:{PLAIN}p\n").file("keys", "{\"keys\":[]}");
    let lines = format!(
        "auth_basic basic; auth_basic_user_file @ROOT@/users; auth_jwt token; auth_jwt_key_file @ROOT@/keys;
         auth_request /asked; error_page 401 /page;
         location /any {{ satisfy any; }}
         location /denied {{ satisfy any; deny all; }}
         location /allowed {{ satisfy any; allow all; }}
         location /all {{ satisfy all; }}
         location /page {{ auth_basic off; auth_jwt off; auth_request off; return 200 page; }}
         location /asked {{ internal; auth_basic off; auth_jwt off; auth_request off; proxy_pass http://{}; }}",
        upstream.address()
    );
    let server = Setup::server(&site, &lines).in_process();
    let all = ["Basic realm=\"basic\"", "Bearer realm=\"token\"", "Digest q"];
    for (path, status, want) in
        [("/any", 401, &all[..]), ("/denied", 401, &all), ("/all", 401, &all[..1]), ("/allowed", 404, &[])]
    {
        let response = server.get(path);
        let mut got = response.all("www-authenticate");
        got.sort_unstable();
        assert_eq!((response.status, got), (status, want.to_vec()), "{path}");
        assert_eq!(response.text() == "page", status == 401, "{path}");
    }
}

#[test]
fn cookies_and_conditions_of_several_sources_are_all_sent() {
    let upstream = TestUpstream::answering(|_| {
        let fields = "Set-Cookie: app=1\r\nSet-Cookie: more=2\r\nVary: Cookie\r\nCache-Control: private\r\n";
        format!("HTTP/1.1 200 OK\r\n{fields}Content-Type: text/html\r\nContent-Length: 40\r\n\r\n{}", "body".repeat(10))
            .into()
    });
    let group = format!("upstream u {{ server {}; sticky cookie route; }}", upstream.address());
    let lines = "gzip on; gzip_vary on; gzip_min_length 1; userid on; userid_name uid;
         add_header Set-Cookie added=3; add_header Vary Origin; add_header Cache-Control no-transform;
         location / { proxy_pass http://u; }";
    let server = Setup::server(&Site::new(), lines).http(&group).in_process();
    let response = server.get("/");
    let mut cookies: Vec<&str> =
        response.all("set-cookie").iter().filter_map(|cookie| cookie.split('=').next()).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, ["added", "app", "more", "route", "uid"]);
    let mut vary = response.all("vary");
    vary.sort_unstable();
    assert_eq!(vary, ["Accept-Encoding", "Cookie", "Origin"]);
    assert_eq!(response.all("cache-control"), ["private", "no-transform"]);
}

/// What a client puts into a realm stays between its quotes; a constant realm is the administrator's.
#[test]
fn a_realm_with_variables_ends_where_it_should() {
    let site = Site::new();
    site.file("users", "a:{PLAIN}p\n").file("keys", "{\"keys\":[]}");
    let lines = "location /basic { auth_basic \"r $http_x_r\"; auth_basic_user_file @ROOT@/users; }
         location /token { auth_jwt \"r $http_x_r\"; auth_jwt_key_file @ROOT@/keys; }
         location /constant { auth_basic 'say \\\\\"hi\\\\\"'; auth_basic_user_file @ROOT@/users; }";
    let server = Setup::server(&site, lines).in_process();
    let evil = "X-R: a\", Digest \\q\r\n";
    let challenge = |path: &str| server.get_with(path, evil).header("www-authenticate").map(str::to_owned);
    assert_eq!(challenge("/basic").as_deref(), Some("Basic realm=\"r a\\\", Digest \\\\q\""));
    assert_eq!(challenge("/token").as_deref(), Some("Bearer realm=\"r a\\\", Digest \\\\q\""));
    assert_eq!(challenge("/constant").as_deref(), Some("Basic realm=\"say \\\"hi\\\"\""));
}

/// A password with a NUL is another one than the part in front of it (RFC 7617 section 2).
#[test]
fn a_password_does_not_end_at_a_nul() {
    let site = Site::new();
    site.file(
        "users",
        "plain:{PLAIN}p\nsha:{SHA}UWuXg/ylF+7L0dBk2i0WUxCxl1k=\napr:$apr1$saltsalt$DvQTBz1xHwXJP55FHhmOj.\n",
    );
    site.file("f", "in");
    let server = Setup::server(&site, "auth_basic r; auth_basic_user_file @ROOT@/users;").in_process();
    for user in ["plain", "sha", "apr"] {
        let get = |password: &str| {
            let value = base64(format!("{user}:{password}").as_bytes());
            server.get_with("/f", &format!("Authorization: Basic {value}\r\n")).status
        };
        assert_eq!((get("p"), get("p\0anything"), get("p\0")), (200, 401, 401), "{user}");
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let all = three.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for place in 0..4 {
            let digit = DIGITS[(all >> (18 - 6 * place)) as usize & 63];
            out.push(if place > three.len() { '=' } else { char::from(digit) });
        }
    }
    out
}
