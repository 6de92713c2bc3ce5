//! `auth_jwt`, `auth_require`, `num_map` and `internal_redirect`, which nginx has in its commercial version only: what its
//! documentation says is the measure. The tokens and keys beside this file were made with other libraries (Python's
//! `cryptography` and `jwcrypto`).

mod encrypted;

use crate::worker::InProcess;
use freerun_testkit::{Setup, Site, TestServer};
use std::collections::BTreeMap;

const KEYS: &str = include_str!("keys.json");

fn tokens() -> BTreeMap<String, String> {
    serde_json::from_str(include_str!("tokens.json")).expect("tokens")
}

fn site() -> Site {
    let site = Site::new();
    site.file("keys.json", KEYS)
        .file("bad.json", "{")
        .file("other.json", r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#)
        .file("index.html", "in");
    site
}

fn serving(site: &Site, http: &str, lines: &str) -> TestServer {
    let http = format!("{http} server {{ listen 127.0.0.1:@PORT@; root @ROOT@; {lines} }}");
    Setup::new().root(site).http(&http).in_process()
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

#[test]
fn tokens_of_every_algorithm_are_checked() {
    let site = site();
    let server = serving(&site, "", "auth_jwt \"closed site\"; auth_jwt_key_file @ROOT@/keys.json;");
    let mut wrong = Vec::new();
    for (name, token) in tokens() {
        let refused =
            ["expired", "early", "exp is no number", "none", "HS256 by a public key", "HS256 with another kid"];
        let wanted = if refused.contains(&name.as_str()) { 401 } else { 200 };
        let response = server.get_with("/", &bearer(&token));
        if response.status != wanted {
            wrong.push(format!("{name}: {}", response.status));
        }
        // The signature with its first byte changed.
        let (signed, signature) = token.rsplit_once('.').expect("three parts");
        let other = if signature.starts_with('A') { "B" } else { "A" };
        let changed = format!("{signed}.{other}{}", signature.get(1..).unwrap_or_default());
        if server.get_with("/", &bearer(&changed)).status != 401 {
            wrong.push(format!("{name}, changed"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    let response = server.get("/");
    assert_eq!((response.status, response.header("WWW-Authenticate")), (401, Some("Bearer realm=\"closed site\"")));
    let response = server.get_with("/", &bearer(&tokens()["expired"]));
    assert_eq!(response.header("WWW-Authenticate"), Some("Bearer realm=\"closed site\",error=\"invalid_token\""));
    server.logs("JWT validation failed: the token has expired");
    for wrong in ["", "a.b.c", "Basic YTpi"] {
        assert_eq!(server.get_with("/", &bearer(wrong)).status, 401, "{wrong}");
    }
}

#[test]
fn keys_come_from_files_and_subrequests_and_are_kept() {
    let site = site();
    let server = serving(
        &site,
        "auth_jwt realm;",
        "location /none { try_files /index.html =404; }
         location /bad { auth_jwt_key_file @ROOT@/bad.json; try_files /index.html =404; }
         location /missing { auth_jwt_key_file @ROOT@/missing.json; try_files /index.html =404; }
         location /two { auth_jwt_key_file @ROOT@/other.json; auth_jwt_key_file @ROOT@/$arg_name.json; try_files /index.html =404; }
         location /asked { auth_jwt_key_request /keys?$arg_name; try_files /index.html =404; }
         location /nowhere { auth_jwt_key_request /nothing; try_files /index.html =404; }
         location /kept { auth_jwt_key_file @ROOT@/changing.json; auth_jwt_key_cache 1h; try_files /index.html =404; }
         location /fresh { auth_jwt_key_file @ROOT@/changing.json; open_file_cache off; try_files /index.html =404; }
         location /both { satisfy any; deny all; auth_jwt_key_file @ROOT@/keys.json; try_files /index.html =404; }
         location /open { auth_jwt off; try_files /index.html =404; }
         location /cookie { auth_jwt realm token=$cookie_token; auth_jwt_key_file @ROOT@/keys.json; try_files /index.html =404; }
         location = /keys { internal; auth_jwt off; try_files /$args.json =404; }",
    );
    let token = &tokens()["ES256"];
    let status = |path: &str| server.get_with(path, &bearer(token)).status;
    for (path, wanted) in [
        ("/none", 500),
        ("/bad", 500),
        ("/missing", 500),
        ("/two?name=keys", 200),
        ("/two?name=bad", 500),
        ("/asked?name=keys", 200),
        ("/asked?name=other", 401),
        ("/asked?name=bad", 500),
        ("/nowhere", 500),
        ("/both", 200),
        ("/open", 200),
        ("/cookie", 401),
        ("/keys?keys", 404),
    ] {
        assert_eq!(status(path), wanted, "{path}");
    }
    assert_eq!(server.get_with("/cookie", &format!("Cookie: token={token}\r\n")).status, 200);
    assert_eq!(server.get("/both").status, 401);
    site.file("changing.json", KEYS);
    assert_eq!((status("/kept"), status("/fresh")), (200, 200));
    site.file("changing.json", r#"{"keys":[]}"#);
    assert_eq!((status("/kept"), status("/fresh")), (200, 401));
}

#[test]
fn claims_are_variables_and_can_be_required() {
    let site = site();
    let server = serving(
        &site,
        "auth_jwt_claim_set $mail info e-mail; auth_jwt_claim_set $roles roles; auth_jwt_claim_set $none info nothing;
         auth_jwt_header_set $algorithm alg; map $jwt_claim_sub $is_user { user 1; default 0; }",
        "auth_jwt realm; auth_jwt_key_file @ROOT@/keys.json;
         location = /shown { add_header Claims \"$jwt_claim_sub|$jwt_claim_userid|$jwt_header_kid|$mail|$roles|$none|$algorithm|$jwt_payload|\" always;
                             try_files /index.html =404; }
         location /admin { auth_jwt_require $jwt_claim_admin error=403; try_files /index.html =404; }
         location /user { auth_jwt_require $is_user$jwt_claim_admin $jwt_claim_exp; try_files /index.html =404; }
         location /leeway { auth_jwt_leeway 200000d; try_files /index.html =404; }",
    );
    let tokens = tokens();
    let get = |path: &str, token: &str| server.get_with(path, &bearer(&tokens[token]));
    let shown = get("/shown", "RS256");
    assert_eq!(shown.header("Claims"), Some("user|7|r|a@b|a,b||RS256||"));
    assert_eq!(get("/shown", "no exp").header("Claims"), Some("forever||h||||HS256||"));
    for (path, token, wanted) in [
        ("/admin", "HS256", 200),
        ("/admin", "no admin", 403),
        ("/admin", "no exp", 403),
        ("/user", "HS256", 200),
        ("/user", "no exp", 401),
        ("/leeway", "expired", 200),
        ("/leeway", "early", 200),
    ] {
        assert_eq!(get(path, token).status, wanted, "{path} {token}");
    }
}

#[test]
fn a_request_goes_on_elsewhere_once_it_was_let_in() {
    let site = site();
    let server = serving(
        &site,
        "limit_req_zone $jwt_claim_sub zone=users:1m rate=1r/m;",
        "location / { auth_jwt realm; auth_jwt_key_file @ROOT@/keys.json; internal_redirect @limited; }
         location @limited { limit_req zone=users burst=1 nodelay; try_files /index.html =404; }
         location /uri { internal_redirect $arg_to; try_files /index.html =404; }
         location /there { return 200 \"$uri $args\"; }
         location /loop { internal_redirect /loop; }",
    );
    let tokens = tokens();
    let statuses: Vec<u16> = (0..3).map(|_| server.get_with("/", &bearer(&tokens["HS256"])).status).collect();
    assert_eq!(statuses, [200, 200, 503]);
    // A token that is not valid does not count as a request of its user, whatever it says.
    assert_eq!(server.get_with("/", &bearer(&tokens["expired"])).status, 401);
    assert_eq!(server.get_with("/", &bearer(&tokens["no exp"])).status, 200);
    assert_eq!(server.get("/uri?to=/there?a=b").text(), "/there a=b");
    assert_eq!(server.get("/uri").text(), "in");
    assert_eq!((server.get("/uri?to=/a/../b").status, server.get("/loop").status), (500, 500));
}

#[test]
fn values_are_required_and_numbers_are_mapped() {
    let site = site();
    site.file("ranges", "600 included;\n");
    let server = serving(
        &site,
        "num_map $arg_n $range { default other; include @ROOT@/ranges; 80 http; 443 https; <=-5 low; <=1023 \"system $arg_n\"; 8080-8090 alternative; >60000 high; }
         num_map $arg_n $none { 5 five; }",
        "location /map { return 200 \"$range|$none\"; }
         location /closed { auth_require $arg_a $arg_b; try_files /index.html =404; location /closed/open { auth_require off; try_files /index.html =404; } }
         location /teapot { auth_require $arg_a error=418; try_files /index.html =404; }",
    );
    for (number, wanted) in [
        ("80", "http|"),
        ("600", "included|"),
        ("443", "https|"),
        ("5", "system 5|five"),
        ("-7", "low|"),
        ("-4", "system -4|"),
        ("8080", "alternative|"),
        ("8090", "alternative|"),
        ("8091", "other|"),
        ("60000", "other|"),
        ("60001", "high|"),
        ("", "other|"),
        ("5x", "other|"),
        ("99999999999999999999", "other|"),
    ] {
        assert_eq!(server.get(&format!("/map?n={number}")).text(), wanted, "{number}");
    }
    for (target, wanted) in [
        ("/closed?a=1&b=x", 200),
        ("/closed?a=1&b=0", 403),
        ("/closed?a=1", 403),
        ("/closed/open", 200),
        ("/teapot?a=0", 418),
        ("/teapot?a=1", 200),
    ] {
        assert_eq!(server.get(target).status, wanted, "{target}");
    }
}
