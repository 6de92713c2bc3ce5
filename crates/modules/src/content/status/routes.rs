//! The servers and locations of the configuration, as JSON shows them.

use freerun_http::build::route_list::RouteList;
use freerun_serve::configuration::generation::Generation;

use crate::content::described::described;

described! {
    /// The servers and locations of the configuration. Nothing in it is secret: passwords in URLs, arguments of URLs,
    /// conditions and texts of responses are left out.
    #[derive(Default)]
    pub struct Routes {
        /// Entries for which there was no room.
        pub left_out: usize,
        /// Servers and their locations, in the order of the configuration.
        pub routes: Vec<Route>,
    }

    /// A server or a location.
    pub struct Route {
        /// Names of the server.
        pub server: String,
        /// Addresses of the server; empty for the default.
        pub listens: String,
        /// `server`, `exact`, `prefix`, `final` (`^~`), `regex`, `variable` or `named`.
        pub kind: &'static str,
        /// The location as it is written, without its modifier.
        pub path: String,
        /// File and line.
        pub place: String,
        /// Directives that say what it does.
        pub directives: Vec<String>,
    }
}

/// The servers and locations of a generation.
pub fn collect(generation: &Generation) -> Routes {
    let Some(list) = generation.parts.get::<RouteList>() else { return Routes::default() };
    let routes = list.entries.iter().cloned().map(|entry| Route {
        server: entry.server,
        listens: entry.listens,
        kind: entry.kind,
        path: entry.path,
        place: entry.place,
        directives: entry.directives,
    });
    Routes { left_out: list.left_out, routes: routes.collect() }
}
