//! A problem that an operator should look at, as both forms show it.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::samples::{MetricRow, Text};
use crate::content::described::described;

/// The section of the page that shows the groups of servers of `http`.
pub const HTTP_GROUPS: &str = "upstreams";

/// The section of the page that shows the groups of servers of `stream`.
pub const STREAM_GROUPS: &str = "streams";

/// The kinds of problems. Those that concern most requests, and causes of others, come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// No operation on a mount ends.
    MountHangs,
    /// A group has no server that can be asked.
    GroupOut,
    /// A server takes no requests, though nobody has taken it out.
    ServerOut,
    /// A name of a server has no address.
    NameUnresolved,
    /// A certificate has ended.
    CertificateEnded,
    /// A cache is not used, because of its disk.
    CacheOut,
    /// A cache, or its disk, has no room.
    CacheFull,
    /// A server answers more slowly than before, or than the others of its group.
    ServerSlow,
    /// An event loop was held up.
    LoopLate,
    /// The queue of a thread pool is nearly full, or was full.
    PoolFull,
    /// A limit refuses many requests.
    Limit,
    /// A zone has many answers with a status of 5xx.
    ServerErrors,
    /// Requests wait for a server.
    RequestsWait,
    /// Objects could not be stored in a cache.
    CacheUnstored,
    /// The engine that machines share state through is away, or stores nothing.
    EngineAway,
    /// A log takes no lines.
    LogFails,
    /// Lines of a log were lost.
    LogLoses,
    /// A state file could not be written.
    StateUnsaved,
    /// A certificate cannot be ordered.
    CertificateOrder,
    /// A certificate ends soon.
    CertificateEnds,
    /// There are more problems than are told.
    More,
}

impl ProblemKind {
    /// The word for it in answers.
    pub fn word(self) -> &'static str {
        match self {
            ProblemKind::MountHangs => "mount_hangs",
            ProblemKind::GroupOut => "group_out",
            ProblemKind::ServerOut => "server_out",
            ProblemKind::NameUnresolved => "name_unresolved",
            ProblemKind::CertificateEnded => "certificate_ended",
            ProblemKind::CacheOut => "cache_out",
            ProblemKind::CacheFull => "cache_full",
            ProblemKind::ServerSlow => "server_slow",
            ProblemKind::LoopLate => "loop_late",
            ProblemKind::PoolFull => "pool_full",
            ProblemKind::Limit => "limit",
            ProblemKind::ServerErrors => "server_errors",
            ProblemKind::RequestsWait => "requests_wait",
            ProblemKind::CacheUnstored => "cache_unstored",
            ProblemKind::EngineAway => "engine_away",
            ProblemKind::LogFails => "log_fails",
            ProblemKind::LogLoses => "log_loses",
            ProblemKind::StateUnsaved => "state_unsaved",
            ProblemKind::CertificateOrder => "certificate_order",
            ProblemKind::CertificateEnds => "certificate_ends",
            ProblemKind::More => "more",
        }
    }

    /// The section of the page that has the details. Problems of groups of servers of `stream` are in [`STREAM_GROUPS`] instead.
    pub fn section(self) -> &'static str {
        match self {
            ProblemKind::GroupOut
            | ProblemKind::ServerOut
            | ProblemKind::ServerSlow
            | ProblemKind::NameUnresolved
            | ProblemKind::RequestsWait
            | ProblemKind::More => HTTP_GROUPS,
            ProblemKind::MountHangs | ProblemKind::PoolFull => "pools",
            ProblemKind::CacheOut | ProblemKind::CacheFull | ProblemKind::CacheUnstored => "caches",
            ProblemKind::CertificateEnded | ProblemKind::CertificateOrder | ProblemKind::CertificateEnds => "tls",
            ProblemKind::LoopLate => "loops",
            ProblemKind::Limit | ProblemKind::ServerErrors => "zones",
            ProblemKind::EngineAway => "cluster",
            ProblemKind::LogFails | ProblemKind::LogLoses | ProblemKind::StateUnsaved => "logs",
        }
    }
}

described! {
    /// Something that an operator should look at.
    #[derive(Clone)]
    #[schema = "Problem"]
    pub struct StatusProblem {
        /// The section of the page that has its details: `upstreams` (groups of `http`), `streams` (groups of `stream`),
        /// `pools`, `caches`, `tls`, `zones`, `loops`, `cluster` or `logs`.
        pub section: &'static str,
        /// The kind of the problem.
        pub kind: &'static str,
        /// The name of the group, mount, pool, cache, certificate, zone, loop or file.
        pub subject: String,
        /// The part of the subject that it is about, such as the address of a server, the kind of a limit
        /// (`requests`, `connections`, `sessions`), or `stream`; empty for the whole.
        pub part: String,
        /// The problem as a sentence without the name.
        pub text: String,
        /// Time at which it was first noticed, in seconds since 1970.
        #[metric(gauge "freerun_problem_begin_timestamp_seconds",
            "When a problem was first noticed, in seconds since 1970.")]
        pub since: i64,
        /// Time at which it was noticed that it is over, in seconds since 1970.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub ended: Option<i64>,
        /// The file and the line of the configuration that made the object, if there is such a line.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub place: Option<String>,
        /// The newest line about the object among the last lines of the error log.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub log_line: Option<String>,
    }
}

described! {
    /// The problems of now and of the last fifteen minutes.
    #[schema = "Problems"]
    pub struct ProblemLists {
        /// Problems that are there; those that concern most requests first.
        pub now: Vec<StatusProblem>,
        /// Problems that have ended in the last fifteen minutes, the newest end first.
        pub past: Vec<StatusProblem>,
    }
}

impl StatusProblem {
    /// A problem that is noticed now, in seconds since 1970.
    pub fn new(kind: ProblemKind, subject: &str, part: &str, text: String, now: i64) -> StatusProblem {
        let (subject, part) = (subject.to_owned(), part.to_owned());
        let (section, kind) = (kind.section(), kind.word());
        StatusProblem { section, kind, subject, part, text, since: now, ended: None, place: None, log_line: None }
    }

    /// The key of the problem. The same problem has the same key, whatever numbers its text has.
    pub fn key(&self) -> u64 {
        problem_key(self.section, self.kind, &self.subject, &self.part)
    }
}

/// The key of a problem, or of a counter of such problems. Keys are compared within one process only.
pub fn problem_key(section: &str, kind: &str, subject: &str, part: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (section, kind, subject, part).hash(&mut hasher);
    hasher.finish()
}

/// Writes the problems for Prometheus.
pub(super) fn text(problems: &[StatusProblem], out: &mut Text) {
    let rows = problems.iter().filter(|problem| problem.kind != ProblemKind::More.word()).map(|problem| MetricRow {
        labels: vec![
            ("section", &problem.section),
            ("kind", &problem.kind),
            ("subject", &problem.subject),
            ("part", &problem.part),
        ],
        object: problem,
    });
    out.objects(&rows.collect::<Vec<_>>());
}
