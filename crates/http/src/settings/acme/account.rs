//! The values of directives about the account at a CA.

use data_encoding::BASE64URL_NOPAD;
use freerun_acme::{AccountKey, ChallengeKind, ExternalAccount, KeyKind, Profile};
use freerun_conf::{Cx, Node, Problem, Shape, Value, Word};
use freerun_runtime::log::Errno;
use freerun_serve::tls::files::{ConfigurationFiles, Secret, full_path};
use freerun_tls::load::Chain;
use zeroize::Zeroizing;

/// The most bytes of an external account's key.
const MAX_MAC_KEY: usize = 4096;

/// The contents of a file that the master reads with the configuration.
fn read(word: &Word, cx: &mut Cx) -> Result<Secret, Problem> {
    let path = full_path(&word.text, cx);
    let files = cx.extensions.get_or_default::<ConfigurationFiles>();
    files
        .get_whole(&path)
        .map_err(|(call, error)| Problem::new(format!("{call} \"{path}\" failed ({})", Errno(&error))).at(word.place))
}

/// The value of `uri`.
#[derive(Debug, Clone)]
pub struct DirectoryUrl(pub String);

impl Value for DirectoryUrl {
    const SHAPE: Shape = Shape::exactly(1, "uri");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<DirectoryUrl, Problem> {
        let word = &directive.args[0];
        let rest = word.text.strip_prefix("https://").or_else(|| word.text.strip_prefix("http://"));
        let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
        let printable = word.text.bytes().all(|byte| byte.is_ascii_graphic());
        if host.is_none_or(|host| host.is_empty() || host.starts_with(':')) || !printable {
            let problem = Problem::new(format!("invalid URI \"{}\"", word.text)).at(word.place);
            return Err(problem.hint("it is that of the CA's directory: https://host/path"));
        }
        Ok(DirectoryUrl(word.text.clone()))
    }
}

/// The value of `account_key`.
#[derive(Debug, Clone)]
pub struct AccountKeySetting(pub AccountKey);

impl Value for AccountKeySetting {
    const SHAPE: Shape = Shape::exactly(1, "alg[:size] | file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<AccountKeySetting, Problem> {
        let word = &directive.args[0];
        let text = word.text.as_str();
        if let Some(kind) = KeyKind::parse(text) {
            return Ok(AccountKeySetting(AccountKey::Generate(kind)));
        }
        if text.starts_with("ecdsa:") || text.starts_with("rsa:") {
            return Err(Problem::new(format!("invalid key type \"{text}\"")).at(word.place));
        }
        let pem = read(word, cx)?;
        Ok(AccountKeySetting(AccountKey::Pem(Zeroizing::new(pem.bytes().to_vec()))))
    }
}

/// The value of `challenge`.
#[derive(Debug, Clone, Copy)]
pub struct ChallengeSetting(pub ChallengeKind);

impl Value for ChallengeSetting {
    const SHAPE: Shape = Shape::exactly(1, "http-01 | tls-alpn-01");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<ChallengeSetting, Problem> {
        let word = &directive.args[0];
        Ok(ChallengeSetting(match word.text.as_str() {
            "http" | "http-01" => ChallengeKind::Http01,
            "tls-alpn" | "tls-alpn-01" => ChallengeKind::TlsAlpn01,
            other => {
                let problem = Problem::new(format!("unsupported challenge: \"{other}\"")).at(word.place);
                return Err(problem.hint("there are http-01 and tls-alpn-01"));
            }
        }))
    }
}

/// The value of `contact`: a URL.
#[derive(Debug, Clone)]
pub struct Contact(pub String);

impl Value for Contact {
    const SHAPE: Shape = Shape::exactly(1, "URL");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<Contact, Problem> {
        let word = &directive.args[0];
        let text = word.text.as_str();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Problem::invalid_value(directive, word));
        }
        let scheme = text.split_once(':').map(|(scheme, _)| scheme);
        let has_scheme = scheme.is_some_and(|scheme| !scheme.is_empty() && !scheme.contains('@'));
        Ok(Contact(if has_scheme { text.to_owned() } else { format!("mailto:{text}") }))
    }
}

/// The value of `external_account_key`.
#[derive(Debug, Clone)]
pub struct ExternalKey(pub ExternalAccount);

impl Value for ExternalKey {
    const SHAPE: Shape = Shape::exactly(2, "kid file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ExternalKey, Problem> {
        let [kid, word] = &directive.args[..] else { return Err(Problem::wrong_count(directive)) };
        let text = match word.text.strip_prefix("data:") {
            Some(text) => Secret::new(text.as_bytes().to_vec()),
            None => read(word, cx)?,
        };
        let bare = text.bytes().trim_ascii();
        let bare = bare.iter().rposition(|byte| *byte != b'=').map_or(&b""[..], |last| &bare[..=last]);
        let key = BASE64URL_NOPAD.decode(bare).ok().filter(|key| (1..=MAX_MAC_KEY).contains(&key.len()));
        let key = key.ok_or_else(|| {
            let problem = Problem::new("invalid external account key").at(word.place);
            problem.hint("it is the MAC key in base64url, as the CA shows it")
        })?;
        Ok(ExternalKey(ExternalAccount { kid: kid.text.clone(), key: Zeroizing::new(key) }))
    }
}

/// The value of `profile`.
#[derive(Debug, Clone)]
pub struct ProfileSetting(pub Profile);

impl Value for ProfileSetting {
    const SHAPE: Shape = Shape::between(1, 2, "name [require]");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<ProfileSetting, Problem> {
        let required = match directive.args.get(1) {
            None => false,
            Some(word) if word.text == "require" => true,
            Some(word) => return Err(Problem::invalid_parameter(directive, word)),
        };
        Ok(ProfileSetting(Profile { name: directive.args[0].text.clone(), required }))
    }
}

/// The value of `ssl_trusted_certificate` of an issuer: the contents of the file.
#[derive(Debug, Clone)]
pub struct TrustedSetting(pub Vec<u8>);

impl Value for TrustedSetting {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TrustedSetting, Problem> {
        let word = &directive.args[0];
        let pem = read(word, cx)?;
        if Chain::from_pem(pem.bytes()).is_err() {
            let message = format!("no certificate in \"{}\"", full_path(&word.text, cx));
            return Err(Problem::new(message).at(word.place));
        }
        Ok(TrustedSetting(pem.bytes().to_vec()))
    }
}
