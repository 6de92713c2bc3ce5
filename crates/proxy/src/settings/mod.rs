//! The directives that all members of the family have, declared once: `proxy_buffers`, `fastcgi_buffers` and so on are
//! one row of one table.
//!
//! [`FamilySettings`] is the table, written with the names that `proxy` has. Its column `members` names the members with
//! the row; without it, all have the row. [`PrefixedSettings`] makes a group of the table for each [`Member`], with the
//! member's prefix and rows. All members' settings are of the one type, so what works with them needs to know nothing of
//! the member.

mod cache;
pub mod lists;
mod member_sets;
pub mod members;
pub mod next;
pub mod options;
pub mod store;

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use freerun_conf::{
    Buffers, Contexts, Cx, Directive, Fidelity, Flags, Many, Members, Node, Problem, Settings, Size, Slot,
};
use freerun_http::request::Request;
use freerun_http::settings::rate::Bytes as Rate;
use freerun_http::settings::transfer::LowWater;
use freerun_http::template::Template;
use freerun_http::values::temp_path::TempPath;
use freerun_serve::configuration::compiled_paths;
use freerun_serve::tls::upstream::UpstreamTls;
use freerun_serve::upstream_settings;

use crate::caches::path::CachePaths;
use crate::caches::purge_rule::PurgeRule;
use crate::caches::values::{CacheName, Conditions, Methods, Valid};
use freerun_http::values::access::Access;
use lists::{HeaderName, Ignorable};
use member_sets::{ANSWERED, BUFFERED, PROXY, WITH_FIELDS, WITH_LOW_WATER, WITH_TLS};
use next::Causes;
use store::StoreSetting;

