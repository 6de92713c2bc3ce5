//! Reasons that freerun's own API refuses a request.

use std::borrow::Cow;

use crate::content::described::described;

/// The kinds of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// An argument is missing or wrong.
    BadArgument,
    /// The body is no JSON, or says what cannot be.
    BadBody,
    /// A page of another server wants a browser to change something.
    OtherOrigin,
    /// There is no such version.
    UnknownVersion,
    /// There is nothing at this path.
    PathNotFound,
    /// There is no such loop.
    LoopNotFound,
    /// There is no such cache.
    CacheNotFound,
    /// Nothing is stored for this key.
    KeyNotFound,
    /// The method changes something, and `write=on` is missing.
    MethodDisabled,
    /// The method does nothing here.
    MethodNotAllowed,
    /// No other loop takes connections.
    LastLoop,
    /// Too many addresses would have a level.
    TooManyAddresses,
    /// The body, or a text in it, is too long.
    TooLong,
    /// There is no room in the pool that makes the answer.
    Overloaded,
    /// The configuration takes part in no cluster.
    NoCluster,
    /// The engine of the cluster is away.
    ClusterAway,
}

impl Code {
    /// The status of the response.
    pub fn status(self) -> u16 {
        match self {
            Code::BadArgument | Code::BadBody => 400,
            Code::OtherOrigin => 403,
            Code::UnknownVersion
            | Code::PathNotFound
            | Code::LoopNotFound
            | Code::CacheNotFound
            | Code::KeyNotFound
            | Code::NoCluster => 404,
            Code::MethodDisabled | Code::MethodNotAllowed => 405,
            Code::LastLoop | Code::TooManyAddresses => 409,
            Code::TooLong => 413,
            Code::Overloaded | Code::ClusterAway => 503,
        }
    }

    /// The name in the body of the response.
    pub fn name(self) -> &'static str {
        match self {
            Code::BadArgument => "BadArgument",
            Code::BadBody => "BadBody",
            Code::OtherOrigin => "OtherOrigin",
            Code::UnknownVersion => "UnknownVersion",
            Code::PathNotFound => "PathNotFound",
            Code::LoopNotFound => "LoopNotFound",
            Code::CacheNotFound => "CacheNotFound",
            Code::KeyNotFound => "KeyNotFound",
            Code::MethodDisabled => "MethodDisabled",
            Code::MethodNotAllowed => "MethodNotAllowed",
            Code::LastLoop => "LastLoop",
            Code::TooManyAddresses => "TooManyAddresses",
            Code::TooLong => "TooLong",
            Code::Overloaded => "Overloaded",
            Code::NoCluster => "NoCluster",
            Code::ClusterAway => "ClusterAway",
        }
    }

    /// The meaning of the code, where nothing more is known.
    pub fn text(self) -> &'static str {
        match self {
            Code::BadArgument => "an argument is missing or wrong",
            Code::BadBody => "the body is wrong",
            Code::OtherOrigin => "requests of other origins are not allowed",
            Code::UnknownVersion => "unknown version",
            Code::PathNotFound => "path not found",
            Code::LoopNotFound => "loop not found",
            Code::CacheNotFound => "cache not found",
            Code::KeyNotFound => "nothing is stored for this key",
            Code::MethodDisabled => "method disabled",
            Code::MethodNotAllowed => "method not allowed",
            Code::LastLoop => "no other loop takes connections",
            Code::TooManyAddresses => "too many addresses have a level",
            Code::TooLong => "the body, or a text in it, is too long",
            Code::NoCluster => "there is no zone_sync_engine",
            Code::ClusterAway => "the engine of the cluster is away",
            Code::Overloaded => "there is no room in the pool that makes the answer",
        }
    }
}

/// The reason that nothing is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The kind of the reason.
    pub code: Code,
    /// The reason.
    pub text: Cow<'static, str>,
    /// The methods that can be used instead.
    pub allow: Option<String>,
}

impl Refusal {
    /// A reason in its own words.
    pub fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { code, text: text.into(), allow: None }
    }

    /// The method cannot be used for this reason, but these.
    pub fn method(code: Code, allow: String) -> Refusal {
        Refusal { allow: Some(allow), ..code.into() }
    }

    /// The error as the answer has it, for the request with this `$request_id`.
    pub fn report(&self, request_id: String, href: String) -> Error {
        let (status, code, text) = (self.code.status(), self.code.name(), self.text.to_string());
        Error { error: ErrorFacts { status, code, text }, request_id, href }
    }
}

impl From<Code> for Refusal {
    fn from(code: Code) -> Refusal {
        Refusal::new(code, code.text())
    }
}

described! {
    /// Nothing was done.
    pub struct Error {
        pub error: ErrorFacts,
        /// The `$request_id`, which may be in logs.
        pub request_id: String,
        /// The address of the description of the API.
        pub href: String,
    }

    /// The reason that nothing was done.
    pub struct ErrorFacts {
        /// The status of the response.
        pub status: u16,
        /// The kind of the reason, for programs.
        pub code: &'static str,
        /// The reason, for people.
        pub text: String,
    }
}
