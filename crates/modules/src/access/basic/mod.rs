//! `auth_basic`: name and password (RFC 7617).

mod password;
mod users;

use std::borrow::Cow;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, SettingsSet, Shape, Value, Word, group, settings, text_of};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_http::template::Template;
use freerun_proto::{Credentials, Status};
use freerun_runtime::pool::PoolError;

use super::turns;
use password::PasswordVerdict;
use users::UsersError;

settings! {
    /// Access by user name and password.
    #[module = "auth_basic"]
    pub struct BasicSettings {
        /// Asks for a user name and a password; the text is the realm that is sent to the client, and may have
        /// variables. `off` asks for nothing, whatever an outer level says.
        ///
        /// A client without the right ones is answered with 401 and `WWW-Authenticate`, and sends them in
        /// `Authorization`. With CONNECT (`tunnel_pass`) it is 407 with `Proxy-Authenticate`, and the client sends them
        /// in `Proxy-Authorization`.
        auth_basic: Option<Realm>, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT;
        /// The file of user names and passwords: `name:password` lines, with `#` before comments. The path is relative
        /// to the folder of the configuration, and may have variables.
        ///
        /// A password is `{PLAIN}text`, `{SHA}`, `{SSHA}`, `$apr1$` (as htpasswd makes it), or any form of crypt(3) on
        /// this system: DES, `$1$`, `$5$`, `$6$`, bcrypt (`$2y$`), yescrypt (`$y$`) and others.
        auth_basic_user_file: Option<UserFile>, in HTTP | SERVER | LOCATION | LIMIT_EXCEPT,
            fidelity = Differs("a file over 16 MB is an error, as is a password that would take minutes to check; passwords may be longer than 2 KB");
    }
}

/// The value of `auth_basic`.
#[derive(Debug, Clone)]
pub struct Realm(Template);

impl Value for Realm {
    const SHAPE: Shape = Shape::exactly(1, "string | off");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Realm, Problem> {
        Ok(Realm(Template::parse(&directive.args[0], cx)?))
    }
}

/// The value of `auth_basic_user_file`.
#[derive(Debug, Clone)]
pub struct UserFile(Template);

impl Value for UserFile {
    const SHAPE: Shape = Shape::exactly(1, "file");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<UserFile, Problem> {
        let word: &Word = &directive.args[0];
        Ok(UserFile(Template::parse(word, cx)?))
    }
}

/// Whether a location with these settings asks for a user name and a password.
pub fn is_checked(settings: &SettingsSet) -> bool {
    wanted(settings)
}

fn wanted(settings: &SettingsSet) -> bool {
    let settings = settings.get::<BasicSettings>();
    let off = settings.auth_basic.as_ref().is_none_or(|realm| realm.0.constant() == Some(b"off"));
    !off && settings.auth_basic_user_file.is_some()
}

/// The module `auth_basic`.
pub static MODULE: Module = Module {
    name: "auth_basic",
    groups: &[group::<BasicSettings>()],
    handlers: &[Handler { phase: Phase::Access, wanted, run: Run::Later(run) }],
    ..Module::EMPTY
};

fn run(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        let location = request.place.location.clone();
        let settings = location.settings.get::<BasicSettings>();
        let (Some(realm), Some(file)) = (&settings.auth_basic, &settings.auth_basic_user_file) else {
            return Outcome::Declined;
        };
        let Some(realm) = super::realm::realm(&realm.0, request).map(Cow::into_owned) else { return Outcome::Declined };
        let credentials = request.head.value(request.authorization()).and_then(Credentials::parse);
        let Some(credentials) = credentials else {
            log_error!(request, Info, "no user/password was provided for basic authentication");
            return challenge(request, &realm);
        };
        let path = request.generation.paths.beside_configuration(&file.0.render(request));
        let users = match users::load(request, &path).await {
            Ok(users) => users,
            Err(error) => return failed(request, &error, &path),
        };
        let user = text_of(credentials.user()).into_owned();
        let Some(stored) = users.password(credentials.user()) else {
            let path = text_of(&path);
            log_error!(request, Error, "user \"{user}\" was not found in \"{path}\"");
            return challenge(request, &realm);
        };
        match check(request, stored, credentials.password()).await {
            Ok(PasswordVerdict::Right) => Outcome::Allowed,
            Ok(PasswordVerdict::Wrong) => {
                log_error!(request, Error, "user \"{user}\": password mismatch");
                challenge(request, &realm)
            }
            Ok(PasswordVerdict::TooCostly) => {
                log_error!(request, Crit, "user \"{user}\": the stored password asks for too much time or memory");
                Outcome::Status(Status::INTERNAL_SERVER_ERROR)
            }
            Err(error) => turns::refused(request, &error),
        }
    })
}

/// Compares the password: at once if the form is cheap, in the pool for processor work if it is slow.
async fn check(request: &Request, stored: &[u8], password: &[u8]) -> Result<PasswordVerdict, PoolError> {
    if let Some(verdict) = password::quick(stored, password) {
        return Ok(verdict);
    }
    let (stored, password) = (stored.to_vec(), password.to_vec());
    turns::run(request, move || password::slow(&stored, &password)).await
}

fn failed(request: &Request, error: &UsersError, path: &[u8]) -> Outcome {
    let status = error.status();
    let text = error.describe(path);
    match status {
        Status::FORBIDDEN | Status::SERVICE_UNAVAILABLE => log_error!(request, Error, "{text}"),
        Status::CLIENT_CLOSED_REQUEST => log_error!(request, Info, "{text}"),
        _ => log_error!(request, Crit, "{text}"),
    }
    Outcome::Status(status)
}

fn challenge(request: &mut Request, realm: &[u8]) -> Outcome {
    request.answered.add_challenge(Bytes::from([b"Basic realm=\"", realm, b"\""].concat()));
    Outcome::Status(request.unauthorized())
}