upstream_settings! {
    /// The directives that all members of the family have.
    #[module = "proxy"]
    pub struct FamilySettings<Request> in HTTP | SERVER | LOCATION, tls for WITH_TLS {
        /// Conditions under which a server may be asked: all values have to be neither empty nor `0`. They are
        /// evaluated for each chosen server, which `$upstream_last_addr` and `$upstream_last_server_name` show.
        ///
        /// A server that may not be asked counts as failed, as with nginx, also for `max_fails`. The next server is
        /// asked with `proxy_next_upstream denied`, and the answer is 502 otherwise.
        proxy_allow_upstream: Conditions, in HTTP | SERVER | LOCATION, since = "1.29.3";
        /// Size of the buffer for the head of a response, which has to fit.
        proxy_buffer_size: Size = "4k", in HTTP | SERVER | LOCATION, members = ANSWERED;
        /// Whether responses are read from the upstream server as fast as it sends them, into `proxy_buffers` and then
        /// into a temporary file. With `off` the upstream server waits for the client. The field `X-Accel-Buffering:
        /// yes | no` of a response overrides it for that response.
        proxy_buffering: bool = "on", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Number and size of the buffers that a response may fill while the client has not taken it.
        proxy_buffers: Buffers = "8 4k", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The most buffered bytes that may be in transit to the client while the response is not yet complete; at
        /// least one buffer. By default two buffers.
        proxy_busy_buffers_size: Option<Size>, in HTTP | SERVER | LOCATION, members = BUFFERED,
            fidelity = NoEffect("checked; what is on its way to a client counts among `proxy_buffers`");
        /// Stores responses of the upstream server in the cache of this zone (`proxy_cache_path`), which variables may
        /// name. `off` cancels the value of an outer level.
        ///
        /// With it, `Range`, `If-Range`, `If-None-Match`, `If-Modified-Since`, `If-Match` and `If-Unmodified-Since` are
        /// not passed on with requests that may be cached. These fields ask for a part of a response or only for a
        /// changed one, so they are evaluated here, for the stored response.
        ///
        /// A response that may be stored is fetched to its end, whatever the client does. A client that goes away before
        /// it comes is logged with the status of the response, or 499 if none comes, and 0 bytes, unless
        /// `proxy_ignore_client_abort` is on.
        proxy_cache: CacheName = "off", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Whether a stale response is updated by a subrequest in the background, while the request is answered with
        /// the stale one, if `proxy_cache_use_stale` allows that.
        proxy_cache_background_update: bool = "off", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Conditions under which a response is not taken from the cache: any value that is not empty and not `0`. The
        /// new response is stored all the same, unless `proxy_no_cache` forbids it.
        proxy_cache_bypass: Conditions, in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Whether HEAD is passed on as GET where responses are cached. With `off`, the key has to contain
        /// `$request_method`.
        proxy_cache_convert_head: bool = "on", in HTTP | SERVER | LOCATION, members = PROXY,
            fidelity = Differs("the answer to a HEAD that was passed on as such has no body, and is never one to GET, whatever the key says");
        /// The key under which a response is stored and found.
        proxy_cache_key: Option<Template>, in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Whether only one of several requests for a missing entry is passed on at a time. The others wait for it, and
        /// are answered while the response comes. With `off` nobody waits for the head of another request's response; but
        /// a request that comes when that head is there follows the response, too, instead of asking once more.
        ///
        /// A response to which nothing is added for `proxy_cache_lock_age`, or that breaks off, does not end the
        /// requests that follow it. Each of them asks the server anew, and its client gets the rest from the new
        /// response if that is the same one. The status, length, type and validators have to be equal, and the bytes
        /// that the client has already. Otherwise the client's response is cut.
        proxy_cache_lock: bool = "off", in HTTP | SERVER | LOCATION, members = BUFFERED,
            fidelity = Differs("who waits gets the response while it comes, and is not woken only every half second; with off, too, a response is followed whose head has come");
        /// The time after which one more request is passed on: without a response, or without more of its body.
        proxy_cache_lock_age: Duration = "5s", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The time after which a waiting request is passed on, and its response is not stored. A request waits until the
        /// response's body begins.
        proxy_cache_lock_timeout: Duration = "5s", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The largest offset of ranges that are answered from the cache; requests for later ranges are passed on
        /// unchanged, and their responses are not stored.
        proxy_cache_max_range_offset: Option<Size>, in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Methods whose responses are stored; GET and HEAD always are.
        proxy_cache_methods: Methods, in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The number of requests after which a response is stored.
        proxy_cache_min_uses: u32 = "1", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// A folder for a cache, and the zone (`keys_zone=name:size`) with its index in memory.
        ///
        /// A zone has as many entries as with nginx: 8095 in one megabyte. The name of an entry's file is the MD5 sum of
        /// its key, in folders named by the sum's last digits (`levels=1:2`). `max_size` is never exceeded (0: nothing is
        /// kept), and `min_free` stays free: the least used entries are removed, and so are entries that were not used
        /// for `inactive` (10 minutes). Files are made in the cache's own folder with `use_temp_path=off`, or if the
        /// folder for temporary files is on another file system.
        ///
        /// With `sync`, purges on one machine reach the caches of all that share the engine of `zone_sync_engine` and have a
        /// zone of this name. A machine that is off, or cut off, catches up when it comes back; where it may have missed some,
        /// everything is purged. A purge is answered with 202 if the engine is away: it is in force here, and others will be
        /// told.
        ///
        /// `memory` is the size of the tier in memory (32m; 0: none). The entries in the folder are known at once after
        /// a restart.
        ///
        /// Files may be removed at any time (`rm -rf`, or the helpers of applications that purge so): the next request
        /// for such an entry asks the server. A file that another program has replaced, rewritten or truncated is not
        /// used, which is logged. This holds for entries in memory, too, whose folders are watched. Where a folder cannot
        /// be watched (there are 8192 already, or the limits of inotify are reached), their files are looked at once in a
        /// second.
        proxy_cache_path: CachePaths, in HTTP, members = BUFFERED,
            fidelity = Differs("memory= is of our own; loader_*, manager_* and purger_* have no effect: a thread of each cache does it all as it comes");
        /// Which requests remove stored responses, instead of being passed on.
        ///
        /// With variables (`proxy_cache_purge $purge`), as in nginx's commercial edition: those for which one of the
        /// values is not empty and not `0`. The answer is 204, or 404 if there was no such key.
        ///
        /// In the words of the module ngx_cache_purge: `on`, which means the method PURGE, or `METHOD [from all |
        /// address …]`, for requests with this method from these clients. Other clients get 403. `METHOD purge_all from …`
        /// removes everything that the cache has. In a location that passes nothing on, `ZONE KEY` has every request
        /// remove a key of a zone (`proxy_cache_purge pages $1`). The answer is 200, or 404 if there was no such key or
        /// the location has no cache. With `METHOD`, a key that contains `$request_method` differs from the key of a
        /// GET.
        ///
        /// A key that ends with `*` removes all keys with that prefix. A request with the field `Surrogate-Key` or
        /// `Cache-Tag` removes the entries with one of the tags in it, instead. A removed response is not used from
        /// then on; its file is removed later.
        proxy_cache_purge: PurgeRule, in HTTP | SERVER | LOCATION, members = BUFFERED,
            fidelity = Differs("tags, and the words of ngx_cache_purge, are of our own; a number, with which every request would be a purge, is refused");
        /// Whether a stale entry is revalidated with `If-Modified-Since` and `If-None-Match`.
        proxy_cache_revalidate: bool = "off", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Whether responses are stored and used by the rules of RFC 9111 instead of nginx's rules.
        ///
        /// - `Age` and `Date` are used and sent.
        /// - `must-revalidate`, `must-understand`, `no-cache` and `private` with fields, and the client's
        ///   `Cache-Control` are honoured.
        /// - A response without a lifetime has a heuristic one if it has `Last-Modified`.
        /// - A response with a validator is revalidated; a `304` updates the stored fields.
        /// - Answers to requests with `Authorization` are stored if they allow it.
        /// - Requests with unsafe methods invalidate the stored responses for their target and for the targets in
        ///   `Location` and `Content-Location`.
        ///
        /// `X-Accel-Expires` still comes before the rest, `cache_valid` applies if a response has no lifetime, and
        /// `Set-Cookie` prevents storing.
        proxy_cache_rfc9111: bool = "off", in HTTP | SERVER | LOCATION, members = BUFFERED, fidelity = Own;
        /// The cases in which a stale entry is used: if asking the upstream server fails in this way, or with
        /// `updating` while another request updates it.
        proxy_cache_use_stale: Causes = "off", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The time for which responses with these statuses (`any`: all others) are fresh, unless their own
        /// `X-Accel-Expires`, `Expires` or `Cache-Control` says it. Without a status it applies to 200, 301 and 302.
        proxy_cache_valid: Valid, in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The longest time for connecting to an upstream server.
        proxy_connect_timeout: Duration = "60s", in HTTP | SERVER | LOCATION;
        /// Whether ranges of a response are supported even if the upstream server did not offer them.
        proxy_force_ranges: bool = "off", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// A field of the upstream server's response that is not passed on, besides those that are hidden by default.
        proxy_hide_header: Many<HeaderName>, in HTTP | SERVER | LOCATION, members = WITH_FIELDS;
        /// Whether the upstream server may finish when the client goes away.
        proxy_ignore_client_abort: bool = "off", in HTTP | SERVER | LOCATION, members = BUFFERED,
            fidelity = Differs("a client that ends its side of the connection counts as gone a second later, since it may still wait for the answer");
        /// Fields of the upstream server's response that this server does not act on.
        proxy_ignore_headers: Flags<Ignorable>, in HTTP | SERVER | LOCATION, members = WITH_FIELDS;
        /// Whether `error_page` applies to responses with a status of 300 or more.
        proxy_intercept_errors: bool = "off", in HTTP | SERVER | LOCATION, members = WITH_FIELDS;
        /// The most bytes a second that are read from the upstream server, for each request; 0 is no limit. It works
        /// only with buffering.
        proxy_limit_rate: Rate = "0", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The most bytes of a response that are kept in a temporary file; 0 is no file.
        proxy_max_temp_file_size: Size = "1024m", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The cases in which a request is passed to the next server of the group. A request that is not idempotent
        /// (POST, LOCK, PATCH) is not passed on once it was sent, except with `non_idempotent`.
        proxy_next_upstream: Causes = "error timeout", in HTTP | SERVER | LOCATION, members = ANSWERED,
            fidelity = Differs("a response with such a status is passed on where no other server can be asked at once; whether a request is \
                idempotent is decided by the method that the server gets, not by the client's");
        /// Conditions under which a response is not stored: any value that is not empty and not `0`.
        proxy_no_cache: Conditions, in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// A field of the upstream server's response that is passed on although it is hidden by default.
        proxy_pass_header: Many<HeaderName>, in HTTP | SERVER | LOCATION, members = WITH_FIELDS;
        /// Whether the request's body is passed on.
        proxy_pass_request_body: bool = "on", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Whether the request's fields are passed on.
        proxy_pass_request_headers: bool = "on", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The longest time between two reads from the upstream server.
        proxy_read_timeout: Duration = "60s", in HTTP | SERVER | LOCATION, members = ANSWERED;
        /// Whether the request's body is read completely before the request is passed on.
        ///
        /// With `off` it is passed on as it comes, and once some bytes of a request were sent, it cannot be passed to a
        /// next server. An error page then gets the request without the body if the method is GET or HEAD, or has
        /// become GET. Otherwise the client gets the status of the error alone.
        proxy_request_buffering: bool = "on", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// Whether a separate request is made for each server, in which `$upstream_last_server_name` and the other
        /// `$upstream_last_…` variables have the values of this server. With `off` all requests have the values from
        /// before the first server was chosen.
        proxy_request_dynamic: bool = "off", in HTTP | SERVER | LOCATION, members = WITH_FIELDS, since = "1.29.3";
        /// The number of bytes that must fit the socket to the upstream server before it counts as writable.
        proxy_send_lowat: LowWater = "0", in HTTP | SERVER | LOCATION, members = WITH_LOW_WATER,
            fidelity = NoEffect("Linux does not have it; nginx warns there, too");
        /// The longest time between two writes to the upstream server.
        proxy_send_timeout: Duration = "60s", in HTTP | SERVER | LOCATION;
        /// Stores responses as files: at the path of `root` or `alias` (`on`), or at a path with variables.
        ///
        /// A file appears under its name when it is complete, with the response's `Last-Modified` as its time.
        /// A response is fetched and stored to its end, whatever the client does.
        proxy_store: StoreSetting = "off", in HTTP | SERVER | LOCATION, members = BUFFERED,
            fidelity = Differs("responses are kept without buffering, too (`buffering off`, `X-Accel-Buffering: no`)");
        /// Rights of the files that `proxy_store` makes.
        proxy_store_access: Access = "user:rw", in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The number of bytes that are written to a temporary file at a time. By default two buffers.
        proxy_temp_file_write_size: Option<Size>, in HTTP | SERVER | LOCATION, members = BUFFERED;
        /// The folder for temporary files of responses, and the numbers of digits in the names of its subfolders.
        ///
        /// The master makes it for the worker's user, as nginx does. If the compiled-in folder (`-V` prints it) cannot
        /// be made, nginx does not start. freerun makes the folders above it if they are missing. If that fails, it
        /// warns, and responses that do not fit the buffers wait for their clients. Subfolders are not made: the files
        /// have no names. The error log calls such a file by its folder and the number of its inode.
        proxy_temp_path: TempPath = compiled_paths::PROXY_TEMP_PATH, in HTTP | SERVER | LOCATION, members = BUFFERED,
            fidelity = Differs("a compiled-in folder that cannot be made is a warning");
    }
}

