//! `auth_jwt`: access by signed or encrypted tokens (JSON Web Tokens, RFC 7519).

mod decrypt;
mod keys;
mod load;
mod token;
mod variables;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, group, settings};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::template::Template;
use freerun_proto::Status;
use freerun_runtime::log::clock;
use freerun_runtime::pool::PoolError;
use freerun_tls::random;

use super::checks::Checks;
use super::turns;
use decrypt::{DecryptedToken, EncryptedToken};
use load::Keys;
use variables::{Claims, RequestToken};

pub use keys::{BadKeys, VerificationKey, parse};
pub use token::{Token, TokenRefusal};

settings! {
    /// Access by signed or encrypted tokens.
    #[module = "auth_jwt"]
    pub struct JwtSettings {
        /// Asks for a JSON Web Token; the text is the realm that is sent to the client, and may have variables. `off` asks
        /// for nothing, whatever an outer level says.
        ///
        /// The token comes in `Authorization: Bearer`, or with `token=` in a variable. A key has to have signed it
        /// (HS256, RS256, PS256, ES256 with their larger forms, EdDSA with Ed25519), or it has to be encrypted for a
        /// key (`auth_jwt_type`). `exp` and `nbf` have to hold. A client without a valid one is answered with 401.
        auth_jwt: Option<TokenRequirement>, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
        /// A file with a set of keys (JWKS), whose path may have variables. Several add up. A file that cannot be used is
        /// answered with 500.
        auth_jwt_key_file: Many<Template>, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT,
            fidelity = Differs("keys of unknown types are left out (RFC 7517); a set has at most 1 MB; a token that names no key is tried with 32 keys at most");
        /// A URI whose answer to a subrequest is a set of keys (JWKS); it may have variables. Several add up.
        auth_jwt_key_request: Many<Template>, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
        /// For how long sets of keys are kept.
        auth_jwt_key_cache: Duration = "0", in HTTP | SERVER | LOCATION;
        /// By how much clocks may differ when `exp` and `nbf` are looked at.
        auth_jwt_leeway: Duration = "0s", in HTTP | SERVER | LOCATION;
        /// Lets a request with a valid token pass only if all of these values are neither empty nor `0`. `error=` is the status
        /// of the answer to others, 401 (the default) or 403.
        auth_jwt_require: Checks, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
        /// The kind of tokens: `signed`, `encrypted`, or `nested`, which is a signed token inside an encrypted one.
        ///
        /// Tokens are encrypted for a key of the set: `dir`, A128KW, A128GCMKW with their larger forms, or RSA-OAEP,
        /// also with SHA-256, SHA-384 and SHA-512. For RSA the set has the private key. The content is encrypted by
        /// A128CBC-HS256 or A128GCM or their larger forms. `$jwt_payload` has the decrypted content.
        auth_jwt_type: TokenKind = "signed", in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
        /// Sets a variable to a claim of the token, which is found by a path of names. The elements of an array are separated
        /// by commas.
        auth_jwt_claim_set: Claims, in HTTP;
    }
    also {
        /// Sets a variable to a parameter of the token's header, which is found by a path of names.
        "auth_jwt_header_set" => auth_jwt_claim_set: Shape::at_least(2, "$variable name …"), in HTTP;
    }
}

/// The value of `auth_jwt`.
#[derive(Debug, Clone)]
pub struct TokenRequirement {
    realm: Template,
    /// The text that has the token, if it is not in `Authorization`.
    token: Option<Template>,
}

impl Value for TokenRequirement {
    const SHAPE: Shape = Shape::between(1, 2, "string [token=$variable] | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<TokenRequirement, Problem> {
        let realm = Template::parse(&directive.args[0], cx)?;
        let token = match directive.args.get(1) {
            None => None,
            Some(word) => {
                let text = word.text.strip_prefix("token=").filter(|text| text.starts_with('$'));
                let text = text.ok_or_else(|| Problem::invalid_parameter(directive, word))?;
                Some(Template::parse(&freerun_conf::Word { text: text.to_owned(), ..word.clone() }, cx)?)
            }
        };
        Ok(TokenRequirement { realm, token })
    }
}

/// The kind of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Signed ones.
    Signed,
    /// Encrypted ones, which have no signature.
    Encrypted,
    /// Signed ones in encrypted ones.
    Nested,
}

