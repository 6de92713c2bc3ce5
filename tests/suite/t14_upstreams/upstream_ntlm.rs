//! `ntlm`: who has authenticated a connection keeps it, and nobody else gets it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use freerun_testkit::{Peer, Setup, TestClient, TestServer, TestUpstream, eventually, ok, require};

/// A server that knows by the connection who asks: it answers with its name, the connection's number and the user. It ends the
/// connection after a request for `/bye`.
struct Knowing {
    name: &'static str,
    address: String,
    open: Arc<Mutex<BTreeSet<usize>>>,
}

impl Knowing {
    fn new(name: &'static str) -> Knowing {
        let upstream = TestUpstream::new();
        let (address, open) = (upstream.address(), Arc::<Mutex<BTreeSet<usize>>>::default());
        let all = open.clone();
        std::thread::spawn(move || {
            for number in 1.. {
                let Some(peer) = upstream.try_accept(std::time::Duration::from_secs(3600)) else { break };
                all.lock().expect("the open ones").insert(number);
                let all = all.clone();
                std::thread::spawn(move || {
                    // Nothing but the server under test ends a connection.
                    serve(peer.patient(), name, number);
                    all.lock().expect("the open ones").remove(&number);
                });
            }
        });
        Knowing { name, address, open }
    }

    /// The connections that are open, as answers name them.
    fn open(&self) -> BTreeSet<String> {
        self.open.lock().expect("the open ones").iter().map(|number| format!("{} {number}", self.name)).collect()
    }
}

fn serve(mut peer: Peer, name: &str, number: usize) {
    let mut user = "-".to_owned();
    while let Some(request) = peer.try_request() {
        if request.target() == "/bye" {
            peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbye");
            return;
        }
        match request.header("authorization").map(|value| value.split_once(' ').unwrap_or_default()) {
            Some((_, "hello")) => {
                peer.send("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM prove-it\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            Some((_, proof)) => user = proof.to_owned(),
            None => {}
        }
        peer.send(ok(format!("{name} {number} {user}")));
    }
}

fn passing(loops: usize, group: &str) -> Setup {
    Setup::new().main(&format!("worker_processes {loops};")).http(&format!(
        "upstream g {{ {group} ntlm; }}
         server {{ listen 127.0.0.1:@PORT@; location / {{ proxy_pass http://g; }} location /other {{ proxy_pass http://g; }} }}"
    ))
}

fn get(client: &mut TestClient, target: &str, fields: &str) -> freerun_testkit::Response {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
    client.response()
}

/// Authenticates the client's connection; what the server says of it from then on.
fn authenticate(client: &mut TestClient, scheme: &str, user: &str) -> String {
    let challenge = get(client, "/", &format!("Authorization: {scheme} hello\r\n"));
    assert_eq!((challenge.status, challenge.header("www-authenticate")), (401, Some("NTLM prove-it")));
    get(client, "/", &format!("Authorization: {scheme} {user}\r\n")).text()
}

fn two(loops: usize) -> (Knowing, Knowing, TestServer) {
    let (one, two) = (Knowing::new("one"), Knowing::new("two"));
    let server =
        passing(loops, &format!("server {}; server {}; keepalive 16; keepalive_timeout 1h;", one.address, two.address))
            .freerun();
    (one, two, server)
}

#[test]
fn who_has_authenticated_a_connection_keeps_it() {
    if !require::freerun() {
        return;
    }
    let (one, two, server) = two(2);
    let mut clients: Vec<(TestClient, String)> = Vec::new();
    for (scheme, user) in [("NTLM", "ann"), ("Negotiate", "bob"), ("ntlm", "cy")] {
        let mut client = server.connect();
        // What comes before does not count.
        assert!(get(&mut client, "/", "").text().ends_with(" -"));
        let known = authenticate(&mut client, scheme, user);
        assert!(known.ends_with(user), "{known}");
        clients.push((client, known));
    }
    for round in 0..5 {
        for (client, known) in &mut clients {
            let target = if round % 2 == 0 { "/" } else { "/other" };
            assert_eq!(get(client, target, "").text(), *known);
            let stranger = server.get("/").text();
            assert!(stranger.ends_with(" -"), "{stranger}");
        }
    }
    // Their connections end with them; nobody else's do.
    let open = || &one.open() | &two.open();
    let connection = |known: &str| known.rsplit_once(' ').map(|(connection, _)| connection.to_owned());
    let theirs: BTreeSet<String> = clients.iter().filter_map(|(_, known)| connection(known)).collect();
    let before = open();
    assert!(theirs.len() == 3 && theirs.is_subset(&before), "{theirs:?} of {before:?}");
    drop(clients);
    eventually("their connections have ended", || open().is_disjoint(&theirs));
    assert_eq!(open(), &before - &theirs);
    for _ in 0..8 {
        assert!(server.get("/").text().ends_with(" -"));
    }
}

#[test]
fn a_connection_that_ends_has_to_be_authenticated_again() {
    if !require::freerun() {
        return;
    }
    let (_one, _two, server) = two(1);
    let mut client = server.connect();
    let known = authenticate(&mut client, "NTLM", "ann");
    assert_eq!(get(&mut client, "/", "").text(), known);
    assert_eq!(get(&mut client, "/bye", "").text(), "bye");
    // On another connection, the one that asks is unknown.
    assert!(get(&mut client, "/", "").text().ends_with(" -"));
    let again = authenticate(&mut client, "NTLM", "ann");
    assert!(again.ends_with(" ann") && again != known, "{again}");
    assert_eq!(get(&mut client, "/", "").text(), again);
    // A reload changes nothing for who is there.
    server.reload();
    assert_eq!(get(&mut client, "/", "").text(), again);
}
