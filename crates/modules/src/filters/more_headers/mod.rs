//! `more_set_headers`, `more_clear_headers`, `more_set_input_headers` and `more_clear_input_headers`: fields of responses and
//! requests are set, replaced and removed, those included that the server makes itself.

mod response_fields;
mod rules;

use freerun_conf::{SettingsSet, Shape, group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Handler, Outcome, Phase, Run, Slot};
use freerun_proto::HeaderId;

use rules::{FieldChange, HeaderRules};

settings! {
    /// Setting and removing fields of responses and requests.
    #[module = "more_headers"]
    pub struct MoreHeadersSettings {
        /// Sets fields of the response, and replaces those that are there already; an empty value removes them.
        ///
        /// It applies to all responses, or with `-s` to the statuses named, with `-t` to the media types named; both
        /// may be given several times. `-a` adds a field beside fields of the same name. Values may contain variables.
        /// The directives of the levels around come first, and `add_header` comes after all of them.
        ///
        /// It also sets `Server`, `Date`, `Content-Type`, `Location`, `Last-Modified` and `ETag`. `Connection`,
        /// `Transfer-Encoding` and the value of `Content-Length` are the server's own: they stay as they are.
        more_set_headers: HeaderRules, in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("`Content-Length`, `Transfer-Encoding`: they frame the body and cannot be set");
        /// Sets fields of the request for everything that comes after the rewrite module; an empty value removes them.
        ///
        /// With `-r`, only fields that the request has are replaced. With `-t`, it applies to requests with one of these
        /// values of `Content-Type`. `$host` follows a new `Host`. How long the body is does not depend on a new
        /// `Content-Length`.
        more_set_input_headers: HeaderRules, in HTTP | SERVER | LOCATION | LOCATION_IF,
            fidelity = Differs("a new `Content-Length` does not change how the body is read");
    }
    also {
        /// Removes fields of the response; a name may end with `*`. `-s` and `-t` work as in `more_set_headers`.
        ///
        /// Without its `Content-Length`, a response is sent in chunks.
        "more_clear_headers" => more_set_headers: Shape::at_least(1, "[-s statuses] [-t types] name …"),
            in HTTP | SERVER | LOCATION | LOCATION_IF;
        /// Removes fields of the request; a name may end with `*`. `-t` works as in `more_set_input_headers`.
        "more_clear_input_headers" => more_set_input_headers: Shape::at_least(1, "[-t types] name …"),
            in HTTP | SERVER | LOCATION | LOCATION_IF;
    }
}

/// The module `more_headers`.
pub static MODULE: Module = Module {
    name: "more_headers",
    groups: &[group::<MoreHeadersSettings>()],
    handlers: &[Handler { phase: Phase::Rewrite, wanted: wants_input, run: Run::Now(change_request) }],
    filters: &[Filter { slot: Slot::MoreHeaders, wanted: wants_output, run: response_fields::run }],
    ..Module::EMPTY
};

fn wants_output(settings: &SettingsSet) -> bool {
    !settings.get::<MoreHeadersSettings>().more_set_headers.is_empty()
}

fn wants_input(settings: &SettingsSet) -> bool {
    !settings.get::<MoreHeadersSettings>().more_set_input_headers.is_empty()
}

fn change_request(request: &mut Request) -> Outcome {
    let location = request.place.location.clone();
    for rule in location.settings.get::<MoreHeadersSettings>().more_set_input_headers.iter() {
        if !rule.takes_type(request.head.value(HeaderId::ContentType)) {
            continue;
        }
        for change in &rule.changes {
            change_field(request, change, rule.only_existing);
        }
    }
    Outcome::Declined
}

fn change_field(request: &mut Request, change: &FieldChange, only_existing: bool) {
    let value = change.value.render(request).into_owned();
    if value.is_empty() {
        request.remove_fields(|name| change.is_for(name));
    } else if !only_existing || request.head.values_named(&change.name).next().is_some() {
        request.set_field(&change.name, &value);
    }
}