impl Value for TokenKind {
    const SHAPE: Shape = Shape::exactly(1, "signed | encrypted | nested");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<TokenKind, Problem> {
        let word = &directive.args[0];
        match word.as_str() {
            "signed" => Ok(TokenKind::Signed),
            word @ ("encrypted" | "nested") => {
                random::prepare();
                Ok(if word == "nested" { TokenKind::Nested } else { TokenKind::Encrypted })
            }
            _ => Err(Problem::invalid_value(directive, word)),
        }
    }
}

/// The module `auth_jwt`.
pub static MODULE: Module = Module {
    name: "auth_jwt",
    groups: &[group::<JwtSettings>()],
    handlers: &[Handler { phase: Phase::Access, wanted, run: Run::Later(|request| Box::pin(judge(request))) }],
    variables: variables::ALL,
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    let wanted = &settings.get::<JwtSettings>().auth_jwt;
    wanted.as_ref().is_some_and(|wanted| wanted.realm.constant() != Some(b"off"))
}

/// The token that the client has sent, as text.
fn sent(request: &Request, wanted: &TokenRequirement) -> Option<Vec<u8>> {
    let text = match &wanted.token {
        Some(token) => token.render(request).into_owned(),
        None => {
            let (scheme, rest) = request.head.value(request.authorization())?.split_at_checked(b"Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii().to_vec())?
        }
    };
    (!text.is_empty()).then_some(text)
}

async fn judge(request: &mut Request) -> Outcome {
    let location = request.place.location.clone();
    let settings = location.settings.get::<JwtSettings>();
    let Some(wanted) = &settings.auth_jwt else { return Outcome::Declined };
    let Some(realm) = super::realm::realm(&wanted.realm, request).map(Cow::into_owned) else {
        return Outcome::Declined;
    };
    let Some(text) = sent(request, wanted) else {
        log_error!(request, Info, "no JWT was provided");
        return challenge(request, &realm, "");
    };
    let kind = settings.auth_jwt_type;
    let mut sealed = None;
    let mut token = None;
    match kind {
        TokenKind::Signed => token = Token::parse(&text),
        TokenKind::Encrypted | TokenKind::Nested => sealed = EncryptedToken::parse(&text),
    }
    if token.is_none() && sealed.is_none() {
        return refuse(request, &realm, TokenRefusal::Malformed);
    }
    // Where the keys are may depend on what the token says.
    let mut token = request.shared().get::<RequestToken>().replace(token);
    let keys = match load::all(request, settings).await {
        Ok(keys) => keys,
        Err(status) => return Outcome::Status(status),
    };
    if let Some(sealed) = sealed {
        let opened = match open(request, sealed, keys.clone()).await {
            Ok(opened) => opened,
            Err(error) => return turns::refused(request, &error),
        };
        let Some(opened) = opened else { return refuse(request, &realm, TokenRefusal::Encryption) };
        let inside = if kind == TokenKind::Nested { Token::nested(opened) } else { Token::encrypted(opened) };
        token = request.shared().get::<RequestToken>().replace(inside);
    }
    let Some(token) = token else { return refuse(request, &realm, TokenRefusal::Malformed) };
    let keys = keys.iter().flat_map(|keys| keys.iter());
    if let Err(refusal) = token.check(keys, clock::since_1970(), settings.auth_jwt_leeway) {
        return refuse(request, &realm, refusal);
    }
    match settings.auth_jwt_require.refusal(request) {
        None => Outcome::Allowed,
        Some(Status::UNAUTHORIZED) => {
            log_error!(request, Error, "JWT validation failed: a required value is missing");
            challenge(request, &realm, ",error=\"invalid_token\"")
        }
        Some(status) => Outcome::Status(status),
    }
}

/// Decrypts a token, in the pool for processor work if that is slow.
async fn open(request: &Request, sealed: EncryptedToken, keys: Vec<Keys>) -> Result<Option<DecryptedToken>, PoolError> {
    let slow = sealed.is_slow();
    let work = move || sealed.open(keys.iter().flat_map(|keys| keys.iter()));
    if slow { turns::run(request, work).await } else { Ok(work()) }
}

fn refuse(request: &mut Request, realm: &[u8], refusal: TokenRefusal) -> Outcome {
    log_error!(request, Error, "{refusal}");
    challenge(request, realm, ",error=\"invalid_token\"")
}

/// Asks for a token (RFC 6750 section 3).
fn challenge(request: &mut Request, realm: &[u8], error: &str) -> Outcome {
    request.answered.add_challenge(Bytes::from([b"Bearer realm=\"", realm, b"\"", error.as_bytes()].concat()));
    Outcome::Status(request.unauthorized())
}
