//! What a module brings: directives, handlers at named phases, filters at named slots, variables.
//!
//! Modules are listed once, explicitly; nothing registers itself. The order in the list is the order in which
//! handlers of one phase run.

use std::sync::Arc;

use freerun_conf::{Cx, Directive, Group, Node, Problem, SettingsSet};

use crate::content::response::{LocalBoxFuture, Response};
use crate::generation::Generation;
use crate::request::Request;
use crate::shared::Shared;
use crate::variables::Variable;

/// The phases of a request, in nginx's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before anything else (`realip`).
    PostRead,
    /// Rewriting at the level of the server, before a location is chosen.
    ServerRewrite,
    /// Rewriting inside the location.
    Rewrite,
    /// Limits, before access is checked.
    PreAccess,
    /// Who may ask.
    Access,
    /// Just before content is made: `try_files`, `mirror`.
    PreContent,
    /// The response is made: the first handler that answers wins.
    Content,
    /// After the response: logs.
    Log,
}

/// What a handler says.
pub enum Outcome {
    /// Not mine: ask the next handler.
    Declined,
    /// Of a handler of [`Phase::Access`]: this request may pass, as far as I am asked. With `satisfy any` no other
    /// handler of the phase is asked then.
    Allowed,
    /// The response.
    Response(Box<Response>),
    /// The built-in answer for this status, which `error_page` may replace.
    Status(u16),
    /// Start again with another URI (path, already decoded, and arguments), inside the server.
    Redirect(Vec<u8>, Option<Vec<u8>>),
    /// Go on in the named location (with its `@`).
    Named(String),
    /// Close the connection without an answer (`return 444`).
    Close,
}

impl From<Box<Response>> for Outcome {
    fn from(response: Box<Response>) -> Outcome {
        Outcome::Response(response)
    }
}

/// A handler: one that never waits, one that may, or one that seldom does.
#[derive(Clone, Copy)]
pub enum Run {
    /// Answers at once.
    Now(fn(&mut Request) -> Outcome),
    /// May wait.
    Later(Later),
    /// Answers at once where it can, and may wait where it cannot (`None`).
    NowOrLater(fn(&mut Request) -> Option<Outcome>, Later),
}

/// What may wait.
pub type Later = for<'r> fn(&'r mut Request) -> LocalBoxFuture<'r, Outcome>;

/// A handler at a phase, and whether a location with these settings needs it at all.
#[derive(Clone, Copy)]
pub struct Handler {
    /// Where it runs.
    pub phase: Phase,
    /// Asked once for each location when a generation is built.
    pub wanted: fn(&SettingsSet) -> bool,
    /// The handler.
    pub run: Run,
}

/// The slots of filters, in the order in which they see a response, which is nginx's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Slot {
    /// Asks for the next slices of a large response (`slice`).
    Slice,
    /// Answers 304 and 412 instead of the body. After it, `error_page` may replace the response; the slots below see
    /// only what is really sent.
    NotModified,
    /// Adds fields: `add_header`, `expires`.
    Headers,
    /// Marks clients with a cookie (`userid`).
    UserId,
    /// Unpacks for clients that cannot (`gunzip`).
    Gunzip,
    /// Has text put before and after (`add_before_body`, `add_after_body`), later, at [`Slot::Insert`].
    Addition,
    /// Replaces strings (`sub_filter`).
    Sub,
    /// Recodes text (`charset`).
    Charset,
    /// Server side includes.
    Ssi,
    /// Puts in what subrequests of a filter above answer: it went through the filters of their own locations, and those
    /// between do not see it.
    Insert,
    /// Packs: the first of zstd, brotli and gzip that client and settings agree on.
    Compress,
    /// Cuts ranges out of what is left.
    Range,
}

/// A filter of responses.
#[derive(Clone, Copy)]
pub struct Filter {
    /// Where it stands.
    pub slot: Slot,
    /// Asked once for each location when a generation is built.
    pub wanted: fn(&SettingsSet) -> bool,
    /// Changes the response.
    pub run: fn(&mut Request, &mut Response),
}

/// Looks at merged settings; a problem refuses the configuration.
pub type Settle = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// A block of the `http` level that is a module's, such as `upstream`: its directives are settings of a context of their
/// own, and it does not become a level of requests.
pub struct Block {
    /// Name, arguments and the context inside.
    pub directive: Directive,
    /// Called with the block and the settings inside, in reading order with the servers.
    pub read: fn(&Node, &SettingsSet, &mut Cx) -> Result<(), Problem>,
}

/// Called once, when all of `http` has been read, with the settings of its level. What must outlast reading goes into
/// [`Parts`](crate::generation::Parts).
pub type Finish = fn(&SettingsSet, &mut Cx) -> Result<(), Problem>;

/// Called on the control thread, never on a loop.
pub type Begin = fn(&Arc<Generation>, &Arc<Shared>);

/// Called on the control thread when there are no loops any more.
pub type End = fn(&Generation);

/// A module.
pub struct Module {
    /// Its name, for the reference and `-V`.
    pub name: &'static str,
    /// Its directives.
    pub groups: &'static [&'static dyn Group],
    /// Its handlers.
    pub handlers: &'static [Handler],
    /// The directive by which a location's content is made by this module: of several of that kind in a location, the last one
    /// says which module it is. The handlers of the others are left out, and its own is asked first.
    pub content: Option<&'static str>,
    /// Its filters.
    pub filters: &'static [Filter],
    /// Its variables.
    pub variables: &'static [Variable],
    /// Called with the merged settings of every location and of every server's own level: for what can only be known
    /// then, such as a default that needs a file.
    pub settle: Option<Settle>,
    /// Its blocks.
    pub blocks: &'static [Block],
    /// For what can only be known at the end of `http`.
    pub finish: Option<Finish>,
    /// Called before a generation takes requests: for what its first request should find done. May wait, for a bounded
    /// time, while the generation before goes on serving.
    pub prepare: Option<Begin>,
    /// Called when a generation has begun to take requests: for what runs beside them. What it starts has to end with the
    /// generation.
    pub begin: Option<Begin>,
    /// Called with the last generation when the process ends: for what the next process should find. May wait, for a bounded
    /// time.
    pub end: Option<End>,
}

impl Module {
    /// A module that brings nothing; for `..Module::EMPTY`.
    pub const EMPTY: Module = Module {
        name: "",
        groups: &[],
        handlers: &[],
        content: None,
        filters: &[],
        variables: &[],
        settle: None,
        blocks: &[],
        finish: None,
        prepare: None,
        begin: None,
        end: None,
    };
}
