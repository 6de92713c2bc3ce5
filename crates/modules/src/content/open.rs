//! Warnings of locations that tell, or change, what is not for everybody.

use std::collections::HashSet;

use freerun_conf::{Cx, Node, Place, Problem, SettingsSet, Shape, Value};
use freerun_http::request::core_settings::CoreSettings;
use freerun_http::request::location::Reachable;
use freerun_http::settings::ssl::SslSettings;
use freerun_serve::tls::values::VerifyClient;

use crate::access::is_restricted;

/// A directive without arguments, and where it is written.
#[derive(Debug, Clone, Copy)]
pub struct DirectivePlace(pub Place);

impl Value for DirectivePlace {
    const SHAPE: Shape = Shape::exactly(0, "");

    fn parse(directive: &Node, _: &mut Cx) -> Result<DirectivePlace, Problem> {
        Ok(DirectivePlace(directive.name.place))
    }
}

/// The places that were warned of; lives in the configuration's context.
#[derive(Default)]
struct WarnedPlaces(HashSet<Place>);

/// Warns, once for each place, if everybody can ask a location for what a directive at `place` gives: `what`.
pub fn warn(settings: &SettingsSet, cx: &mut Cx, place: Place, what: &str) {
    let is_open = cx.extensions.get::<Reachable>().is_some_and(|server| server.0)
        && settings.get::<SslSettings>().ssl_verify_client == VerifyClient::Off
        && !settings.get::<CoreSettings>().internal.0
        && !is_restricted(settings);
    if is_open && cx.extensions.get_or_default::<WarnedPlaces>().0.insert(place) {
        let problem = Problem::warning(format!("{what} can be used by everybody who reaches this server")).at(place);
        cx.warn(
            problem
                .hint("restrict it by \"allow\" and \"deny\", by \"auth_basic\", or by another address in \"listen\""),
        );
    }
}
