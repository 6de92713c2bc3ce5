//! The choice of a location for the path of a request.

use freerun_conf::{bytes_of, text_of};
use freerun_proto::Status;
use freerun_proto::uri::{self, EscapeSet};

use super::body_limit::judge_length;
use super::keepalive;
use super::step::Step;
use crate::request::Request;
use crate::request::location::Location;
use crate::request::observer::Observer;
use crate::route::{LocationChoice, LocationTrial};
use crate::{log_error, log_step};

/// Returns from a location to the server's own level.
#[inline]
pub(super) fn enter_server(request: &mut Request) {
    if !request.place.location.is(&request.place.server.entry) {
        request.place.location = request.generation.location(&request.place.server.entry);
    }
}

/// Chooses the location for the path.
#[inline]
pub(super) fn choose<O: Observer>(request: &mut Request, observer: O) -> Step {
    let server = request.place.server.clone();
    enter_server(request);
    observer.before_choice(request);
    request.place.path_behind_alias = false;
    let holds = |location: &Location| location.holds(request);
    let observe = &mut |trial: LocationTrial<'_, Location>| observer.tried(&trial);
    match server.locations.find_observed(&request.asked.path, &request.captures, &holds, observe) {
        Ok(LocationChoice::Location(location)) => {
            let refused = location.internal && !request.place.internal;
            request.place.location = request.generation.location(location.for_method(request.asked.method));
            // The error has the location's own pages.
            if refused {
                observer.entered(request);
                return Step::status(Status::NOT_FOUND);
            }
        }
        Ok(LocationChoice::Folder(location)) => {
            let mut target = uri::escape(EscapeSet::Uri, &bytes_of(&location.name)).into_owned();
            if let Some(args) = request.asked.args.as_ref().filter(|args| !args.is_empty()) {
                target.push(b'?');
                target.extend_from_slice(args);
            }
            request.place.location = request.generation.location(location);
            observer.entered(request);
            return Step::Status(Status::MOVED_PERMANENTLY, Some(target.into()));
        }
        Ok(LocationChoice::Nothing) => {}
        Err(error) => {
            log_error!(request, Alert, "{error} on \"{}\"", text_of(&request.asked.path));
            return Step::status(Status::INTERNAL_SERVER_ERROR);
        }
    }
    log_step!(request, "using configuration \"{}\"", request.place.location.name);
    observer.entered(request);
    keepalive::in_location(request);
    match judge_length(request) {
        Ok(()) => Step::Location,
        Err(status) => Step::status(status),
    }
}
