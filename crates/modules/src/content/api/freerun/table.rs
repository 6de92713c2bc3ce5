//! The endpoints of freerun's own API.

use freerun_proto::Method;
use serde_json::{Value, json};

use super::cluster::AppliedPurges;
use super::endpoint_call::{EndpointCall, EndpointFuture};
use super::refusal::{Code, Refusal};
use super::{caches, cluster, log, loops, server_parts};
use crate::content::described::schema::{HasSchema, Schemas};
use crate::content::status::caches::CacheFigures;
use crate::content::status::cluster::{ClusterFigures, ClusterNode};
use crate::content::status::figures::{LoopFigures, Mount, Pool};
use crate::content::status::history::figures::HistoryFigures;
use crate::content::status::key::KeyExplanation;
use crate::content::status::problem::ProblemLists;
use crate::content::status::routes::Routes;

/// The part of a path that leads to this API.
pub const NAME: &str = "freerun";

/// The only version.
pub const VERSION: &str = "1";

/// A method at a path. Everything that can be asked is in [`ENDPOINTS`].
pub struct Endpoint {
    /// The method; `HEAD` does what `GET` does.
    pub method: Method,
    /// The path behind the version; a part in braces stands for a name.
    pub path: &'static str,
    /// The name of the operation, for programs that are generated from the description.
    pub id: &'static str,
    /// The summary of the endpoint, in a few words.
    pub summary: &'static str,
    /// Further documentation.
    pub details: &'static str,
    /// The arguments in the query: names, and what they mean.
    pub arguments: &'static [(&'static str, &'static str)],
    /// The body of the request.
    pub body: Option<Schema>,
    /// The body of the response; without it, the status is 204.
    pub answer: Option<Schema>,
    /// An example of a call.
    pub example: Example,
    /// Codes of refusals of this endpoint, beside the common ones.
    pub refusals: &'static [Code],
    /// The handler.
    pub(super) run: EndpointHandler,
}

/// A request as it may be sent, and its answer, for the page of the reference.
pub struct Example {
    /// The path behind the version, with names filled in.
    pub path: &'static str,
    /// The body of the request: JSON.
    pub body: &'static str,
    /// Some fields of the answer: JSON, or nothing.
    pub answer: &'static str,
}

const fn example(path: &'static str, answer: &'static str) -> Example {
    Example { path, body: "", answer }
}

/// Gives a schema.
pub type Schema = fn(&mut Schemas) -> Value;

/// Answers a request.
pub(super) type EndpointHandler = for<'r> fn(EndpointCall<'r>) -> EndpointFuture<'r>;

const GET: Endpoint = Endpoint {
    method: Method::Get,
    path: "",
    id: "",
    summary: "",
    details: "",
    arguments: &[],
    body: None,
    answer: None,
    example: example("", ""),
    refusals: &[],
    run: server_parts::index,
};
const PATCH: Endpoint = Endpoint { method: Method::Patch, ..GET };
const POST: Endpoint = Endpoint { method: Method::Post, ..GET };
const DELETE: Endpoint = Endpoint { method: Method::Delete, ..GET };