/// The prefix that the table is written with.
const WRITTEN: &str = "proxy_";

impl FamilySettings {
    /// The most bytes that the head of a response may have: the value of `buffer_size`.
    pub fn max_head(&self) -> usize {
        self.proxy_buffer_size.in_memory()
    }

    /// The most bytes of a response that are kept in memory: the number of `buffers` times their size.
    pub fn most_buffered(&self) -> usize {
        Size(u64::from(self.proxy_buffers.count).saturating_mul(self.proxy_buffers.size)).in_memory()
    }

    /// The larger of `buffer_size` and a buffer of `buffers`, in bytes.
    fn buffer(&self) -> u64 {
        self.proxy_buffer_size.0.max(self.proxy_buffers.size)
    }

    /// The value of `busy_buffers_size` in bytes, by default two buffers.
    pub fn busy_buffers_size(&self) -> u64 {
        self.proxy_busy_buffers_size.map_or(2 * self.buffer(), |size| size.0)
    }

    /// The value of `temp_file_write_size` in bytes, by default two buffers.
    pub fn temp_file_write_size(&self) -> u64 {
        self.proxy_temp_file_write_size.map_or(2 * self.buffer(), |size| size.0)
    }

    /// Checks directives of a member with this prefix that must fit each other.
    ///
    /// # Errors
    /// What is wrong, in nginx's words.
    pub fn check_sizes(&self, prefix: &str) -> Result<(), Problem> {
        let largest = format!("the maximum of the value of \"{prefix}buffer_size\" and one of the \"{prefix}buffers\"");
        let all_but_one = u64::from(self.proxy_buffers.count.saturating_sub(1)).saturating_mul(self.proxy_buffers.size);
        let message = if self.proxy_buffers.count < 2 {
            format!("there must be at least 2 \"{prefix}buffers\"")
        } else if self.busy_buffers_size() < self.buffer() {
            format!("\"{prefix}busy_buffers_size\" must be equal to or greater than {largest}")
        } else if self.busy_buffers_size() > all_but_one {
            format!(
                "\"{prefix}busy_buffers_size\" must be less than the size of all \"{prefix}buffers\" minus one buffer"
            )
        } else if self.temp_file_write_size() < self.buffer() {
            format!("\"{prefix}temp_file_write_size\" must be equal to or greater than {largest}")
        } else if self.proxy_max_temp_file_size.0 != 0 && self.proxy_max_temp_file_size.0 < self.buffer() {
            format!(
                "\"{prefix}max_temp_file_size\" must be equal to zero to disable temporary files usage or must be equal to \
                 or greater than {largest}"
            )
        } else {
            return Ok(());
        };
        Err(Problem::new(message))
    }
}

