//! An order from its beginning to the certificate, and the window of its renewal.

use std::time::{Duration, SystemTime};

use freerun_tls::digest::sha256;
use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier as Named, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use tokio::time::timeout;

use super::challenges::PublishedChallenges;
use super::{Failure, Issuer, keys};
use crate::client::Client;
use crate::facts;
use crate::host::{Challenge, Level, Pair};
use crate::identifier::Identifier;
use crate::settings::{CertificateSettings, ChallengeKind};
use crate::state::{MAX_CERTIFICATE, checked_pair};

/// The longest duration of an order as a whole.
const ORDER: Duration = Duration::from_secs(10 * 60);
/// The longest time for the CA to look at the answers to its challenges, or to issue the certificate.
const POLL: Duration = Duration::from_secs(4 * 60);
/// The time for looking for other chains.
const CHAINS: Duration = Duration::from_secs(30);

/// The longest chain in PEM that is taken, in bytes; it fits into a file with its key.
const MAX_CHAIN: usize = 128 << 10;

const _: () =
    assert!(2 * POLL.as_secs() + CHAINS.as_secs() < ORDER.as_secs(), "each wait of an order may take its time");
const _: () = assert!(MAX_CHAIN < MAX_CERTIFICATE, "a chain that is taken can be read again");

/// The time in which the CA would like a certificate to be renewed, from and to, and the time before it wants to be
/// asked again.
pub(crate) type Window = (SystemTime, SystemTime, Duration);

/// Orders a certificate, which may replace another one.
pub(crate) async fn order(
    issuer: &Issuer,
    certificate: &CertificateSettings,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Pair, Failure> {
    let client = issuer.client();
    let ordered = timeout(ORDER, twice(issuer, &client, certificate, replaces)).await;
    ordered.unwrap_or_else(|_| Err(Failure::new("the order took too long")))
}

/// Orders a certificate, and does so again with a new account where the CA does not know the old one any more.
async fn twice(
    issuer: &Issuer,
    client: &Client,
    certificate: &CertificateSettings,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Pair, Failure> {
    let (account, number) = issuer.account(client).await?;
    match ordered(issuer, client, &account, certificate, replaces).await {
        Err(failure) if failure.account_gone => {
            if !issuer.drop_account(number).await {
                return Err(failure.with("the CA does not accept the account of this \"account_key\" any more"));
            }
            issuer.log(Level::Warn, &format!("the CA does not accept the account any more: {}", failure.text));
            let (account, _) = issuer.account(client).await?;
            ordered(issuer, client, &account, certificate, None).await
        }
        ordered => ordered,
    }
}

/// Asks the CA when it would like a certificate to be renewed (RFC 9773); `None` where it does not say such things.
pub(crate) async fn ask_window(
    issuer: &Issuer,
    identifier: &CertificateIdentifier<'static>,
) -> Result<Option<Window>, Failure> {
    let client = issuer.client();
    let (account, _) = issuer.account(&client).await?;
    match account.renewal_info(identifier).await {
        Ok((info, again)) => {
            let window = info.suggested_window;
            Ok(Some((window.start.into(), window.end.into(), again)))
        }
        Err(Error::Unsupported(_)) => Ok(None),
        Err(error) => Err(Failure::of(&error, client.notes())),
    }
}

async fn ordered(
    issuer: &Issuer,
    client: &Client,
    account: &Account,
    certificate: &CertificateSettings,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Pair, Failure> {
    let failure = |error: Error| Failure::of(&error, client.notes());
    let mut order = begin(issuer, client, account, certificate, replaces).await?;
    // The answers are there until the CA has looked at them, or the order has failed.
    let published = answer(issuer, client, certificate, &mut order).await?;
    let policy = RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.4).timeout(POLL);
    let ready = match order.state().status {
        OrderStatus::Ready | OrderStatus::Valid => Ok(OrderStatus::Ready),
        _ => order.poll_ready(&policy).await,
    };
    match ready {
        Ok(OrderStatus::Ready | OrderStatus::Valid) => {}
        Ok(_) => return Err(Failure::new("the order is invalid").with(&refusals(&mut order).await)),
        Err(error) => return Err(failure(error).with(&refusals(&mut order).await)),
    }
    drop(published);
    let made = |error: rcgen::Error| Failure::new(format!("the request for the certificate: {error}"));
    let key = keys::generate(certificate.key).map_err(made)?;
    let request = keys::request(certificate, issuer.settings().common_name_in_csr, &key).map_err(made)?;
    order.finalize_csr(&request).await.map_err(failure)?;
    let chain = order.poll_certificate(&policy).await.map_err(failure)?;
    let chain = preferred(issuer, client, account, chain).await;
    if chain.len() > MAX_CHAIN {
        return Err(Failure::new("the CA's chain is too long"));
    }
    let pair = Pair { chain, key: keys::pem(&key) };
    checked_pair(&pair, &certificate.identifiers)
        .map_err(|damage| Failure::new(format!("what the CA has issued is not used: {damage}")))?;
    Ok(pair)
}

/// Begins an order.
async fn begin(
    issuer: &Issuer,
    client: &Client,
    account: &Account,
    certificate: &CertificateSettings,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Order, Failure> {
    let identifiers: Vec<_> = certificate.identifiers.iter().map(named).collect();
    let profile = match &issuer.settings().profile {
        Some(profile) if account.profiles().any(|offered| offered.name == profile.name) => Some(profile),
        Some(profile) if profile.required => {
            return Err(Failure::new(format!("the CA has no profile \"{}\"", profile.name)));
        }
        _ => None,
    };
    let new = || match profile {
        Some(profile) => NewOrder::new(&identifiers).profile(&profile.name),
        None => NewOrder::new(&identifiers),
    };
    if let Some(replaces) = replaces {
        match account.new_order(&new().replaces(replaces)).await {
            Ok(order) => return Ok(order),
            Err(Error::Unsupported(_)) => {}
            Err(error) => {
                let failure = issuer.failure(&error, client);
                if failure.account_gone || failure.retry_after.is_some() || failure.text.contains("rateLimited") {
                    return Err(failure);
                }
                // The CA does not know the certificate, or it was replaced already: that is no reason to have none.
                issuer.log(Level::Info, &format!("an order that replaces a certificate: {}", failure.text));
            }
        }
    }
    account.new_order(&new()).await.map_err(|error| issuer.failure(&error, client))
}

/// Answers the challenges of an order.
async fn answer(
    issuer: &Issuer,
    client: &Client,
    certificate: &CertificateSettings,
    order: &mut Order,
) -> Result<PublishedChallenges, Failure> {
    let failure = |error: Error| Failure::of(&error, client.notes());
    let (kind, name) = match issuer.settings().challenge {
        ChallengeKind::Http01 => (ChallengeType::Http01, "http-01"),
        ChallengeKind::TlsAlpn01 => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
    };
    let mut published = PublishedChallenges::new(issuer.host.clone());
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization.map_err(failure)?;
        let shown = authorization.identifier().to_string();
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            status => return Err(Failure::new(format!("the authorization of \"{shown}\" is {status:?}"))),
        }
        let identifier = match authorization.identifier().identifier {
            Named::Dns(name) => Identifier::Dns(name.clone()),
            Named::Ip(address) => Identifier::Ip(*address),
            _ => return Err(Failure::new(format!("the CA wants an authorization of \"{shown}\""))),
        };
        // An answer for a name of another certificate would take the place of that one's.
        if !certificate.identifiers.contains(&identifier) {
            return Err(Failure::new(format!("the CA wants an authorization of \"{shown}\", which is not asked for")));
        }
        let Some(mut challenge) = authorization.challenge(kind.clone()) else {
            return Err(Failure::new(format!("the CA does not offer the challenge {name} for \"{shown}\"")));
        };
        let proof = challenge.key_authorization();
        let answer = match issuer.settings().challenge {
            ChallengeKind::Http01 => {
                Challenge::Http01 { token: token(&challenge.token)?, key_authorization: proof.as_str().to_owned() }
            }
            ChallengeKind::TlsAlpn01 => keys::tls_alpn(&identifier, &sha256(proof.as_str().as_bytes()))
                .map_err(|error| Failure::new(format!("the certificate of a challenge: {error}")))?,
        };
        published.add(answer)?;
        challenge.set_ready().await.map_err(failure)?;
    }
    Ok(published)
}

/// A token, if it is one: it becomes a part of a path (RFC 8555, section 8.1).
fn token(text: &str) -> Result<String, Failure> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=256).contains(&text.len()) && text.bytes().all(allowed) {
        Ok(text.to_owned())
    } else {
        Err(Failure::new("the CA's token has other characters than those of base64url"))
    }
}