/// All endpoints, in the order of their paths.
pub static ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        path: "/",
        id: "listPaths",
        summary: "The names of what is below.",
        example: example("/", r#"["caches","history","log","loops","mounts"]"#),
        answer: Some(Vec::<String>::schema),
        run: server_parts::index,
        ..GET
    },
    Endpoint {
        path: "/caches",
        id: "listCaches",
        summary: "All caches with their figures, by name.",
        example: example("/caches", r#"[{"name":"pages","state":"ready","entries":1}]"#),
        answer: Some(Vec::<CacheFigures>::schema),
        refusals: &[Code::Overloaded],
        run: caches::all,
        ..GET
    },
    Endpoint {
        path: "/caches/{zone}",
        id: "getCache",
        summary: "The figures of a cache.",
        example: example("/caches/pages", r#"{"name":"pages","state":"ready","entries":1}"#),
        answer: Some(CacheFigures::schema),
        refusals: &[Code::CacheNotFound],
        run: caches::one,
        ..GET
    },
    Endpoint {
        path: "/caches/{zone}/keys",
        id: "explainKey",
        summary: "What is stored for a key, where, how fresh it is, and why.",
        example: example(
            "/caches/pages/keys?key=/page",
            r#"{"key":"/page","why":"fresh for 600 more seconds: Cache-Control","entry":{"fresh":true}}"#,
        ),
        details: "One of the arguments is needed. A key for which nothing is stored is explained, too. Asking changes no \
                  state. A variant (`Vary`) has a hash of its own.",
        arguments: &[
            ("key", "The text of the key, as `proxy_cache_key` makes it."),
            ("hash", "The 32 digits by which the file of the key is named."),
        ],
        answer: Some(KeyExplanation::schema),
        refusals: &[Code::BadArgument, Code::CacheNotFound],
        run: caches::explain,
        ..GET
    },
    Endpoint {
        path: "/caches/{zone}/keys",
        id: "removeKey",
        summary: "Removes what is stored for a key, with all variants.",
        example: example("/caches/pages/keys?key=/page", ""),
        details: "It is in force at once, for responses as well that are being fetched.",
        arguments: &[("key", "The text of the key, in which an asterisk is a character like any other.")],
        refusals: &[Code::BadArgument, Code::CacheNotFound, Code::KeyNotFound],
        run: caches::remove,
        ..DELETE
    },
    Endpoint {
        path: "/caches/{zone}/purge",
        id: "purge",
        summary: "Purges a key, all keys that begin with a text, or all objects with a tag.",
        example: Example { path: "/caches/pages/purge", body: r#"{"key":"/p*"}"#, answer: "" },
        details: "`{\"key\": \"/page\"}` purges one key, `{\"key\": \"/p*\"}`, with an asterisk at its end, all keys that \
                  begin with `/p`, and `{\"tags\": [\"red\", \"blue\"]}` all objects with one of these tags in `Surrogate-Key` or \
                  `Cache-Tag`. It is in force at once, however many objects it concerns; their files are removed later. \
                  It outlives the process.",
        body: Some(caches::purge_schema),
        refusals: &[Code::BadBody, Code::CacheNotFound, Code::KeyNotFound, Code::TooLong, Code::ClusterAway],
        run: caches::purge,
        ..POST
    },
    Endpoint {
        path: "/cluster",
        id: "getCluster",
        summary: "The engine of `zone_sync_engine`, and what is shared through it.",
        example: example("/cluster", r#"{"state":"connected","nodes":1,"zones":[{"name":"flags","pending":0}]}"#),
        answer: Some(ClusterFigures::schema),
        refusals: &[Code::NoCluster],
        run: cluster::show,
        ..GET
    },
    Endpoint {
        path: "/cluster/caches/{zone}",
        id: "getAppliedPurges",
        summary: "Which machines have applied the newest purge of a cache.",
        example: example("/cluster/caches/pages", r#"{"everywhere":true}"#),
        answer: Some(AppliedPurges::schema),
        refusals: &[Code::NoCluster, Code::CacheNotFound, Code::ClusterAway],
        run: cluster::purges,
        ..GET
    },
    Endpoint {
        path: "/cluster/nodes",
        id: "listNodes",
        summary: "The machines that share the engine: hosts, versions, configurations.",
        example: example("/cluster/nodes", r#"[{"is_self":true}]"#),
        answer: Some(Vec::<ClusterNode>::schema),
        refusals: &[Code::NoCluster, Code::ClusterAway],
        run: cluster::nodes,
        ..GET
    },
    Endpoint {
        path: "/history",
        id: "getHistory",
        summary: "The last fifteen minutes in intervals of five seconds: requests, errors, times, states.",
        example: example("/history", r#"{"interval_seconds":5,"left_out":0,"worker":{"requests":[0]}}"#),
        details: "At most 256 servers of http with requests, as many of stream, and as many upstream servers have a history. It \
                  goes on over reloads, and begins anew with another worker.",
        answer: Some(HistoryFigures::schema),
        refusals: &[Code::Overloaded],
        run: server_parts::history,
        ..GET
    },
    Endpoint {
        path: "/log",
        id: "getLog",
        summary: "The logs, the addresses with a level of their own, and the last errors.",
        example: example("/log", r#"{"addresses":{},"last_errors":[]}"#),
        answer: Some(log::LogState::schema),
        run: log::show,
        ..GET
    },
    Endpoint {
        path: "/log",
        id: "changeLog",
        summary: "Gives addresses of clients a level of the error log of their own, or takes it away.",
        example: Example {
            path: "/log",
            body: r#"{"addresses":{"192.0.2.1":"debug"}}"#,
            answer: r#"{"addresses":{"192.0.2.1":"debug"}}"#,
        },
        details: "Lines about requests, connections and sessions of such a client are written from this level on, \
                  whatever `error_log` says, more of them or fewer. Addresses that are not named keep their level. At \
                  most 64 addresses have one, until the next reload.",
        body: Some(log::change_schema),
        answer: Some(log::LogState::schema),
        refusals: &[Code::BadBody, Code::TooManyAddresses, Code::TooLong],
        run: log::change,
        ..PATCH
    },
    Endpoint {
        path: "/log",
        id: "resetLog",
        summary: "Takes the levels of all addresses away.",
        example: example("/log", r#"{"addresses":{}}"#),
        answer: Some(log::LogState::schema),
        run: log::reset,
        ..DELETE
    },
    Endpoint {
        path: "/loops",
        id: "listLoops",
        summary: "All event loops: their connections, their turns, their stalls.",
        example: example("/loops", r#"[{"index":0,"drain":false},{"index":1,"drain":false}]"#),
        answer: Some(Vec::<LoopFigures>::schema),
        run: loops::all,
        ..GET
    },
    Endpoint {
        path: "/loops/{index}",
        id: "getLoop",
        summary: "An event loop.",
        example: example("/loops/1", r#"{"index":1,"drain":false}"#),
        answer: Some(LoopFigures::schema),
        refusals: &[Code::LoopNotFound],
        run: loops::one,
        ..GET
    },
    Endpoint {
        path: "/loops/{index}",
        id: "changeLoop",
        summary: "Drains an event loop, or ends that.",
        example: Example { path: "/loops/1", body: r#"{"drain":true}"#, answer: r#"{"index":1,"drain":true}"# },
        details: "A loop that is drained takes no new connections, while others do. It keeps the connections that it has, \
                  and its part of the sockets for datagrams. The next reload ends it.",
        body: Some(loops::change_schema),
        answer: Some(LoopFigures::schema),
        refusals: &[Code::BadBody, Code::LoopNotFound, Code::LastLoop, Code::TooLong],
        run: loops::change,
        ..PATCH
    },
    Endpoint {
        path: "/mounts",
        id: "listMounts",
        summary: "The mounts that files were served from, and how the kernel is asked about them.",
        example: example("/mounts", r#"[{"mount":"/","rung":"nowait"}]"#),
        answer: Some(Vec::<Mount>::schema),
        refusals: &[Code::Overloaded],
        run: server_parts::mounts,
        ..GET
    },
    Endpoint {
        path: "/openapi.json",
        id: "describe",
        summary: "This description.",
        example: example("/openapi.json", r#"{"openapi":"3.1.0","info":{"title":"freerun"}}"#),
        answer: Some(any_object),
        refusals: &[Code::Overloaded],
        run: server_parts::description,
        ..GET
    },
    Endpoint {
        path: "/pools",
        id: "listPools",
        summary: "The thread pools: threads, queue, times.",
        example: example("/pools", r#"[{"name":"default","active":0}]"#),
        answer: Some(Vec::<Pool>::schema),
        run: server_parts::pools,
        ..GET
    },
    Endpoint {
        path: "/problems",
        id: "listProblems",
        summary: "What an operator should look at first, and what has ended in the last fifteen minutes.",
        example: example("/problems", r#"{"now":[],"past":[]}"#),
        answer: Some(ProblemLists::schema),
        refusals: &[Code::Overloaded],
        run: server_parts::problems,
        ..GET
    },
    Endpoint {
        path: "/routes",
        id: "listRoutes",
        summary: "The servers and locations of the configuration, and what each does.",
        example: example("/routes", r#"{"left_out":0,"routes":[{"kind":"server","path":"","directives":[]}]}"#),
        details: "At most 20,000 entries. Passwords in URLs, arguments of URLs, conditions and texts of responses are left out.",
        answer: Some(Routes::schema),
        refusals: &[Code::Overloaded],
        run: server_parts::routes,
        ..GET
    },
];

fn any_object(_: &mut Schemas) -> Value {
    json!({ "type": "object" })
}

impl Endpoint {
    /// Whether it changes something.
    pub fn writes(&self) -> bool {
        self.method != Method::Get
    }

    /// The text of its method.
    pub fn method_text(&self) -> &'static str {
        self.method.as_str().unwrap_or_default()
    }

    /// The names that stand in the path.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.parts().filter_map(name)
    }

    fn parts(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter(|part| !part.is_empty())
    }

    /// The names in a path that is this one's; `None`: it is another path.
    fn matches(&self, path: &[&str]) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut path = path.iter();
        for part in self.parts() {
            let given = path.next()?;
            match name(part) {
                Some(_) => names.push((*given).to_owned()),
                None if part == *given => {}
                None => return None,
            }
        }
        path.next().is_none().then_some(names)
    }
}

/// The name that a part of a path stands for.
fn name(part: &'static str) -> Option<&'static str> {
    part.strip_prefix('{')?.strip_suffix('}')
}

/// The endpoint for a method at a path behind the version, with the names in the path.
///
/// # Errors
/// There is no such path, or the method cannot be used there, because it does nothing, or would change something and
/// nobody may.
pub fn find(path: &[&str], method: Method, may_write: bool) -> Result<(&'static Endpoint, Vec<String>), Refusal> {
    let at_path = || ENDPOINTS.iter().filter_map(move |endpoint| Some((endpoint, endpoint.matches(path)?)));
    let usable = || at_path().filter(move |(endpoint, _)| may_write || !endpoint.writes());
    if let Some(found) = usable().find(|(endpoint, _)| endpoint.method == method) {
        return Ok(found);
    }
    if at_path().next().is_none() {
        return Err(Code::PathNotFound.into());
    }
    let mut allow = Vec::new();
    for (endpoint, _) in usable() {
        allow.push(endpoint.method_text());
        if endpoint.method == Method::Get {
            allow.push("HEAD");
        }
    }
    let is_there = at_path().any(|(endpoint, _)| endpoint.method == method);
    let code = if is_there { Code::MethodDisabled } else { Code::MethodNotAllowed };
    Err(Refusal::method(code, allow.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn found(path: &[&str], method: Method, may_write: bool) -> Result<(&'static str, Vec<String>), Refusal> {
        find(path, method, may_write).map(|(endpoint, names)| (endpoint.id, names))
    }

    #[test]
    fn endpoints_are_found_by_path_and_method() {
        assert_eq!(found(&[], Method::Get, false), Ok(("listPaths", vec![])));
        assert_eq!(found(&["caches", "a"], Method::Get, false), Ok(("getCache", vec!["a".to_owned()])));
        assert_eq!(found(&["loops", "1"], Method::Patch, true), Ok(("changeLoop", vec!["1".to_owned()])));
        for path in [&["nothing"][..], &["caches", "a", "b"], &["caches", "a", "keys", "b"], &["{zone}"]] {
            assert_eq!(found(path, Method::Get, true), Err(Code::PathNotFound.into()), "{path:?}");
        }
    }

    #[test]
    fn methods_that_can_be_used_are_told() {
        let refused = |path: &[&str], method, may_write| found(path, method, may_write).unwrap_err().allow.unwrap();
        assert_eq!(refused(&["log"], Method::Put, true), "GET, HEAD, PATCH, DELETE");
        assert_eq!(refused(&["log"], Method::Patch, false), "GET, HEAD");
        assert_eq!(refused(&["caches", "a", "purge"], Method::Get, true), "POST");
        assert_eq!(refused(&["caches", "a", "purge"], Method::Post, false), "");
    }

    #[test]
    fn the_table_is_sound() {
        let paths: Vec<&str> = ENDPOINTS.iter().map(|endpoint| endpoint.path).collect();
        assert!(paths.is_sorted(), "{paths:?}");
        let ids: BTreeSet<&str> = ENDPOINTS.iter().map(|endpoint| endpoint.id).collect();
        assert_eq!(ids.len(), ENDPOINTS.len());
        for endpoint in ENDPOINTS {
            assert!(!endpoint.summary.is_empty() && endpoint.path.starts_with('/'), "{}", endpoint.id);
            assert!(endpoint.writes() || endpoint.body.is_none(), "{}", endpoint.id);
            let Example { path, body, answer } = endpoint.example;
            let path: Vec<&str> =
                path.split('?').next().unwrap_or_default().split('/').filter(|part| !part.is_empty()).collect();
            assert!(endpoint.matches(&path).is_some(), "{}", endpoint.id);
            assert_eq!((body.is_empty(), answer.is_empty()), (endpoint.body.is_none(), endpoint.answer.is_none()));
        }
    }
}