/// A member of the family; the macro `member!` implements it.
pub trait Member: Send + Sync + 'static {
    /// The prefix of its directives, such as `fastcgi_`.
    const PREFIX: &'static str;
    /// The group's name in the reference.
    const NAME: &'static str;
    /// The group's documentation.
    const DOCS: &'static str;
    /// The member in the column `members` of the table.
    const MEMBER: Members;

    /// In which rows it is not as with nginx, and how, where the other members are; rows without prefix.
    const DIFFERS: &'static [(&'static str, &'static str)];

    /// The compiled-in default of its `temp_path`.
    const TEMP_PATH: &'static str = compiled_paths::PROXY_TEMP_PATH;

    /// Changes the defaults of the rows that it lacks.
    fn adapt(_settings: &mut FamilySettings) {}

    /// The parts that are made once for the member.
    fn parts() -> &'static MemberParts;
}

/// The parts that are made once for a member: the slot of its settings and its directive table.
#[derive(Default)]
pub struct MemberParts {
    slot: Slot,
    table: OnceLock<MemberTable>,
}

impl MemberParts {
    /// Parts that are not made yet.
    pub const fn new() -> MemberParts {
        MemberParts { slot: Slot::new(), table: OnceLock::new() }
    }
}

impl FamilySettings {
    /// TLS towards upstream servers of this level.
    ///
    /// # Errors
    /// The directives contradict each other, or a file cannot be used, in nginx's words.
    pub fn upstream_tls(
        &self,
        prefix: &'static str,
        alpn: Vec<Vec<u8>>,
        cx: &mut Cx,
    ) -> Result<Arc<UpstreamTls>, Problem> {
        UpstreamTls::of(self.tls_spec(prefix, alpn), cx)
    }
}

