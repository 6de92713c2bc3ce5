//! The client with a real CA: Pebble.

mod ca;
#[path = "../sender/mod.rs"]
mod sender;
mod server;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ca::Ca;
use freerun_acme::{
    AccountKey, Acme, CertificateSettings, CertificateState, CertificateStatus, ChallengeKind, ExternalAccount,
    Identifier, IssuerSettings, KeyKind, Profile,
};
use freerun_testkit::{TempDir, require, within};
use server::Server;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86400);

fn issuer(ca: &Ca, state: Option<&Path>) -> IssuerSettings {
    IssuerSettings {
        contacts: vec!["mailto:admin@localhost.example".to_owned()],
        trusted: Some(ca.root.clone().into_bytes()),
        state_path: state.map(Path::to_path_buf),
        accepts_terms: true,
        ..IssuerSettings::new("pebble", &ca.uri())
    }
}

fn certificate(identifiers: &[&str]) -> CertificateSettings {
    let identifiers = identifiers.iter().map(|text| Identifier::parse(text).expect("an identifier")).collect();
    CertificateSettings { issuer: "pebble".to_owned(), identifiers, key: KeyKind::EcdsaP256 }
}

/// A client with one CA and one certificate.
struct Client {
    server: Server,
    acme: Acme,
    issuer: IssuerSettings,
    certificate: CertificateSettings,
}

impl Client {
    fn new(ca: &Ca, issuer: IssuerSettings, identifiers: &[&str]) -> Client {
        Client::of(Server::answering(ca), issuer, identifiers)
    }

    fn of(server: Server, issuer: IssuerSettings, identifiers: &[&str]) -> Client {
        let acme = Acme::new(Arc::new(server.clone()));
        let client = Client { server, acme, issuer, certificate: certificate(identifiers) };
        client.reload();
        client
    }

    /// Also makes the client look at the clock.
    fn reload(&self) {
        self.acme.update(vec![self.issuer.clone()], vec![self.certificate.clone()]).expect("a thread");
    }

    fn later(&self, by: Duration) {
        self.server.later(by);
        self.reload();
    }

    fn status(&self) -> CertificateStatus {
        self.acme.status().pop().expect("one certificate")
    }

    #[track_caller]
    fn until(&self, what: &str, mut holds: impl FnMut(&Client) -> bool) {
        let patience = Duration::from_secs(60);
        assert!(within(patience, || holds(self)), "{what}: {:?}\n{}", self.status(), self.server.log());
    }

    /// Waits until so many certificates were issued.
    #[track_caller]
    fn until_issued(&self, count: usize) {
        self.until("issued", |client| {
            client.server.issued().len() == count && client.status().state == CertificateState::Valid
        });
    }

    #[track_caller]
    fn until_failed(&self, text: &str) {
        self.until(text, |client| client.status().last_error.is_some_and(|error| error.contains(text)));
    }
}

#[test]
fn http_01_gives_a_certificate_that_is_kept_on_disk() {
    let Some(program) = ca::program() else { return };
    let (ca, state) = (Ca::started(), TempDir::new("state"));
    let folder = state.path().join("acme_pebble");
    let client = Client::new(&ca, issuer(&ca, Some(&folder)), &["localhost", "127.0.0.1"]);
    client.until_issued(1);
    let status = client.status();
    assert_eq!((status.last_error, client.server.challenges()), (None, 0));
    assert!(status.not_after.expect("an end") > std::time::SystemTime::now() + 80 * DAY);
    let pair = client.server.issued().remove(0);
    assert_eq!(pair.chain.matches("BEGIN CERTIFICATE").count(), 2);
    // Another run has it at once, and asks the CA for nothing.
    client.acme.stop();
    let server = Server::default();
    let again = Acme::new(Arc::new(server.clone()));
    assert_eq!(again.load(&client.issuer, &client.certificate), Some(pair.clone()));
    assert_eq!(again.load(&client.issuer, &certificate(&["localhost"])), None);
    let again = Client::of(server, client.issuer.clone(), &["localhost", "127.0.0.1"]);
    again.until("it is known", |client| client.status().state == CertificateState::Valid);
    if program.complete {
        again.until("the CA's window is known", |client| client.status().renewal_window.is_some());
    }
    // It is handed over as it was; an order would have given another one, and a line in the log.
    assert_eq!((again.status().state, again.server.issued()), (CertificateState::Valid, vec![pair]));
    assert_eq!(again.server.log(), "");
}

