//! `$jwt_claim_…`, `$jwt_header_…`, and the variables of `auth_jwt_claim_set` and `auth_jwt_header_set`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape};
use freerun_http::request::Request;
use freerun_http::variables::{Compute, ComputeResult, Variable, VariableTable, VariableValue};
use freerun_serve::values::lookups::variable_name;
use serde_json::Map;

use super::token::{Token, find, text};
use super::{JwtSettings, TokenKind, sent};

/// The token of a request, whether its signature was checked or not.
#[derive(Default)]
pub(super) struct RequestToken(RefCell<Option<Rc<Token>>>);

impl RequestToken {
    /// Keeps this token from now on.
    pub(super) fn replace(&self, token: Option<Token>) -> Option<Rc<Token>> {
        let token = token.map(Rc::new);
        self.0.borrow_mut().clone_from(&token);
        token
    }
}

/// The token of a request. Before its signature is checked it is what the client says.
fn token(request: &Request) -> Option<Rc<Token>> {
    let kept = request.shared().get::<RequestToken>();
    if let Some(token) = &*kept.0.borrow() {
        return Some(token.clone());
    }
    let settings = request.settings().get::<JwtSettings>();
    // What is encrypted comes into view when it is decrypted.
    let wanted = settings.auth_jwt.as_ref().filter(|_| settings.auth_jwt_type == TokenKind::Signed)?;
    let token = Token::parse(&sent(request, wanted)?)?;
    kept.replace(Some(token))
}

pub(super) const ALL: &[Variable] = &[
    Variable::family(
        "jwt_claim_",
        "The claim `NAME` of the JSON Web Token that `auth_jwt` checked.",
        |request, name| named(&token(request)?.claims, name),
    ),
    Variable::family("jwt_header_", "The parameter `NAME` of the token's header (JOSE).", |request, name| {
        named(token(request)?.header()?, name)
    }),
    // It is what was decrypted.
    Variable::named("jwt_payload", "The decrypted content of an encrypted or nested token.", |request, _| {
        Some(token(request)?.envelope.as_ref()?.text.clone().into())
    }),
];

/// The value of this name. Names of variables are in lower case, so another case will do.
fn named<'r>(object: &Map<String, serde_json::Value>, name: &str) -> VariableValue<'r> {
    let other_case = || object.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    text(object.get(name).or_else(other_case)?).map(Cow::Owned)
}

/// The directives, whose variables are in the table of variables.
#[derive(Debug, Clone, Copy, Default)]
pub struct Claims;

impl Setting for Claims {
    const SHAPE: Shape = Shape::at_least(2, "$variable name …");

    fn set(_: Option<Claims>, directive: &Node, cx: &mut Cx) -> Result<Claims, Problem> {
        let [variable, path @ ..] = &*directive.args else { return Err(Problem::wrong_count(directive)) };
        let name = variable_name(variable)?.to_owned();
        let path = path.iter().map(|word| word.text.clone()).collect();
        let claim = Claim { in_header: directive.name.as_str() == "auth_jwt_header_set", path };
        let table = cx.extensions.get_or_default::<VariableTable>();
        table.define(&name, Arc::new(claim)).map_err(|problem| problem.at(variable.place))?;
        Ok(Claims)
    }
}

/// A value in a token.
struct Claim {
    in_header: bool,
    path: Vec<String>,
}

impl Compute<Request> for Claim {
    fn find(&self, request: &Request) -> ComputeResult {
        let Some(token) = token(request) else { return ComputeResult::Missing };
        let object = if self.in_header { token.header() } else { Some(&token.claims) };
        object
            .and_then(|object| find(object, &self.path))
            .and_then(text)
            .map_or(ComputeResult::Missing, ComputeResult::Text)
    }

    fn entry(&self, _: u32) -> &[u8] {
        b""
    }

    // The token may come into view later than the first use.
    fn is_volatile(&self) -> bool {
        true
    }
}
