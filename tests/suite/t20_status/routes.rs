//! The list of servers and locations, and what the page may change.

use freerun_testkit::{Setup, TestServer, require};
use serde_json::Value;

fn json(server: &TestServer, target: &str) -> Value {
    let response = server.get(target);
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")), "{target}");
    serde_json::from_slice(&response.body).expect("JSON")
}

#[test]
fn locations_are_listed_with_what_they_do_and_no_secrets() {
    if !require::freerun() {
        return;
    }
    let many: String = (0..3000).map(|number| format!("location /many/{number} {{ return 204; }}\n")).collect();
    let server = Setup::new()
        .http(&format!(
            "root /srv/files;
             server {{ listen 127.0.0.1:@PORT@; server_name shop.example www.shop.example;
                 location = /status {{ status; }} location /api {{ api; }}
                 location /app/ {{ proxy_pass http://127.0.0.1:@PORT9@/; proxy_set_header X-Key password2;
                     allow 127.0.0.1; deny all; }}
                 location ~ \\.php$ {{ if ($http_authorization = password3) {{ return 403; }} fastcgi_pass 127.0.0.1:@PORT9@; }}
                 location /old {{ return 301 https://shop.example/new?key=password4; }}
                 location /moved {{ return 302 https://user:password1@other.example/x; }}
                 location /text {{ return 200 password5; }}
                 location ^~ /img/ {{ expires 1h; location /img/inner {{ internal; }} }}
                 {many} }}"
        ))
        .freerun();
    let list = json(&server, "/status?routes=on");
    assert_eq!(list, json(&server, "/api/freerun/1/routes"));
    let text = list.to_string();
    assert!(!text.contains("password"), "{}", &text[..4000]);
    let routes = list["routes"].as_array().expect("a list");
    assert_eq!((routes.len(), &list["left_out"]), (3010, &0.into()));
    let port = server.port_number(9);
    for (kind, path, directives) in [
        ("server", "", vec!["root /srv/files".to_owned()]),
        ("exact", "/status", vec!["status".to_owned()]),
        (
            "prefix",
            "/app/",
            vec![format!("proxy_pass http://127.0.0.1:{port}/"), "allow 127.0.0.1".to_owned(), "deny all".to_owned()],
        ),
        ("regex", "\\.php$", vec!["if".to_owned(), format!("fastcgi_pass 127.0.0.1:{port}")]),
        ("prefix", "/old", vec!["return 301 https://shop.example/new?…".to_owned()]),
        ("prefix", "/moved", vec!["return 302 https://…@other.example/x".to_owned()]),
        ("prefix", "/text", vec!["return 200".to_owned()]),
        ("final", "/img/", vec!["expires 1h".to_owned(), "root /srv/files".to_owned()]),
        ("prefix", "/img/inner", vec!["internal".to_owned(), "root /srv/files".to_owned()]),
        ("prefix", "/many/2999", vec!["return 204".to_owned()]),
    ] {
        let found = routes.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{path} is missing"));
        assert_eq!((found["kind"].as_str(), &found["directives"]), (Some(kind), &Value::from(directives)), "{path}");
        assert_eq!(found["server"], "shop.example www.shop.example");
        assert!(found["place"].as_str().is_some_and(|place| place.contains("nginx.conf:")), "{found}");
    }
    // A reload brings the new list.
    server.edit("location /text ", "location /words ");
    server.reload();
    freerun_testkit::eventually("the new list", || {
        json(&server, "/status?routes=on").to_string().contains("\"/words\"")
    });
}

#[test]
fn the_page_knows_an_api_that_may_change_something() {
    if !require::freerun() {
        return;
    }
    let server = Setup::new()
        .http(
            "server { listen 127.0.0.1:@PORT@; location = /status { status; } location /tools/api/ { api write=on; } }
             server { listen 127.0.0.1:@PORT2@; location = /status { status; } location /tools/api/ { api; } }
             server { listen 127.0.0.1:@PORT3@; location = /status { status; } location = /tools/api/ { api write=on; } }
             server { listen 127.0.0.1:@PORT4@; location = /status { status; }
                 location /tools/api/ { internal; api write=on; } }
             server { listen 127.0.0.1:@PORT5@; location = /status { status; } location ~ ^/tools { api write=on; } }",
        )
        .freerun();
    let page = |port: u16| {
        let mut client = freerun_testkit::TestClient::connect(([127, 0, 0, 1], port).into());
        client.send("GET /status HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n");
        let response = client.response();
        assert_eq!(response.status, 200);
        let policy = response.header("content-security-policy").expect("a policy").to_owned();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        response.text()
    };
    let known = "<html lang=\"en\" data-api=\"/tools/api\">";
    assert!(page(server.port()).contains(known));
    for number in 2..=5 {
        assert!(page(server.port_number(number)).contains("<html lang=\"en\">"), "{number}");
    }
}

#[test]
fn the_log_says_who_has_changed_what() {
    if !require::freerun() {
        return;
    }
    let site = freerun_testkit::Site::new();
    site.file("users", "anna:{PLAIN}secret\n");
    let server =
        Setup::server(&site, "location /api { api write=on; auth_basic tools; auth_basic_user_file @ROOT@/users; }")
            .http("upstream app { zone app 64k; server 127.0.0.1:@PORT9@; }")
            .freerun();
    let call = |method: &str, path: &str, body: &str| {
        let text = format!(
            "{method} /api/9/http/upstreams/app/servers{path} HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Basic YW5uYTpzZWNyZXQ=\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let response = server.send(text);
        (response.status, serde_json::from_slice::<Value>(&response.body).expect("JSON"))
    };
    let (status, servers) = call("GET", "", "");
    assert_eq!(status, 200, "{servers}");
    let id = servers[0]["id"].to_string();
    let (status, changed) = call("PATCH", &format!("/{id}"), "{\"drain\":true}");
    assert_eq!((status, &changed["drain"]), (200, &true.into()), "{changed}");
    let dead = server.address_number(9);
    server.logs(&format!(
        "api: upstream \"app\": server {dead} is changed: {{\"drain\":true}}, by user \"anna\", client: 127.0.0.1"
    ));
    let (status, changed) = call("PATCH", &format!("/{id}"), "{\"drain\":false,\"weight\":7}");
    assert_eq!((status, &changed["weight"], &changed["drain"]), (200, &7.into(), &Value::Null), "{changed}");
    server.logs("\"weight\":7}, by user \"anna\"");
    assert!(!server.error_log().contains("secret"));
}
