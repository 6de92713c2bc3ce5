//! `add_before_body`, `add_after_body`: the answers to subrequests, inserted before and after a response.

use std::cell::Cell;
use std::collections::VecDeque;

use freerun_conf::{SettingsSet, bytes_of, group, settings};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Filter, Slot};
use freerun_http::request::representation::Change;
use freerun_http::request::response::{Body, Response};
use freerun_http::values::media_types::MediaTypes;
use freerun_proto::Status;

use super::sequence::{Sequence, SequencePart};
use super::unknown_length::UnknownLengthSource;

settings! {
    /// Text before and after a response.
    #[module = "addition"]
    pub struct AdditionSettings {
        /// Inserts the answer for this URI before the body of the response; `""` cancels the value of an outer level.
        ///
        /// The URI is used as it is: without variables, arguments or escapes.
        add_before_body: String = "\"\"", in HTTP | SERVER | LOCATION;
        /// Appends the answer for this URI to the body of the response; `""` cancels the value of an outer level.
        add_after_body: String = "\"\"", in HTTP | SERVER | LOCATION;
        /// Media types, besides `text/html`, of the responses that get these texts; `*` is all.
        addition_types: MediaTypes, in HTTP | SERVER | LOCATION;
    }
}

/// The module `addition`.
pub static MODULE: Module = Module {
    name: "addition",
    groups: &[group::<AdditionSettings>()],
    filters: &[
        Filter { slot: Slot::Addition, wanted, run: announce },
        Filter { slot: Slot::Insert, wanted, run: insert },
    ],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    let settings = settings.get::<AdditionSettings>();
    !settings.add_before_body.is_empty() || !settings.add_after_body.is_empty()
}

/// Whether the texts are to be inserted.
#[derive(Default)]
struct AdditionMark(Cell<bool>);

/// Decides about the insertion, and makes the length of the body unknown.
fn announce(request: &mut Request, response: &mut Response) {
    let location = request.place.location.clone();
    let settings = &location.settings;
    let settings = settings.get::<AdditionSettings>();
    let added = response.status == Status::OK
        && !request.is_subrequest()
        && settings.addition_types.contains(&response.content_type);
    request.own.get::<AdditionMark>().0.set(added);
    if added {
        response.content_changes(Change::ADDITION);
        UnknownLengthSource::make(request, response);
    }
}

/// Inserts the texts around the body as the filters in between have changed it.
fn insert(request: &mut Request, response: &mut Response) {
    if !request.own.get::<AdditionMark>().0.take() {
        return;
    }
    let location = request.place.location.clone();
    let settings = &location.settings;
    let settings = settings.get::<AdditionSettings>();
    let mut parts = VecDeque::with_capacity(3);
    let uri = |uri: &String| (!uri.is_empty()).then(|| bytes_of(uri).into_owned());
    parts.extend(uri(&settings.add_before_body).map(SequencePart::Uri));
    parts.push_back(SequencePart::Body(std::mem::replace(&mut response.body, Body::Empty).into_source(request)));
    parts.extend(uri(&settings.add_after_body).map(SequencePart::Uri));
    response.body = Body::Source(Box::new(Sequence::new(request, parts)));
}
