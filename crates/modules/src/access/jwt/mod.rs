//! `auth_jwt`: access by signed tokens (JSON Web Tokens, RFC 7519).

mod keys;
mod load;
mod token;
mod variables;

use std::time::Duration;

use bytes::Bytes;
use freerun_conf::{Cx, Many, Node, Problem, SettingsSet, Shape, Value, group, settings};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::template::Template;
use freerun_runtime::log::clock;

use super::checks::Checks;
use variables::{Claims, Kept};

pub use keys::{BadKeys, Key, parse};
pub use token::{Refusal, Token};

settings! {
    /// Access by signed tokens.
    #[module = "auth_jwt"]
    pub struct JwtSettings {
        /// Asks for a JSON Web Token; the text is the realm that is sent to the client, and may have variables. `off` asks
        /// for nothing, whatever an outer level says.
        ///
        /// The token comes in `Authorization: Bearer`, or with `token=` in a variable. It has to be signed by one of the keys
        /// (HS256, RS256, PS256, ES256 with their larger forms, EdDSA with Ed25519), and `exp` and `nbf` have to hold. A
        /// client without a valid one is answered with 401.
        auth_jwt: Option<Wanted>, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
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
        /// The kind of tokens.
        auth_jwt_type: Kind = "signed", in HTTP | SERVER | LOCATION | LIMIT_EXCEPT,
            fidelity = Differs("`encrypted` and `nested` are refused: freerun cannot decrypt tokens");
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
pub struct Wanted {
    realm: Template,
    /// The text that has the token, if it is not in `Authorization`.
    token: Option<Template>,
}

impl Value for Wanted {
    const SHAPE: Shape = Shape::between(1, 2, "string [token=$variable] | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Wanted, Problem> {
        let realm = Template::parse(&directive.args[0], cx)?;
        let token = match directive.args.get(1) {
            None => None,
            Some(word) => {
                let text = word.text.strip_prefix("token=").filter(|text| text.starts_with('$'));
                let text = text.ok_or_else(|| Problem::invalid_parameter(directive, word))?;
                Some(Template::parse(&freerun_conf::Word { text: text.to_owned(), ..word.clone() }, cx)?)
            }
        };
        Ok(Wanted { realm, token })
    }
}

/// The kind of tokens: there is one.
#[derive(Debug, Clone, Copy)]
pub struct Kind;

impl Value for Kind {
    const SHAPE: Shape = Shape::exactly(1, "signed");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<Kind, Problem> {
        let word = &directive.args[0];
        match word.as_str() {
            "signed" => Ok(Kind),
            "encrypted" | "nested" => {
                let message = format!("\"{}\" tokens are not supported, only \"signed\" ones", word.text);
                Err(Problem::new(message).at(word.place))
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
fn sent(request: &Request, wanted: &Wanted) -> Option<Vec<u8>> {
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
    let realm = wanted.realm.render(request).into_owned();
    if realm == b"off" {
        return Outcome::Declined;
    }
    let Some(text) = sent(request, wanted) else {
        log_error!(request, Info, "no JWT was provided");
        return challenge(request, &realm, "");
    };
    let token = Token::parse(&text);
    let token = request.shared().get::<Kept>().replace(token);
    let Some(token) = token else { return refuse(request, &realm, Refusal::Malformed) };
    let keys = match load::all(request, settings).await {
        Ok(keys) => keys,
        Err(status) => return Outcome::Status(status),
    };
    let keys = keys.iter().flat_map(|keys| keys.iter());
    if let Err(refusal) = token.check(keys, clock::since_1970(), settings.auth_jwt_leeway) {
        return refuse(request, &realm, refusal);
    }
    match settings.auth_jwt_require.refusal(request) {
        None => Outcome::Allowed,
        Some(401) => {
            log_error!(request, Error, "JWT validation failed: a required value is missing");
            challenge(request, &realm, ",error=\"invalid_token\"")
        }
        Some(status) => Outcome::Status(status),
    }
}

fn refuse(request: &mut Request, realm: &[u8], refusal: Refusal) -> Outcome {
    log_error!(request, Error, "{refusal}");
    challenge(request, realm, ",error=\"invalid_token\"")
}

/// Asks for a token (RFC 6750 section 3).
fn challenge(request: &mut Request, realm: &[u8], error: &str) -> Outcome {
    request.answered.challenges = vec![Bytes::from([b"Bearer realm=\"", realm, b"\"", error.as_bytes()].concat())];
    Outcome::Status(request.unauthorized())
}