/// The directives of a member, each with its row in [`FamilySettings`].
struct MemberTable {
    directives: Vec<Directive>,
    rows: Vec<usize>,
}

impl MemberTable {
    /// Makes the rows that a member has, under its names. The texts are made once for a process, so they may be leaked.
    fn new<M: Member>() -> MemberTable {
        let renamed = |text: &'static str| -> &'static str {
            if M::PREFIX == WRITTEN { text } else { text.replace(WRITTEN, M::PREFIX).leak() }
        };
        let mut table: Vec<(Directive, usize)> = Vec::new();
        for (row, directive) in FamilySettings::directives().iter().enumerate() {
            if !directive.members.contains(M::MEMBER) {
                continue;
            }
            let name = directive.name.strip_prefix(WRITTEN).unwrap_or(directive.name);
            let differs = M::DIFFERS.iter().find(|(row, _)| *row == name).map(|(_, how)| Fidelity::Differs(how));
            let own = Directive {
                name: renamed(directive.name),
                fidelity: differs.unwrap_or(directive.fidelity),
                documentation: renamed(directive.documentation),
                default: if name == "temp_path" { Some(M::TEMP_PATH) } else { directive.default.map(renamed) },
                ..*directive
            };
            table.push((own, row));
        }
        // The rows that all services have stand last; in the reference they are in their places.
        table.sort_by_key(|(directive, _)| directive.name);
        let (directives, rows) = table.into_iter().unzip();
        MemberTable { directives, rows }
    }
}

