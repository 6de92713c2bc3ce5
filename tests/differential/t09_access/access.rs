//! `allow`, `deny`, `auth_basic`, and `satisfy` between them.

use crate::harness::{Case, compare, get, head, raw, request};
use crate::site::{MTIME, site};
use crate::t02_configuration::checks::same_verdicts;
use freerun_testkit::{Setup, Site};

/// A line `Authorization` with these credentials.
fn basic(credentials: &str) -> String {
    format!("Authorization: Basic {}", base64(credentials.as_bytes()))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        for digit in 0..4 {
            let letter = char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]);
            out.push(if digit <= group.len() { letter } else { '=' });
        }
    }
    out
}

#[test]
fn rules() {
    let site = site();
    let mut lines = String::new();
    let mut cases = Vec::new();
    for (index, rules) in [
        "allow all;",
        "deny all;",
        "allow 127.0.0.1; deny all;",
        "deny 127.0.0.1; allow all;",
        "deny all; allow 127.0.0.1;",
        "allow 127.0.0.0/8; deny all;",
        "allow 127.0.0.1/8; deny all;",
        "allow 10.0.0.0/8; deny 127.0.0.0/25;",
        "deny 10.0.0.0/8;",
        "allow 10.0.0.0/8;",
        "allow 10.0.0.0/8; deny all;",
        "deny 127.0.0.2; allow 127.0.0.1; deny all;",
        "deny 127.0.0.0/31; allow all;",
        "deny 127.0.0.2/31; allow all;",
        "deny 0.0.0.0/0;",
        "deny ::/0;",
        "deny ::1; deny unix:;",
        "deny unix:; allow 127.0.0.1; deny all;",
        "deny ::ffff:127.0.0.1;",
        "allow ::ffff:127.0.0.1; deny all;",
        "deny 127.0.0.001;",
        "allow 127.0.0.1/032; deny all;",
    ]
    .iter()
    .enumerate()
    {
        lines += &format!("location = /{index} {{ {rules} try_files /a.txt =404; }}\n");
        cases.push(get(&format!("/{index}")));
    }
    cases.push(head("/1"));
    cases.push(request("POST", "/1").field("Content-Length: 3").body("abc"));
    cases.push(raw("GET /1 HTTP/1.0\r\n\r\n"));
    cases.push(raw("GET /1\r\n"));
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn where_rules_hold() {
    let site = site();
    let lines = "
        deny 127.0.0.1;
        location /own/ { allow all; try_files /a.txt =404; }
        location /inherits/ { try_files /a.txt =404; }
        location /deeper/ { allow all; location /deeper/denied/ { deny all; } try_files /a.txt =404; }
        location /returns { deny all; return 200 \"rewrite comes first\\n\"; }
        location /missing/ { deny all; }
        location /page/ { deny all; error_page 403 /own/page; }
        location /named/ { deny all; error_page 403 = @named; }
        location @named { allow all; try_files /dir/f.txt =404; }
        location /trap/ { deny all; error_page 403 /trap/page; }
        location = /from { allow all; try_files /none /inherits/x; }
        location = /index/ { allow all; index index.html; alias @ROOT@/dir/; }
        location = /index/index.html { deny all; }
    ";
    let mut cases: Vec<Case> = ["/own/x", "/inherits/x", "/deeper/x", "/deeper/denied/x", "/returns", "/missing/x"]
        .iter()
        .chain(&["/page/x", "/named/x", "/trap/x", "/from", "/index/", "/", "/none"])
        .map(|target| get(target))
        .collect();
    cases.push(head("/named/x"));
    cases.push(get("/own/x").field("If-None-Match: *"));
    cases.push(get("/missing/x").field("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT"));
    compare(&Setup::server(&site, lines), cases);
}

fn with_users() -> Site {
    let site = site();
    let users = "\
# a comment with a colon: {PLAIN}secret

des:abNANd1rDfiNc
md5:$1$saltsalt$9xy1btjgzLYfb7hivXtC//
apr1:$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0
sha256:$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2
sha512:$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN.Pq.H91p5hVO1
bcrypt:$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW
bcrypta:$2a$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW
bcryptb:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW
yescrypt:$y$j75$saltsalt$0gBD67sgmJgRX3RZ6wHHO7sHimQEWGCWN85o4Twogh2
bsdi:_J9..saltLXKE4peqNCg
plain:{PLAIN}secret
sha:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=
ssha:{SSHA}CDuiWnWDBXv9ypb9MCZlCz5DJCBzYWx0MQ==
bare:secret
empty:
emptyplain:{PLAIN}
shortsha:{SHA}abc
shortssha:{SSHA}YWJj
badssha:{SSHA}!!!!
lowersha:{sha}5en6G6MezRroT3XKqkdPOmY/BfQ=
star:*
badapr1:$apr1$
unknown:$9$x$y
one:x
nocolon
:{PLAIN}secret
  space:{PLAIN}secret
extra:{PLAIN}secret:more:fields
cr:{PLAIN}secret\r
dup:{PLAIN}one
dup:{PLAIN}secret
trailing:{PLAIN}secret\x20
inside:{PLAIN}sec ret
hash#in:{PLAIN}secret
colons:{PLAIN}a
last:{PLAIN}secret";
    site.dated("users", users, MTIME).dated("nobody", "", MTIME);
    site
}

const USERS: &[&str] = &[
    "des",
    "md5",
    "apr1",
    "sha256",
    "sha512",
    "bcrypt",
    "bcrypta",
    "bcryptb",
    "yescrypt",
    "bsdi",
    "plain",
    "sha",
    "ssha",
    "bare",
    "empty",
    "emptyplain",
    "shortsha",
    "shortssha",
    "badssha",
    "lowersha",
    "star",
    "badapr1",
    "unknown",
    "one",
    "nocolon",
    "",
    "space",
    "  space",
    "extra",
    "cr",
    "dup",
    "trailing",
    "inside",
    "hash#in",
    "last",
    "lastx",
    "nobody",
    "# a comment with a colon",
    "PLAIN",
    "plain ",
];

#[test]
fn passwords() {
    let site = with_users();
    let lines = "location / { auth_basic \"the realm\"; auth_basic_user_file @ROOT@/users; try_files /a.txt =404; }";
    let mut cases = Vec::new();
    for user in USERS {
        cases.push(get("/").field(&basic(&format!("{user}:secret"))));
        cases.push(get("/").field(&basic(&format!("{user}:wrong"))));
        cases.push(get("/").field(&basic(&format!("{user}:"))));
    }
    cases.extend([
        get("/").field(&basic("dup:one")),
        get("/").field(&basic("trailing:secret ")),
        get("/").field(&basic("inside:sec ret")),
        get("/").field(&basic("extra:secret:more:fields")),
        get("/").field(&basic("colons:a:b")),
        get("/").field(&basic("cr:secret\r")),
        get("/").field(&basic("pl\0ain:secret")),
        get("/").field(&basic(&format!("sha512:{}", "s".repeat(600)))),
        get("/").field(&basic(&format!("apr1:{}", "s".repeat(600)))),
        get("/").field(&basic(&format!("{}:x", "u".repeat(3000)))),
    ]);
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn credentials() {
    let site = with_users();
    let lines = "location / { auth_basic \"the realm\"; auth_basic_user_file @ROOT@/users; try_files /a.txt =404; }";
    let right = base64(b"plain:secret");
    let mut cases = vec![get("/"), head("/"), request("POST", "/").field("Content-Length: 3").body("abc")];
    for value in [
        "",
        "Basic",
        "Basic ",
        "Basic x",
        "Basic =",
        "Basic !!!",
        "Bearer x",
        "Digest username=\"plain\"",
        "basic cGxhaW46c2VjcmV0",
        "BASIC  cGxhaW46c2VjcmV0",
        "Basic cGxhaW4=",
        "Basic OnNlY3JldA==",
        "Basic cGxhaW46",
        "Basic cGxhaW46c2VjcmV0x",
        "Basic cGxhaW46c2VjcmV0 ",
        "Basic cGxhaW46c2VjcmV0====",
        "Basic cGxhaW46c2VjcmV0=x",
        "Basic _-_-cGxhaW46c2VjcmV0",
        "Basic\tcGxhaW46c2VjcmV0",
        "Basic cGxhaW46c2VjcmV0, Basic x",
        "Basiccccc",
        "Basic cGxhaW46c2V jcmV0",
    ] {
        cases.push(get("/").field(&format!("Authorization: {value}")));
    }
    cases.extend([
        head("/").field(&format!("Authorization: Basic {right}")),
        get("/").field(&format!("Authorization: Basic {right}")).field("Range: bytes=0-3"),
        raw(format!("GET / HTTP/1.0\r\nAuthorization: Basic {right}\r\n\r\n")),
        raw("GET / HTTP/1.0\r\n\r\n"),
        raw("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic cGxhaW46c2VjcmV0\r\n\r\n").responses(2),
    ]);
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn realms_files_and_inheritance() {
    let site = with_users();
    let lines = "
        location /quote { auth_basic 'a \"quoted\" realm'; auth_basic_user_file @ROOT@/users; }
        location /uri { auth_basic \"for $uri of $host\"; auth_basic_user_file @ROOT@/users; }
        location /empty { auth_basic ''; auth_basic_user_file @ROOT@/users; try_files /a.txt =404; }
        location /off { auth_basic off; auth_basic_user_file @ROOT@/users; try_files /a.txt =404; }
        location /var { auth_basic $arg_realm; auth_basic_user_file @ROOT@/users; try_files /a.txt =404; }
        location /nofile { auth_basic realm; try_files /a.txt =404; }
        location /norealm { auth_basic_user_file @ROOT@/users; try_files /a.txt =404; }
        location /missing { auth_basic realm; auth_basic_user_file @ROOT@/none; try_files /a.txt =404; }
        location /folder { auth_basic realm; auth_basic_user_file @ROOT@/dir; try_files /a.txt =404; }
        location /nobody { auth_basic realm; auth_basic_user_file @ROOT@/nobody; try_files /a.txt =404; }
        location /arg { auth_basic realm; auth_basic_user_file @ROOT@/$arg_file; try_files /a.txt =404; }
        location /outer/ {
            auth_basic outer; auth_basic_user_file @ROOT@/users;
            location /outer/inherits { try_files /a.txt =404; }
            location /outer/off { auth_basic off; try_files /a.txt =404; }
            location /outer/realm { auth_basic inner; try_files /a.txt =404; }
            location /outer/file { auth_basic_user_file @ROOT@/nobody; try_files /a.txt =404; }
        }
        location /page/ { auth_basic realm; auth_basic_user_file @ROOT@/users; error_page 401 /off; }
        location /page200/ { auth_basic realm; auth_basic_user_file @ROOT@/users; error_page 401 =200 /off; }
        location /named/ { auth_basic realm; auth_basic_user_file @ROOT@/users; error_page 401 = @named; }
        location @named { try_files /a.txt =404; }
        location /elsewhere/ { auth_basic realm; auth_basic_user_file @ROOT@/users; error_page 401 http://example.com/; }
        location /again/ { auth_basic realm; auth_basic_user_file @ROOT@/users; error_page 401 /again/page; }
        location /returns { auth_basic realm; auth_basic_user_file @ROOT@/users; return 200 first; }
    ";
    let right = basic("plain:secret");
    let mut cases = Vec::new();
    for target in [
        "/quote",
        "/uri",
        "/uri%0Ax",
        "/empty",
        "/off",
        "/var",
        "/var?realm=off",
        "/nofile",
        "/norealm",
        "/missing",
        "/folder",
        "/nobody",
        "/arg?file=users",
        "/arg?file=nobody",
        "/arg?file=none",
        "/arg",
        "/outer/inherits",
        "/outer/off",
        "/outer/realm",
        "/outer/file",
        "/page/x",
        "/page200/x",
        "/named/x",
        "/elsewhere/x",
        "/again/x",
        "/returns",
    ] {
        let case = get(target);
        cases.push(match target {
            "/uri%0Ax" => {
                case.differs("nginx sends the line end, and what follows it as a field", "HTTP/1.1 401 Unauthorized")
            }
            "/again/x" => case.differs("nginx sends the challenge twice", "HTTP/1.1 401 Unauthorized"),
            _ => case,
        });
        cases.push(get(target).field(&right));
    }
    cases.push(head("/page/x"));
    cases.push(head("/named/x"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn satisfy() {
    let site = with_users();
    let mut lines = "location @named { allow all; auth_basic off; try_files /a.txt =404; }\n".to_owned();
    let mut targets = Vec::new();
    for (mode, satisfy) in [("all", "satisfy all;"), ("any", "satisfy any;"), ("none", "")] {
        for (address, rules) in [
            ("allow", "allow 127.0.0.1; deny all;"),
            ("deny", "deny all;"),
            ("undecided", "allow 10.0.0.0/8;"),
            ("free", ""),
        ] {
            for (auth, basic) in [
                ("basic", "auth_basic realm; auth_basic_user_file @ROOT@/users;"),
                ("off", "auth_basic off; auth_basic_user_file @ROOT@/users;"),
                ("missing", "auth_basic realm; auth_basic_user_file @ROOT@/none;"),
                ("open", ""),
            ] {
                let name = format!("/{mode}/{address}/{auth}");
                // Which of the two is written first makes no difference.
                lines += &format!("location = {name} {{ {basic} {satisfy} {rules} try_files /a.txt =404; }}\n");
                targets.push(name);
            }
            lines += &format!(
                "location = /{mode}/{address}/page {{ auth_basic realm; auth_basic_user_file @ROOT@/users; {satisfy} {rules} \
                 error_page 401 403 @named; try_files /a.txt =404; }}\n"
            );
            targets.push(format!("/{mode}/{address}/page"));
        }
    }
    let mut cases = Vec::new();
    for target in &targets {
        cases.push(get(target));
        cases.push(get(target).field(&basic("plain:secret")));
        cases.push(get(target).field(&basic("sha512:secret")));
        cases.push(get(target).field(&basic("plain:wrong")));
    }
    compare(&Setup::server(&site, &lines), cases);
}

#[test]
fn delayed_refusals_are_the_same_refusals() {
    let site = with_users();
    let lines = "
        auth_delay 20ms;
        auth_basic realm; auth_basic_user_file @ROOT@/users;
        location / { try_files /a.txt =404; }
        location /any { satisfy any; deny all; try_files /a.txt =404; }
        location /deny { deny all; try_files /a.txt =404; }
        location /page { error_page 401 /free; }
        location /free { auth_basic off; auth_delay 0; try_files /a.txt =404; }
    ";
    let mut cases = Vec::new();
    for target in ["/", "/any", "/deny", "/page", "/free"] {
        cases.push(get(target));
        cases.push(get(target).field(&basic("plain:wrong")));
        cases.push(get(target).field(&basic("plain:secret")));
    }
    cases.push(request("POST", "/").field("Content-Length: 3").body("abc"));
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn directives_that_are_refused() {
    same_verdicts(&[
        "allow;",
        "allow x;",
        "allow 127.0.0.1/8;",
        "allow 127.0.0.1/33;",
        "deny a b;",
        "deny ::1/129;",
        "allow 2001::1/16;",
        "allow unix:/x;",
        "allow all; allow unix:; deny all;",
        "allow 10.0.0.0/0;",
        "allow 1.2.3;",
        "allow [::1];",
        "allow 10.0.0.0/255.0.0.0;",
        "allow 10.0.0.0/;",
        "allow 0.0.0.0/0; deny ::/0;",
        "allow 1.2.3.4/032;",
        "allow 1.2.3.4/+8;",
        "allow ::ffff:1.2.3.4/96;",
        "allow ALL;",
        "allow 0/0;",
        "deny 01.2.3.4;",
        "deny localhost;",
        "deny 1.2.3.4 {}",
        "auth_basic;",
        "auth_basic a b;",
        "auth_basic off; auth_basic x;",
        "auth_basic \"a $ b\";",
        "auth_basic_user_file;",
        "auth_basic_user_file a b;",
        "auth_basic_user_file x; auth_basic_user_file y;",
        "satisfy;",
        "satisfy foo;",
        "satisfy any; satisfy all;",
        "auth_delay;",
        "auth_delay x;",
        "auth_delay -1;",
        "auth_delay 1s; auth_delay 2s;",
        "auth_delay 1500ms; satisfy any; auth_basic off; auth_basic_user_file none; deny all;",
    ]);
}

#[test]
fn rules_for_some_methods_only() {
    let site = with_users();
    let lines = "
        location /get { limit_except GET { deny all; } try_files /a.txt =404; }
        location /post { limit_except POST { deny all; } try_files /a.txt =404; }
        location /allow { limit_except GET { allow 127.0.0.1; deny all; } try_files /a.txt =404; }
        location /basic { limit_except GET { auth_basic realm; auth_basic_user_file @ROOT@/users; } try_files /a.txt =404; }
        location /off { auth_basic realm; auth_basic_user_file @ROOT@/users; limit_except GET { auth_basic off; } try_files /a.txt =404; }
        location /both { deny all; limit_except GET { allow all; } try_files /a.txt =404; }
        location /any { satisfy any; auth_basic realm; auth_basic_user_file @ROOT@/users; limit_except GET { deny all; } try_files /a.txt =404; }
        location /page { limit_except GET { deny all; } error_page 403 /get; }
    ";
    let mut cases = Vec::new();
    for target in ["/get", "/post", "/allow", "/basic", "/off", "/both", "/any", "/page"] {
        cases.push(get(target));
        cases.push(head(target));
        cases.push(get(target).field(&basic("plain:secret")));
        for method in ["DELETE", "OPTIONS"] {
            cases.push(request(method, target));
            cases.push(request(method, target).field(&basic("plain:secret")));
            cases.push(request(method, target).field(&basic("plain:wrong")));
        }
    }
    compare(&Setup::server(&site, lines), cases);
}

#[test]
fn satisfy_with_requests_about_access() {
    let site = with_users();
    let mut lines = "location = /yes { return 204; } location = /no { return 403; } location = /who { return 401; } location = /broken { return 500; }
        location = /asks { auth_basic inner; auth_basic_user_file @ROOT@/users; try_files /a.txt =404; }\n"
        .to_owned();
    let mut cases = Vec::new();
    for satisfy in ["all", "any"] {
        for (rules, rule) in [("allow", "allow all;"), ("deny", "deny all;"), ("free", "")] {
            for asked in ["yes", "no", "who", "broken", "asks"] {
                for (auth, basic) in [("basic", "auth_basic realm; auth_basic_user_file @ROOT@/users;"), ("open", "")] {
                    let name = format!("/{satisfy}/{rules}/{asked}/{auth}");
                    lines += &format!(
                        "location = {name} {{ satisfy {satisfy}; {rule} {basic} auth_request /{asked}; try_files /a.txt =404; }}\n"
                    );
                    cases.push(get(&name));
                    cases.push(get(&name).field(&self::basic("plain:secret")));
                    cases.push(get(&name).field(&self::basic("plain:wrong")));
                }
            }
        }
    }
    compare(&Setup::server(&site, &lines), cases);
}
