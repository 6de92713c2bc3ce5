//! Reasons that the API refuses a request.

use freerun_cluster::PairWriteError;
use freerun_serve::values::keyvals::PairRefusal;
use serde_json::{Value, json};

/// Address of the API's description.
const REFERENCE: &str = "https://nginx.org/en/docs/http/ngx_http_api_module.html";

/// The reason that the API refuses a request. The texts and the codes are taken from the API's description; where it
/// leaves the text open, the text says what is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// There is no such version.
    #[error("unknown version")]
    UnknownVersion,
    /// There is nothing at this path.
    #[error("path not found")]
    PathNotFound,
    /// The method changes something, and `write=on` is missing; or it would reset counters, which are not reset.
    #[error("method disabled")]
    MethodDisabled,
    /// The method does nothing here.
    #[error("method not allowed")]
    MethodNotAllowed,
    /// A page of another server wants a browser to change something.
    #[error("requests of other origins are not allowed")]
    OtherOrigin,
    /// There is no such zone for a server.
    #[error("server zone not found")]
    ServerZoneNotFound,
    /// There is no such zone for a location.
    #[error("location zone not found")]
    LocationZoneNotFound,
    /// There is no such cache.
    #[error("cache not found")]
    CacheNotFound,
    /// There is no such zone of `limit_conn`.
    #[error("limit_conn not found")]
    LimitConnNotFound,
    /// There is no such zone of `limit_req`.
    #[error("limit_req not found")]
    LimitReqNotFound,
    /// There is no such zone of a resolver.
    #[error("resolver zone not found")]
    ResolverZoneNotFound,
    /// There is no such loop.
    #[error("worker not found")]
    WorkerNotFound,
    /// There are no slabs.
    #[error("slab not found")]
    SlabNotFound,
    /// There is no such group of servers.
    #[error("upstream not found")]
    UpstreamNotFound,
    /// The group has no zone, so it is not shown and cannot be changed.
    #[error("upstream is static")]
    UpstreamStatic,
    /// The number of a server is no number.
    #[error("invalid server ID")]
    BadServerId,
    /// The group has no server with this number.
    #[error("server with ID \"{0}\" does not exist")]
    ServerNotFound(u32),
    /// The server is one of those that a name stands for.
    #[error("server \"{0}\" not removable")]
    ServerImmutable(u32),
    /// The group has this server already.
    #[error("entry exists")]
    EntryExists,
    /// The body is no JSON.
    #[error("the body is no JSON: {0}")]
    Json(String),
    /// The body does not come, or not completely.
    #[error("reading request body failed")]
    BodyRead,
    /// A description of a server is wrong.
    #[error("{0}")]
    ServerFormat(String),
    /// The address of a server is wrong.
    #[error("{0}")]
    BadAddress(String),
    /// A parameter of a server is wrong.
    #[error("invalid \"{0}\"")]
    BadParameter(&'static str, &'static str),
    /// The server's name cannot be looked up.
    #[error("no resolver defined to resolve {0}")]
    NoResolver(String),
    /// The group's method knows no backup servers.
    #[error("upstream \"{0}\" has no backup")]
    NoBackup(String),
    /// The group has as many servers as it may have.
    #[error("upstream \"{0}\" memory exhausted")]
    NoRoom(String),
    /// There is no such zone of pairs.
    #[error("keyval not found")]
    KeyvalNotFound,
    /// A description of pairs is wrong.
    #[error("{0}")]
    KeyvalFormat(&'static str),
    /// The pairs are shared with other machines, and the engine that they are shared through is away.
    #[error("the pairs are shared with other machines, and the engine is away")]
    KeyvalNotShared,
    /// The pairs cannot be changed so.
    #[error(transparent)]
    Keyval(#[from] PairRefusal),
}

impl From<PairWriteError> for ApiError {
    fn from(error: PairWriteError) -> ApiError {
        match error {
            PairWriteError::Refused(refusal) => refusal.into(),
            PairWriteError::Away => ApiError::KeyvalNotShared,
        }
    }
}

impl ApiError {
    /// The status of the response, and the code in its body.
    pub fn status_and_code(&self) -> (u16, &'static str) {
        match self {
            ApiError::UnknownVersion => (404, "UnknownVersion"),
            ApiError::PathNotFound => (404, "PathNotFound"),
            ApiError::MethodDisabled => (405, "MethodDisabled"),
            ApiError::MethodNotAllowed => (405, "MethodNotAllowed"),
            ApiError::OtherOrigin => (403, "OtherOrigin"),
            ApiError::ServerZoneNotFound => (404, "ServerZoneNotFound"),
            ApiError::LocationZoneNotFound => (404, "LocationZoneNotFound"),
            ApiError::CacheNotFound => (404, "CacheNotFound"),
            ApiError::LimitConnNotFound => (404, "LimitConnNotFound"),
            ApiError::LimitReqNotFound => (404, "LimitReqNotFound"),
            ApiError::ResolverZoneNotFound => (404, "ResolverZoneNotFound"),
            ApiError::WorkerNotFound => (404, "WorkerNotFound"),
            ApiError::SlabNotFound => (404, "SlabNotFound"),
            ApiError::UpstreamNotFound => (404, "UpstreamNotFound"),
            ApiError::UpstreamStatic => (400, "UpstreamStatic"),
            ApiError::BadServerId => (400, "UpstreamBadServerId"),
            ApiError::ServerNotFound(_) => (404, "UpstreamServerNotFound"),
            ApiError::ServerImmutable(_) => (400, "UpstreamServerImmutable"),
            ApiError::EntryExists => (409, "EntryExists"),
            ApiError::Json(_) => (415, "JsonError"),
            ApiError::BodyRead => (400, "BodyReadError"),
            ApiError::ServerFormat(_) => (400, "UpstreamConfFormatError"),
            ApiError::BadAddress(_) => (400, "UpstreamBadAddress"),
            ApiError::BadParameter(_, code) => (400, code),
            ApiError::NoResolver(_) => (400, "UpstreamConfNoResolver"),
            ApiError::NoBackup(_) => (400, "UpstreamNoBackup"),
            ApiError::NoRoom(_) => (400, "UpstreamOutOfMemory"),
            ApiError::KeyvalNotFound => (404, "KeyvalNotFound"),
            ApiError::KeyvalFormat(_) => (400, "KeyvalFormatError"),
            ApiError::KeyvalNotShared => (503, "KeyvalNotSynced"),
            ApiError::Keyval(PairRefusal::Key | PairRefusal::NotEmpty) => (400, "KeyvalFormatError"),
            ApiError::Keyval(PairRefusal::NotFound) => (404, "KeyvalKeyNotFound"),
            ApiError::Keyval(PairRefusal::Exists) => (409, "KeyvalKeyExists"),
            ApiError::Keyval(PairRefusal::Full) => (413, "KeyvalOutOfMemory"),
        }
    }

    /// The body of the response to the request with this `$request_id`.
    pub fn body(&self, request_id: &str) -> Value {
        let (status, code) = self.status_and_code();
        json!({
            "error": { "status": status, "text": self.to_string(), "code": code },
            "request_id": request_id,
            "href": REFERENCE,
        })
    }
}
