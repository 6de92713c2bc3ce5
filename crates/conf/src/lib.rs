//! The nginx.conf language: parser, directive tables, settings, diagnostics, reference printer.
//!
//! Three stages, kept apart:
//!
//! 1. [`parse()`]: text to [`Tree`], with the place of every word. No side effects; files come through a [`Loader`].
//! 2. [`apply_block`]: the directives of one block, checked against the [`Registry`] and folded into a [`SettingsSet`]
//!    over the enclosing block's. The groups come from [`settings!`] tables; no directive is parsed by hand elsewhere.
//! 3. Builders (in other crates) walk the structural directives that `apply_block` returns.
//!
//! ```
//! use freerun_conf::*;
//!
//! settings! {
//!     /// How files are sent.
//!     pub struct FileSettings {
//!         /// Sends files with `sendfile()`.
//!         sendfile: bool = "off", in HTTP | SERVER;
//!         /// The pages tried for a folder.
//!         index: Many<Vec<String>> = "index.html", in HTTP | SERVER;
//!     }
//! }
//!
//! static STRUCTURE: &[Directive] = &[
//!     Directive::structural("http", Contexts::MAIN, Shape::exactly(0, "").with_block(Contexts::HTTP), "HTTP."),
//!     Directive::structural("server", Contexts::HTTP, Shape::exactly(0, "").with_block(Contexts::SERVER), "A server."),
//! ];
//!
//! fn build(registry: &Registry, tree: &Tree, cx: &mut Cx) -> Result<Vec<SettingsSet>, Problem> {
//!     let defaults = registry.defaults(cx)?;
//!     let (main, blocks) = apply_block(registry, Contexts::MAIN, &tree.nodes, &defaults, cx)?;
//!     let mut servers = Vec::new();
//!     for http in blocks {
//!         let (settings, blocks) = apply_block(registry, Contexts::HTTP, http.children(), &main, cx)?;
//!         for server in blocks {
//!             servers.push(apply_block(registry, Contexts::SERVER, server.children(), &settings, cx)?.0);
//!         }
//!     }
//!     Ok(servers)
//! }
//!
//! let registry = Registry::new(&[group::<FileSettings>()], STRUCTURE).unwrap();
//! let tree = parse("/etc/nginx.conf", None, "/etc", &mut OneText("http { sendfile on; server { index a b; } server {} }"));
//! let mut cx = Cx::new(tree.sources.clone());
//! let built = build(&registry, &tree, &mut cx);
//! let servers = match cx.conclude(built, tree.error) {
//!     Ok(servers) => servers,
//!     Err(problems) => panic!("{}", problems.render(&tree.sources, "freerun: ")),
//! };
//! assert!(servers[0].get::<FileSettings>().sendfile);
//! assert_eq!(servers[0].get::<FileSettings>().index.as_slice(), [["a", "b"]]);
//! assert_eq!(servers[1].get::<FileSettings>().index.as_slice(), [["index.html"]]);
//! ```

mod apply;
mod cidr;
mod comments;
mod contexts;
mod cx;
mod diagnostics;
mod directive;
pub mod directive_owners;
mod dump;
pub mod expression;
mod keywords;
mod lexer;
mod macros;
mod manual;
mod node;
mod octets;
mod odd_text;
mod parse;
mod place;
mod plain;
mod problem;
mod reference;
mod registry;
mod settings;
mod similar_name;
#[doc(hidden)]
pub mod testing;
mod tree;
mod units;
mod unknown_directive;
mod value;

pub use apply::apply_block;
pub use cidr::{Cidr, parse_address};
pub use comments::{Comment, comments};
pub use contexts::Contexts;
pub use cx::{Cx, MAX_PROBLEMS, TypeMap};
pub use diagnostics::{Diagnostics, MAX_SHOWN};
pub use directive::{Block, Directive, Fidelity, Members, Shape};
pub use dump::dump;
pub use keywords::{Flags, Keyword, unknown_keyword};
pub use manual::{Manual, manual, module_of, page};
pub use node::{MAX_WORD, Node, Word};
pub use octets::{byte_of, bytes_of, display_only, into_bytes, path_of, text_of, text_of_os};
pub use parse::{parse, reason};
pub use place::{Place, Source, Sources};
pub use plain::{fold, plain, unmarked};
pub use problem::{Problem, Severity};
pub use reference::{Additions, Example, Examples, explain, reference};
pub use registry::Registry;
pub use settings::{ErasedSettings, Group, Settings, SettingsSet, Slot, group, parse_default};
pub use similar_name::near;
pub use tree::{Loader, MAX_BLOCKS, MAX_FILE, MAX_INCLUDES, MAX_NODES, MAX_TOTAL, MAX_WARNINGS, OneText, Tree};
pub use units::{Buffers, Offset, Seconds, Size, parse_number, parse_offset, parse_seconds, parse_size, parse_time};
pub use unknown_directive::missing;
pub use value::{Many, RawBlock, Setting, Value, raw_entries};
