//! An observer of the way of a request through the phases: for an explanation of it, which cannot differ from what is done.
//!
//! Requests of clients have [`NoObserver`], which the compiler leaves out.

use freerun_proto::Status;

use crate::request::Request;
use crate::request::handler::Outcome;
use crate::request::location::Location;
use crate::request::response::Response;
use crate::route::LocationTrial;
use crate::script::Action;
use crate::script::replace::Replace;

/// A step of a script that was taken, with its position in the configuration.
pub enum ObservedStep<'s> {
    /// The condition of an `if` holds or does not.
    Condition(bool),
    /// The expression of a `rewrite` matches the path, and it was applied, or it does not match.
    Rewrite(&'s Replace<Request>, bool),
    /// Another directive has run: the request has what it sets.
    Act(&'s Action<Request>),
}

/// An observer of requests. Its functions are called when something was done, unless their names say otherwise.
pub trait Observer: Copy {
    /// Whether there is anything to observe.
    const OBSERVES: bool = true;

    /// The outcome that takes the place of the handler's at this index of the location, which does not run then.
    fn stand_in(self, request: &mut Request, handler: usize) -> Option<Outcome>;

    /// The handler at this index of the request's location has run.
    fn handled(self, request: &Request, handler: usize, outcome: &Outcome);

    /// A location is going to be chosen by the path of the request, which is at the level of its server.
    fn before_choice(self, request: &Request);

    /// A location was tried.
    fn tried(self, trial: &LocationTrial<'_, Location>);

    /// The request has come to its location.
    fn entered(self, request: &Request);

    /// A step of the script at this position in the configuration was taken.
    fn stepped(self, request: &Request, order: u32, step: ObservedStep<'_>);

    /// The request is answered with the built-in page of this status, which `error_page` may replace.
    fn failed(self, request: &Request, status: Status);

    /// The request has this response, before filters and `error_page` change it.
    fn answered(self, request: &Request, response: &Response);

    /// `error_page` has replaced the response: the request goes on.
    fn replaced(self, request: &Request);
}

/// The observer of requests that nobody observes.
#[derive(Debug, Clone, Copy)]
pub struct NoObserver;

impl Observer for NoObserver {
    const OBSERVES: bool = false;

    #[inline(always)]
    fn stand_in(self, _: &mut Request, _: usize) -> Option<Outcome> {
        None
    }

    #[inline(always)]
    fn handled(self, _: &Request, _: usize, _: &Outcome) {}

    #[inline(always)]
    fn before_choice(self, _: &Request) {}

    #[inline(always)]
    fn tried(self, _: &LocationTrial<'_, Location>) {}

    #[inline(always)]
    fn entered(self, _: &Request) {}

    #[inline(always)]
    fn stepped(self, _: &Request, _: u32, _: ObservedStep<'_>) {}

    #[inline(always)]
    fn failed(self, _: &Request, _: Status) {}

    #[inline(always)]
    fn answered(self, _: &Request, _: &Response) {}

    #[inline(always)]
    fn replaced(self, _: &Request) {}
}