/// The reasons for which the CA did not accept answers to its challenges, as far as it says.
async fn refusals(order: &mut Order) -> String {
    let mut found = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            break;
        }
        for problem in authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref()) {
            found.push(format!("{}: {problem}", authorization.identifier()));
        }
    }
    found.join(", ")
}

/// The chain that the settings prefer, if the CA offers it; otherwise the chain that it gave.
async fn preferred(issuer: &Issuer, client: &Client, account: &Account, chain: String) -> String {
    let Some(name) = &issuer.settings().preferred_chain else { return chain };
    let fits = |chain: &str| facts::of_chain(chain).and_then(|facts| facts.topmost_issuer).as_ref() == Some(name);
    if fits(&chain) {
        return chain;
    }
    let find = async {
        for url in client.notes().alternates() {
            // The library has no request for it. It takes what comes for an order, which fails, but the client has
            // the response by then.
            let _ = client.notes().chain();
            let _ = account.order(url).await;
            if let Some(other) = client.notes().chain().filter(|other| fits(other)) {
                return Some(other);
            }
        }
        None
    };
    // The certificate is there already: another chain is not worth losing it.
    if let Ok(Some(other)) = timeout(CHAINS, find).await {
        return other;
    }
    issuer.log(Level::Notice, &format!("the CA offers no chain below \"{name}\"; its default chain is used"));
    chain
}

fn named(identifier: &Identifier) -> Named {
    match identifier {
        Identifier::Dns(name) => Named::Dns(name.clone()),
        Identifier::Ip(address) => Named::Ip(*address),
    }
}
