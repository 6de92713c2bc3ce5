//! The directive `api`, and the places where it may be used to change something.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value, bytes_of, settings};
use freerun_http::request::Request;
use freerun_http::request::location::{Location, Within};
use freerun_http::route::{LocationChoice, Locations};
use freerun_serve::configuration::parts::Parts;
use freerun_serve::values::captures::Captures;

/// The most paths of locations with `api write=on` that are looked for.
const MAX_PATHS: usize = 16;

settings! {
    /// The state of the worker in the shape of nginx's API.
    #[module = "api"]
    pub struct ApiSettings {
        /// Answers with the state of the worker as nginx's API of version 9 does, so that its exporters, agents and
        /// dashboards work. Paths are relative to the location: `/9/http/server_zones` and so on. Versions 1 to 9 are
        /// answered alike.
        ///
        /// An event loop stands for a worker process: it has an entry in `workers`. `slabs` is empty, because zones need no
        /// memory that is given out in advance, and there is no `license`. Groups of servers are shown if they have a `zone`. The
        /// argument `fields` names the fields that are wanted. `status` shows what this API has no place for.
        ///
        /// With `write=on`, the API adds, changes and removes the servers of groups that have a `zone` (`POST`, `PATCH`
        /// and `DELETE` of `/9/http/upstreams/NAME/servers`), and the pairs of a `keyval_zone`. A change is in effect
        /// when it is answered, for requests that begin then. With a `state` it is kept. Without a `state`, a change of
        /// servers is lost with the next reload, so that a server that was drained or is `down` gets requests again.
        /// The field `Freerun-Note` of the answer says so. Pairs stay over reloads. Both are lost when the worker dies,
        /// because a new worker begins with the configuration.
        ///
        /// Requests that a browser sends for a page of another server are refused with 403. Requests by a name that
        /// this server does not have are refused, too, since anybody may let a name of their own stand for an address
        /// of yours (DNS rebinding). Browsers may use an IP address, `localhost`, and the names and wildcards of
        /// `server_name`, but not its regular expressions. Programs other than browsers may use any name. Reading is
        /// not restricted in this way. If pages must not read either, give the server a `server_name`, and have another
        /// server, the `default_server`, answer all other names with 444.
        ///
        /// The `id` of a server is a large number, and not 0, 1, 2 as in nginx: the list of a group's servers has it. A
        /// server that is still there after a reload, at the same address or by the same name, keeps its `id`. If a
        /// name stands for several addresses, each keeps its `id` as long as the name has it. After another start all
        /// are new.
        ///
        /// Below `/freerun/1/` are the parts that nginx's API has no place for: event loops, thread pools, mounts,
        /// single keys of caches, and levels of the error log for single clients. Loops can be drained there, and keys
        /// explained and purged. [The page of that API](freerun-api.md) has its paths.
        ///
        /// The answers say much about the configuration, so restrict the access to them, and all the more with `write=on`;
        /// `limit_except GET` restricts the changes alone.
        api: Option<Api>, in LOCATION, content,
            fidelity = Differs("an event loop is a worker; counters are not reset; a response time counts in the bucket of the next power of two");
    }
}

/// The value of `api`.
#[derive(Debug, Clone, Copy)]
pub struct Api {
    /// Whether it changes anything (`write=on`).
    pub write: bool,
    /// The place of the directive in the configuration.
    pub place: Place,
}

impl Value for Api {
    const SHAPE: Shape = Shape::between(0, 1, "[write=on|off]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Api, Problem> {
        let write = match directive.args.first() {
            None => false,
            Some(word) => match word.text.as_str() {
                "write=on" => true,
                "write=off" => false,
                _ => return Err(Problem::invalid_parameter(directive, word)),
            },
        };
        if write {
            note_path(cx);
        }
        Ok(Api { write, place: directive.name.place })
    }
}

/// The names of the locations in which the API may be used to change something, whatever their servers are. They live in
/// the configuration's context, and are a part of its generation then.
#[derive(Debug, Clone, Default)]
struct WritePaths(Vec<String>);

/// Notes the location that is being read. Paths lead into locations with a prefix alone.
fn note_path(cx: &mut Cx) {
    let within = cx.extensions.get_or_default::<Within>();
    let Some(name) = within.location.clone().filter(|_| !within.regex && !within.named) else { return };
    let paths = &mut cx.extensions.get_or_default::<WritePaths>().0;
    if paths.len() < MAX_PATHS && !paths.contains(&name) {
        paths.push(name);
    }
}

/// Makes the noted locations a part of the configuration that was read.
pub fn keep_paths(cx: &mut Cx) {
    if let Some(paths) = cx.extensions.remove::<WritePaths>() {
        cx.extensions.get_or_default::<Parts>().insert(Arc::new(paths));
    }
}

/// The path of a location of the request's server in which the API may be used to change something, without a slash at its
/// end.
pub fn write_path(request: &Request) -> Option<String> {
    let paths = request.generation.parts.get::<WritePaths>()?;
    let locations = &request.place.server.locations;
    paths
        .0
        .iter()
        .map(|path| path.trim_end_matches('/'))
        .find(|path| leads_to_api(request, locations, path))
        .map(str::to_owned)
}

/// Whether requests below this path reach an API that may be used to change something.
fn leads_to_api(request: &Request, locations: &Locations<Location>, path: &str) -> bool {
    let below = format!("{path}/9/");
    let found = locations.find(&bytes_of(&below), &Captures::default(), &|location| location.holds(request));
    match found {
        Ok(LocationChoice::Location(location)) => {
            location.name.trim_end_matches('/') == path
                && !location.internal
                && location.settings.get::<ApiSettings>().api.is_some_and(|api| api.write)
        }
        _ => false,
    }
}
