//! The code that runs for a request: handlers at named phases, filters at named slots.

use std::cell::Cell;

use bytes::Bytes;
use freerun_conf::SettingsSet;
use freerun_proto::Status;

use super::Request;
use super::response::{LocalBoxFuture, Response};

/// The phases of a request, in nginx's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before all other phases (`realip`).
    PostRead,
    /// Rewriting at the level of the server, before a location is chosen.
    ServerRewrite,
    /// Behind the script of the location. A script that has an answer ends the phase.
    Rewrite,
    /// Limits, before access is checked.
    PreAccess,
    /// Access control.
    Access,
    /// Just before content is made: `try_files`, `mirror`.
    PreContent,
    /// The response is made: the first handler that answers wins.
    Content,
    /// Log lines, after the response.
    Log,
}

/// The result of a handler.
pub enum Outcome {
    /// The handler does not apply: the next one runs.
    Declined,
    /// A handler of [`Phase::Access`] lets the request pass. With `satisfy any` no other handler of the phase runs
    /// then.
    Allowed,
    /// The response.
    Response(Box<Response>),
    /// The built-in answer for this status, which `error_page` may replace.
    Status(Status),
    /// The built-in answer that sends the client to another place: with this status and this `Location`.
    ClientRedirect(Status, Bytes),
    /// Start again with another URI (path, already decoded, and arguments), inside the server.
    Redirect(Vec<u8>, Option<Vec<u8>>),
    /// Go on in the named location (with its `@`).
    Named(String),
    /// Close the connection without a response (`return 444`).
    Close,
}

impl From<Box<Response>> for Outcome {
    fn from(response: Box<Response>) -> Outcome {
        Outcome::Response(response)
    }
}

/// A handler that never waits, may wait, or seldom waits.
#[derive(Clone, Copy)]
pub enum Run {
    /// Answers at once.
    Now(fn(&mut Request) -> Outcome),
    /// May wait.
    Later(Later),
    /// Answers at once where it can, and may wait where it cannot (`None`).
    NowOrLater(fn(&mut Request) -> Option<Outcome>, Later),
}

/// A handler that may wait.
pub type Later = for<'r> fn(&'r mut Request) -> LocalBoxFuture<'r, Outcome>;

/// A handler at a phase, and whether a location with these settings needs it at all.
#[derive(Clone, Copy)]
pub struct Handler {
    /// The phase in which the handler runs.
    pub phase: Phase,
    /// Asked once for each location when a generation is built.
    pub wanted: fn(&SettingsSet) -> bool,
    /// The handler.
    pub run: Run,
}

/// A function that a handler has left for the end of a request, in whichever location it ends. It is a state of the request
/// ([`Request::own`]), so that a request without one pays nothing for it. It is called before the log phase, and never waits.
#[derive(Default)]
pub struct EndHook(Cell<Option<fn(&mut Request)>>);

impl EndHook {
    /// Leaves the function with a request. A request has one.
    pub fn leave(request: &Request, at_end: fn(&mut Request)) {
        request.own.get::<EndHook>().0.set(Some(at_end));
    }

    /// Calls the function, if the request has one.
    #[inline]
    pub fn call(request: &mut Request) {
        if let Some(hook) = request.own.find::<EndHook>()
            && let Some(at_end) = hook.0.take()
        {
            at_end(request);
        }
    }
}

/// The slots of filters, in the order in which they see a response (nginx's order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// Asks for the next slices of a large response (`slice`).
    Slice,
    /// Answers 304 and 412 instead of the body. After it, `error_page` may replace the response; the slots below see
    /// only the response that is really sent.
    NotModified,
    /// Sets and removes fields: `more_set_headers`.
    MoreHeaders,
    /// Puts text around the body (`echo_before_body`, `echo_after_body`).
    Around,
    /// Replaces strings line by line (`subs_filter`).
    Subs,
    /// Adds fields: `add_header`, `expires`.
    Headers,
    /// Marks clients with a cookie (`userid`).
    UserId,
    /// Decompresses for clients that cannot (`gunzip`).
    Gunzip,
    /// Prepares text before and after the body (`add_before_body`, `add_after_body`), which [`Slot::Insert`] adds
    /// later.
    Addition,
    /// Replaces strings (`sub_filter`).
    Sub,
    /// Recodes text (`charset`).
    Charset,
    /// Server side includes.
    Ssi,
    /// Inserts the responses of subrequests that a filter above has made: they went through the filters of their own
    /// locations, and the filters in between do not see them.
    Insert,
    /// Compresses, with the first of zstd, brotli and gzip that the client and the settings allow.
    Compress,
    /// Cuts ranges out of the body.
    Range,
}

/// A filter of responses.
#[derive(Clone, Copy)]
pub struct Filter {
    /// The slot of the filter.
    pub slot: Slot,
    /// Asked once for each location when a generation is built.
    pub wanted: fn(&SettingsSet) -> bool,
    /// Changes the response.
    pub run: fn(&mut Request, &mut Response),
}