#[test]
fn tls_alpn_01_gives_a_certificate() {
    let Some(program) = ca::program() else { return };
    let mut ca = Ca::new(
        r#", "profiles": {"default": {"description": "90 days", "validityPeriod": 7776000},
        "short": {"description": "6 days", "validityPeriod": 518400}}"#,
    );
    ca.start();
    let issuer = IssuerSettings {
        challenge: ChallengeKind::TlsAlpn01,
        profile: Some(Profile { name: "short".to_owned(), required: program.complete }),
        common_name_in_csr: true,
        ..issuer(&ca, None)
    };
    let client = Client::new(&ca, issuer, &["localhost", "127.0.0.1"]);
    client.until_issued(1);
    assert_eq!(client.server.challenges(), 0);
    // The profile's lifetime.
    assert!(!program.complete || client.status().not_after.expect("an end") < std::time::SystemTime::now() + 7 * DAY);
}

#[test]
fn external_accounts_are_bound() {
    let Some(_) = ca::program() else { return };
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
    let mut ca = Ca::new(&format!(
        r#", "externalAccountBindingRequired": true, "externalAccountMACKeys": {{"kid-1": "{key}"}}"#
    ));
    ca.start();
    let client = Client::new(&ca, issuer(&ca, None), &["localhost"]);
    client.until_failed("externalAccountRequired");
    let external = ExternalAccount { kid: "kid-1".to_owned(), key: (0..32).collect::<Vec<u8>>().into() };
    let client =
        Client { issuer: IssuerSettings { external_account: Some(external), ..client.issuer.clone() }, ..client };
    client.reload();
    client.until_issued(1);
}