/// Implements [`Member`] for a new type.
macro_rules! member {
    ($(#[doc = $doc:literal])* $vis:vis struct $name:ident: $prefix:literal, $group:literal, $member:expr
        $(, differs $differs:expr)? $(, temp $temp:expr)? $(, with $adapt:expr)?;) => {
        $(#[doc = $doc])*
        $vis struct $name;

        impl $crate::settings::Member for $name {
            const PREFIX: &'static str = $prefix;
            const NAME: &'static str = $group;
            const DOCS: &'static str = concat!($($doc, "\n",)* "");
            const MEMBER: ::freerun_conf::Members = $member;
            const DIFFERS: &'static [(&'static str, &'static str)] = {
                let differs: &[(&str, &str)] = &[];
                $(let _ = differs; let differs: &[(&str, &str)] = $differs;)?
                differs
            };

            $(const TEMP_PATH: &'static str = $temp;)?

            $(fn adapt(settings: &mut $crate::settings::FamilySettings) {
                let adapt: fn(&mut $crate::settings::FamilySettings) = $adapt;
                adapt(settings);
            })?

            fn parts() -> &'static $crate::settings::MemberParts {
                static PARTS: $crate::settings::MemberParts = $crate::settings::MemberParts::new();
                &PARTS
            }
        }
    };
}

pub(crate) use member;

/// [`FamilySettings`] as the settings of a member.
pub struct PrefixedSettings<M>(FamilySettings, PhantomData<fn() -> M>);

impl<M> Clone for PrefixedSettings<M> {
    fn clone(&self) -> Self {
        PrefixedSettings(self.0.clone(), PhantomData)
    }
}

impl<M> Deref for PrefixedSettings<M> {
    type Target = FamilySettings;

    fn deref(&self) -> &FamilySettings {
        &self.0
    }
}

impl<M: Member> PrefixedSettings<M> {
    fn table() -> &'static MemberTable {
        M::parts().table.get_or_init(MemberTable::new::<M>)
    }
}

impl<M: Member> Settings for PrefixedSettings<M> {
    type Level = <FamilySettings as Settings>::Level;

    const NAME: &'static str = M::NAME;
    const DOCS: &'static str = M::DOCS;
    const HAS_LOCAL: bool = FamilySettings::HAS_LOCAL;
    const MERGES_ALWAYS: bool = FamilySettings::MERGES_ALWAYS;

    fn slot() -> &'static Slot {
        &M::parts().slot
    }

    fn directives() -> &'static [Directive] {
        &Self::table().directives
    }

    fn defaults(cx: &mut Cx) -> Result<Self, Problem> {
        let mut settings = FamilySettings::defaults(cx)?;
        // The only default that each member has of its own.
        let temp_path = Self::directives().iter().find(|directive| directive.name.ends_with("_temp_path"));
        if let Some((name, text)) = temp_path.and_then(|directive| Some((directive.name, directive.default?))) {
            settings.proxy_temp_path = freerun_conf::parse_default(name, text, cx)?;
        }
        M::adapt(&mut settings);
        Ok(PrefixedSettings(settings, PhantomData))
    }

    fn set(level: &mut Self::Level, index: usize, node: &Node, cx: &mut Cx) -> Result<(), Problem> {
        let Some(row) = Self::table().rows.get(index) else {
            return Err(Problem::new(format!("no row {index} in the directive table of {}", M::NAME)));
        };
        FamilySettings::set(level, *row, node, cx)?;
        let stores = level.proxy_store.as_ref().is_some_and(|store| !matches!(store, StoreSetting::Off));
        if stores && level.proxy_cache.as_ref().is_some_and(CacheName::is_on) {
            let name = &node.name.text;
            let other = if name.ends_with("cache") { "store" } else { "cache" };
            let message = format!("\"{name}\" directive is incompatible with \"{}{other}\"", M::PREFIX);
            return Err(Problem::new(message).at_node(node));
        }
        Ok(())
    }

    fn merge(level: Self::Level, parent: &Self, defaults: &Self, within: Contexts) -> Self {
        let (cache, store) = (level.proxy_cache.clone(), level.proxy_store.clone());
        let purges = level.proxy_cache_purge.is_some();
        let mut settings = FamilySettings::merge(level, &parent.0, &defaults.0, within);
        settings.settle_store(cache.as_ref(), store.as_ref());
        // A location that purges a key does nothing else; one inside it need not do the same.
        if !purges && !within.contains(Contexts::LOCATION_IF) && settings.proxy_cache_purge.key().is_some() {
            settings.proxy_cache_purge = PurgeRule::Never;
        }
        PrefixedSettings(settings, PhantomData)
    }
}

#[cfg(test)]
mod cache_tests;
#[cfg(test)]
mod tests;