#[test]
fn a_certificate_is_renewed_by_its_lifetime_and_by_the_ca_s_window() {
    let Some(program) = ca::program() else { return };
    if !require::need("pebble-ari", program.complete, "this Pebble has no renewal information") {
        return;
    }
    let (ca, state) = (Ca::started(), TempDir::new("state"));
    let client = Client::new(&ca, issuer(&ca, Some(state.path())), &["localhost"]);
    client.until_issued(1);
    client.until("the CA's window is known", |client| client.status().renewal_window.is_some());
    // The CA wants it back at once. An order that replaces it is one that Pebble checks.
    let chain = client.server.issued().remove(0).chain;
    let first = &chain[..chain.find("-----END CERTIFICATE-----").expect("a certificate") + 26];
    let window = r#"{\"suggestedWindow\":{\"start\":\"2020-01-01T00:00:00Z\",\"end\":\"2020-01-02T00:00:00Z\"}}"#;
    let body = format!(r#"{{"Certificate": "{}", "ARIResponse": "{window}"}}"#, first.replace('\n', "\\n"));
    ca.manage("POST", "/set-renewal-info/", &body);
    client.later(25 * HOUR);
    client.until_issued(2);
    client.until("the CA's window is known", |client| client.status().renewal_window.is_some());
    // Near the end, which is after the end of any window.
    client.later(89 * DAY);
    client.until_issued(3);
    let issued = client.server.issued();
    assert!(issued[0] != issued[1] && issued[1] != issued[2]);
    assert_eq!(client.acme.load(&client.issuer, &client.certificate).as_ref(), issued.last());
}

#[test]
fn a_ca_that_was_down_or_has_forgotten_the_account_is_asked_again() {
    let Some(_) = ca::program() else { return };
    let (mut ca, state) = (Ca::new(""), TempDir::new("state"));
    let client = Client::new(&ca, issuer(&ca, Some(state.path())), &["localhost"]);
    client.until_failed("connecting to");
    assert_eq!(client.status().state, CertificateState::Failed);
    ca.start();
    client.later(10 * HOUR);
    client.until_issued(1);
    // It knows no accounts when it is started again.
    ca.start();
    client.later(89 * DAY);
    client.until_issued(2);
    assert!(client.server.logged("does not accept the account any more"), "{}", client.server.log());
}

#[test]
fn an_own_key_finds_its_account_and_is_not_replaced() {
    let Some(_) = ca::program() else { return };
    let mut ca = Ca::started();
    let key = rcgen::KeyPair::generate().expect("a key").serialize_pem().into_bytes();
    let issuer = IssuerSettings { account_key: AccountKey::Pem(key.into()), ..issuer(&ca, None) };
    let client = Client::new(&ca, IssuerSettings { accepts_terms: false, ..issuer.clone() }, &["localhost"]);
    client.until_failed("accept_terms_of_service");
    let client = Client { issuer, ..client };
    client.reload();
    client.until_issued(1);
    ca.start();
    client.later(89 * DAY);
    client.until_failed("does not accept the account of this \"account_key\"");
}

#[test]
fn certificates_of_the_same_name_and_of_different_keys_are_ordered_together() {
    let Some(_) = ca::program() else { return };
    let ca = Ca::started();
    let issuer = IssuerSettings { challenge: ChallengeKind::TlsAlpn01, ..issuer(&ca, None) };
    let server = Server::answering(&ca);
    let acme = Acme::new(Arc::new(server.clone()));
    let kinds = [KeyKind::EcdsaP256, KeyKind::Rsa2048, KeyKind::EcdsaP384, KeyKind::EcdsaP521];
    let wanted = kinds.map(|key| CertificateSettings { key, ..certificate(&["localhost"]) });
    acme.update(vec![issuer], wanted.to_vec()).expect("a thread");
    let valid = || acme.status().iter().all(|status| status.state == CertificateState::Valid);
    assert!(within(Duration::from_secs(60), valid), "{:?}\n{}", acme.status(), server.log());
    assert_eq!(acme.status().into_iter().map(|status| status.certificate).collect::<Vec<_>>(), wanted);
    assert_eq!((server.issued().len(), server.challenges()), (4, 0));
    // Those that are not wanted any more are gone.
    acme.update(Vec::new(), Vec::new()).expect("a thread");
    assert_eq!(acme.status(), []);
}

#[test]
fn answers_to_challenges_are_taken_back_when_the_client_ends() {
    let Some(_) = ca::program() else { return };
    let ca = Ca::started();
    // The CA is connected, and gets no answer.
    let _waiting = std::net::TcpListener::bind(("127.0.0.1", ca.answers.0)).expect("a free port");
    let client = Client::of(Server::default(), issuer(&ca, None), &["localhost"]);
    client.until("a challenge is answered", |client| client.server.challenges() == 1);
    assert_eq!(client.status().state, CertificateState::Ordering);
    client.acme.stop();
    assert_eq!(client.server.challenges(), 0);
}

#[test]
fn a_challenge_that_cannot_be_answered_is_not_looked_at() {
    let Some(_) = ca::program() else { return };
    let ca = Ca::started();
    let server = Server::answering(&ca);
    server.fill();
    let client = Client::of(server, issuer(&ca, None), &["localhost"]);
    client.until_failed("the challenge cannot be answered: no room");
    // Otherwise it would have something to say of it.
    assert!(!client.server.logged("urn:ietf:params:acme:error:"), "{}", client.server.log());
}

#[test]
fn a_certificate_in_use_is_kept_when_the_issuer_s_settings_change() {
    const KEPT: &str = "the certificate in use is kept";
    let Some(_) = ca::program() else { return };
    let (ca, state) = (Ca::started(), TempDir::new("state"));
    let client = Client::new(&ca, issuer(&ca, None), &["localhost"]);
    client.until_issued(1);
    // Nothing is kept on disk, and then it is.
    let issuer = IssuerSettings { contacts: Vec::new(), ..issuer(&ca, Some(state.path())) };
    let client = Client { issuer, ..client };
    client.reload();
    client.until("it is kept", |client| client.server.logged(KEPT));
    client.until("it is valid", |client| client.status().not_after.is_some());
    assert_eq!(client.server.issued().len(), 1);
    assert_eq!(client.acme.load(&client.issuer, &client.certificate), Some(client.server.issued().remove(0)));
    client.later(89 * DAY);
    client.until_issued(2);
    // A certificate of a CA is none of another one, even when that has failed before.
    let mut other = Ca::new("");
    let issuer = IssuerSettings {
        uri: other.uri(),
        trusted: Some(other.root.clone().into_bytes()),
        state_path: None,
        ..client.issuer.clone()
    };
    let client = Client { issuer, ..client };
    client.reload();
    client.until_failed("connecting to");
    client.server.answer(&other);
    other.start();
    let client = Client { issuer: IssuerSettings { common_name_in_csr: true, ..client.issuer.clone() }, ..client };
    client.reload();
    client.until_issued(3);
}

#[test]
fn terms_have_to_be_accepted() {
    let Some(_) = ca::program() else { return };
    let ca = Ca::started();
    let client = Client::new(&ca, IssuerSettings { accepts_terms: false, ..issuer(&ca, None) }, &["localhost"]);
    client.until_failed("accept_terms_of_service");
}

#[test]
fn the_ca_s_server_has_to_be_trusted() {
    let Some(_) = ca::program() else { return };
    let (ca, other) = (Ca::started(), Ca::new(""));
    let trusted = Some(other.root.clone().into_bytes());
    let client = Client::new(&ca, IssuerSettings { trusted, ..issuer(&ca, None) }, &["localhost"]);
    client.until_failed("not trusted");
    let client = Client { issuer: IssuerSettings { verify: false, ..client.issuer.clone() }, ..client };
    client.reload();
    client.until_issued(1);
}

#[test]
fn what_the_ca_found_at_a_name_is_in_the_log() {
    let Some(_) = ca::program() else { return };
    let (ca, state) = (Ca::started(), TempDir::new("state"));
    // Nobody answers the challenges.
    let client = Client::of(Server::default(), issuer(&ca, Some(state.path())), &["localhost"]);
    client.until_failed("localhost");
    client.until_failed("urn:ietf:params:acme:error:");
    assert!(client.server.logged("next attempt in"), "{}", client.server.log());
    assert!(!client.server.logged("does not accept the account"), "{}", client.server.log());
    assert_eq!(client.server.challenges(), 0);
}

#[test]
fn a_damaged_file_is_replaced() {
    let Some(_) = ca::program() else { return };
    let (ca, state) = (Ca::started(), TempDir::new("state"));
    let client = Client::new(&ca, issuer(&ca, Some(state.path())), &["localhost"]);
    client.until_issued(1);
    client.acme.stop();
    for entry in std::fs::read_dir(state.path()).expect("the folder") {
        let path = entry.expect("a file").path();
        let text = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &text[..text.len() / 2]).expect("written");
    }
    let client = Client::of(client.server.clone(), client.issuer.clone(), &["localhost"]);
    client.until_issued(2);
    assert!(client.server.logged("is damaged and not used") && client.server.logged("is not used: "));
    assert!(client.acme.load(&client.issuer, &client.certificate).is_some());
}

#[test]
fn a_preferred_chain_is_chosen_among_those_that_the_ca_offers() {
    let Some(_) = ca::program() else { return };
    let mut ca = Ca::new("");
    ca.set("PEBBLE_ALTERNATE_ROOTS", "2");
    ca.start();
    let root = freerun_tls::load::Chain::from_pem(ca.manage("GET", "/roots/2", "").as_bytes()).expect("a root");
    let root = root.to_der().remove(0);
    let (_, root) = x509_parser::parse_x509_certificate(&root).expect("a root");
    let name = root.subject().iter_common_name().next().and_then(|name| name.as_str().ok()).expect("a name");
    let preferred = IssuerSettings { preferred_chain: Some(name.to_owned()), ..issuer(&ca, None) };
    let client = Client::new(&ca, preferred, &["localhost"]);
    client.until_issued(1);
    let chain = client.server.issued().remove(0).chain;
    let chain = freerun_tls::load::Chain::from_pem(chain.as_bytes()).expect("a chain").to_der();
    let (_, top) = x509_parser::parse_x509_certificate(chain.last().expect("a certificate")).expect("a certificate");
    assert_eq!(top.issuer(), root.subject());
}
