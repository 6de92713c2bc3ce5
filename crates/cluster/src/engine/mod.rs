//! Connections to the engine, and its commands: each answers within a bounded time.

mod buckets;
mod connect;
mod names;
mod reply;
mod scripts;
mod tickets;

use std::collections::HashMap;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisError, Value, cmd};

use crate::log_entry::{EntryFields, EntryId};
use crate::purge_record::MAX_MARK;
use scripts::Script;

pub(crate) use buckets::{BUCKET_NAME, BUCKETS, BucketDemand};
pub(crate) use connect::connect;
pub(crate) use names::EngineNames;

/// The longest wait for an answer. An engine that is later than that is away.
const ANSWER: Duration = Duration::from_secs(3);

/// The longest time for which the engine holds back the answer to a question for new entries.
const BLOCK: Duration = Duration::from_secs(1);

/// The most entries of each log that are read at once. The API takes bodies of 1 MiB, so a page of a log has at most that many
/// MiB.
const ENTRIES: usize = 64;

/// The most pairs that are read at once while all are read.
const PAGE: usize = 512;

/// The longest time for which a write waits until a replica of the engine has it.
const REPLICATION: Duration = Duration::from_millis(100);

/// The reason why the engine is away, or why a command of it failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EngineError {
    /// The library's or the system's words.
    #[error("{0}")]
    Failed(String),
    /// The engine has not answered in time.
    #[error("no answer in {} s", ANSWER.as_secs())]
    Silent,
    /// The engine is there and refuses, in its own words.
    #[error("{0}")]
    Refused(String),
    /// The engine has answered something that the command does not have.
    #[error("an answer to {0} that it does not have")]
    Odd(&'static str),
    /// The cluster has another secret.
    #[error("the nodes of this cluster have another \"zone_sync_secret\"")]
    Secret,
    /// The server is no primary.
    #[error("the server is a replica")]
    Replica,
    /// The primary that sentinels have named has lost its replicas: one of them may be the primary now.
    #[error("its replicas have left it, and sentinels may name another primary soon")]
    Deserted,
}

impl EngineError {
    /// Whether the connections are of use no more.
    pub(crate) fn ends_session(&self) -> bool {
        !matches!(self, EngineError::Refused(_))
    }
}

impl From<RedisError> for EngineError {
    fn from(error: RedisError) -> EngineError {
        if error.is_timeout() {
            return EngineError::Silent;
        }
        match (error.kind(), error.code()) {
            (ErrorKind::Server(_) | ErrorKind::Extension, Some("READONLY")) => EngineError::Replica,
            // It reads its own data, or has lost its primary: it will be another one soon.
            (_, Some("LOADING" | "MASTERDOWN" | "NOAUTH" | "WRONGPASS")) => EngineError::Failed(error.to_string()),
            (ErrorKind::Server(_) | ErrorKind::Extension, _) => EngineError::Refused(error.to_string()),
            _ => EngineError::Failed(error.to_string()),
        }
    }
}

/// The identity of an engine, as it tells it at the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EngineIdentity {
    /// The mark: it is another one when the engine has lost everything.
    pub(crate) mark: Vec<u8>,
    /// The name of its history, which is another one when a replica has become the primary. It is empty where it cannot be
    /// known.
    pub(crate) history: String,
    /// Whether it has replicas.
    pub(crate) has_replicas: bool,
    /// Its clock, in milliseconds since 1970.
    pub(crate) now: u64,
}

/// The ends of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogEnds {
    /// The newest entry that was ever written.
    pub(crate) newest: EntryId,
    /// The oldest entry that is there; `None`: the log is empty.
    pub(crate) oldest: Option<EntryId>,
    /// Whether entries were removed, because the log was too long.
    pub(crate) is_trimmed: bool,
}

impl LogEnds {
    /// Whether entries behind this one may have been removed.
    pub(crate) fn may_lack(&self, applied: EntryId) -> bool {
        self.is_trimmed && self.newest > applied && self.oldest.is_none_or(|oldest| oldest > applied)
    }
}

/// The entries of one log, as they were read.
pub(crate) struct LogPage {
    /// The name of the log.
    pub(crate) log: String,
    /// The entries, the oldest first.
    pub(crate) entries: Vec<(EntryId, EntryFields)>,
}

impl LogPage {
    /// Whether there may be more entries behind these.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES
    }
}

/// The answer to a change of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PairAnswer {
    /// The change is made, by this entry; without an entry, there was nothing to do.
    Done(Option<EntryId>),
    /// There is a pair with this key.
    Exists,
    /// There is no pair with this key.
    Missing,
    /// Several pairs are added at once, and there are some already.
    NotEmpty,
}

/// A change of pairs in words that the engine understands.
#[derive(Debug, Clone)]
pub(crate) enum PairCommand {
    /// Adds pairs: names, texts, and lifetimes.
    Add(Vec<(Vec<u8>, Vec<u8>, Option<Duration>)>),
    /// Changes a pair.
    Set {
        /// The name.
        field: Vec<u8>,
        /// The new text; `None`: it stays.
        payload: Option<Vec<u8>>,
        /// The lifetime from now on; the outer `None`: the end stays.
        lasts: Option<Option<Duration>>,
    },
    /// Removes a pair: its name, and the text that tells other nodes its key. Without the pair it is an error if `true`.
    Remove(Vec<u8>, Vec<u8>, bool),
    /// Removes all pairs.
    Clear,
    /// Stores a pair whatever there is: its name, and its end with its text.
    Put(Vec<u8>, Vec<u8>),
    /// Stores those pairs that are not there: names, and ends with texts.
    Merge(Vec<(Vec<u8>, Vec<u8>)>),
}

impl PairCommand {
    /// The number of bytes of the names and texts.
    pub(crate) fn size(&self) -> usize {
        match self {
            PairCommand::Add(pairs) => pairs.iter().map(|(field, payload, _)| field.len() + payload.len()).sum(),
            PairCommand::Set { field, payload, .. } => field.len() + payload.as_ref().map_or(0, Vec::len),
            PairCommand::Remove(field, payload, _) | PairCommand::Put(field, payload) => field.len() + payload.len(),
            PairCommand::Merge(pairs) => pairs.iter().map(|(field, stored)| field.len() + stored.len()).sum(),
            PairCommand::Clear => 0,
        }
    }
}

/// The connections to an engine: one for commands, and one for waiting until logs have new entries. Cloning shares them.
#[derive(Clone)]
pub(crate) struct EngineLink {
    commands: MultiplexedConnection,
    reader: MultiplexedConnection,
    scripts: HashMap<usize, String>,
    /// The server that was found.
    pub(crate) peer: String,
}

impl EngineLink {
    async fn ask(&mut self, command: &Cmd) -> Result<Value, EngineError> {
        ask(&mut self.commands, command, ANSWER).await
    }

    async fn load_scripts(&mut self) -> Result<(), EngineError> {
        for (script, text) in scripts::ALL {
            let answer = self.ask(cmd("SCRIPT").arg("LOAD").arg(text)).await?;
            let name = reply::text(answer).ok_or_else(|| reply::odd("SCRIPT LOAD"))?;
            self.scripts.insert(script as usize, name);
        }
        Ok(())
    }

    /// Runs a script. An engine that has forgotten it gets it again.
    async fn run(&mut self, script: Script, keys: &[&str], args: &[&[u8]]) -> Result<Value, EngineError> {
        let mut is_again = false;
        loop {
            let name = self.scripts.get(&(script as usize)).map_or("", String::as_str);
            let mut command = cmd("EVALSHA");
            command.arg(name).arg(keys.len()).arg(keys);
            for arg in args {
                command.arg(*arg);
            }
            let answer = tokio::time::timeout(ANSWER, command.query_async::<Value>(&mut self.commands)).await;
            match answer.map_err(|_| EngineError::Silent)? {
                Err(error) if !is_again && error.code() == Some("NOSCRIPT") => {
                    is_again = true;
                    self.load_scripts().await?;
                }
                Err(error) => return Err(error.into()),
                Ok(value) => return Ok(value),
            }
        }
    }

    /// Asks the engine who it is, and gives a new one this mark.
    ///
    /// # Errors
    /// The engine is away, or the cluster has another secret than this check.
    pub(crate) async fn join(
        &mut self,
        names: &EngineNames,
        mark: &[u8],
        check: &[u8],
    ) -> Result<EngineIdentity, EngineError> {
        let odd = || reply::odd("the script that joins");
        let answer = self.run(Script::Join, &[&names.mark(), &names.check()], &[mark, check]).await?;
        let [mark, known, now, _]: [Value; 4] =
            reply::list(answer).and_then(|parts| parts.try_into().ok()).ok_or_else(odd)?;
        if reply::bytes(known).as_deref() != Some(check) {
            return Err(EngineError::Secret);
        }
        let now = reply::number(now).and_then(|now| u64::try_from(now).ok()).ok_or_else(odd)?;
        let mut mark = reply::bytes(mark).ok_or_else(odd)?;
        mark.truncate(MAX_MARK);
        let (history, has_replicas) = self.replication().await?;
        Ok(EngineIdentity { mark, history, has_replicas, now })
    }

    /// The name of the engine's history, and whether it has replicas. An engine may forbid to ask; then the name is empty, and
    /// a change of the primary is seen by its logs alone.
    ///
    /// # Errors
    /// The engine is away, or is a replica.
    pub(crate) async fn replication(&mut self) -> Result<(String, bool), EngineError> {
        let told = match self.ask(cmd("INFO").arg("replication")).await {
            Ok(told) => reply::text(told).unwrap_or_default(),
            Err(EngineError::Refused(_)) => String::new(),
            Err(error) => return Err(error),
        };
        let line = |name: &str| told.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
        if line("role:") == "slave" {
            return Err(EngineError::Replica);
        }
        let mut history = line("master_replid:").to_owned();
        history.truncate(MAX_MARK);
        Ok((history, line("connected_slaves:").parse::<u32>().is_ok_and(|number| number > 0)))
    }

    /// Replaces the mark of the engine. Whether it was still this one.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn replace_mark(
        &mut self,
        names: &EngineNames,
        mark: &[u8],
        new: &[u8],
    ) -> Result<bool, EngineError> {
        let answer = self.run(Script::Mark, &[&names.mark()], &[mark, new]).await?;
        reply::number(answer).map(|number| number == 1).ok_or_else(|| reply::odd("the script of the mark"))
    }

    /// Changes pairs of a zone.
    ///
    /// # Errors
    /// The engine is away. Nobody knows then whether it has changed them.
    pub(crate) async fn change_pairs(
        &mut self,
        (table, log): (&str, &str),
        node: &str,
        length: usize,
        command: &PairCommand,
    ) -> Result<PairAnswer, EngineError> {
        let length = length.to_string();
        let lifetime = |lasts: Option<Duration>| lasts.map_or(String::new(), |lasts| lasts.as_millis().to_string());
        let mut owned: Vec<Vec<u8>> = Vec::new();
        let verb = match command {
            PairCommand::Add(pairs) => {
                for (field, payload, lasts) in pairs {
                    owned.extend([field.clone(), payload.clone(), lifetime(*lasts).into_bytes()]);
                }
                "add"
            }
            PairCommand::Set { field, payload, lasts } => {
                let lasts = lasts.map_or("keep".to_owned(), lifetime).into_bytes();
                let kind = if payload.is_some() { b"new".to_vec() } else { b"keep".to_vec() };
                owned.extend([field.clone(), kind, payload.clone().unwrap_or_default(), lasts]);
                "set"
            }
            PairCommand::Remove(field, payload, must_be_there) => {
                owned.extend([field.clone(), payload.clone()]);
                if *must_be_there { "remove" } else { "drop" }
            }
            PairCommand::Clear => "clear",
            PairCommand::Put(field, stored) => {
                owned.extend([field.clone(), stored.clone()]);
                "put"
            }
            PairCommand::Merge(pairs) => {
                for (field, stored) in pairs {
                    owned.extend([field.clone(), stored.clone()]);
                }
                "merge"
            }
        };
        let mut args: Vec<&[u8]> = vec![verb.as_bytes(), node.as_bytes(), length.as_bytes()];
        args.extend(owned.iter().map(Vec::as_slice));
        let answer = self.run(Script::Pairs, &[table, log], &args).await?;
        let odd = || reply::odd("the script that changes pairs");
        let mut parts = reply::list(answer).ok_or_else(odd)?.into_iter();
        let word = parts.next().and_then(reply::text).ok_or_else(odd)?;
        match word.as_str() {
            "ok" => {
                let id = parts.next().and_then(reply::text).unwrap_or_default();
                Ok(PairAnswer::Done(if id.is_empty() { None } else { Some(id.parse().map_err(|()| odd())?) }))
            }
            "exists" => Ok(PairAnswer::Exists),
            "missing" => Ok(PairAnswer::Missing),
            "notempty" => Ok(PairAnswer::NotEmpty),
            _ => Err(odd()),
        }
    }

    /// Waits, for a short time at most, until a replica has what was written. Whether one has it; an engine that forbids to ask is
    /// taken at its best.
    ///
    /// # Errors
    /// The engine is away. Nobody knows then whether what was written survives.
    pub(crate) async fn wait_replica(&mut self) -> Result<bool, EngineError> {
        match self.ask(cmd("WAIT").arg(1).arg(REPLICATION.as_millis() as u64)).await {
            Ok(count) => Ok(reply::number(count).is_none_or(|count| count > 0)),
            Err(EngineError::Refused(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// A page of all pairs of a table: names, and ends with texts; and the cursor of the next page, 0 after the last one.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn pairs_page(&mut self, table: &str, cursor: u64) -> Result<(u64, EntryFields), EngineError> {
        let odd = || reply::odd("HSCAN");
        let answer = self.ask(cmd("HSCAN").arg(table).arg(cursor).arg("COUNT").arg(PAGE)).await?;
        let [next, page]: [Value; 2] = reply::list(answer).and_then(|parts| parts.try_into().ok()).ok_or_else(odd)?;
        let next = reply::text(next).and_then(|next| next.parse().ok()).ok_or_else(odd)?;
        let each = |(name, value)| Some((reply::bytes(name)?, reply::bytes(value)?));
        let page = reply::pairs(page).and_then(|pairs| pairs.into_iter().map(each).collect()).ok_or_else(odd)?;
        Ok((next, page))
    }

    /// Acquires the sweep of a table, which one node has for this time. Whether this node has it.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn acquire_sweep(&mut self, name: &str, node: &str, time: Duration) -> Result<bool, EngineError> {
        let mut command = cmd("SET");
        command.arg(name).arg(node).arg("NX").arg("PX").arg(time.as_millis() as u64);
        Ok(!matches!(self.ask(&command).await?, Value::Nil))
    }

    /// Removes pairs whose time is over from a page of a table. The cursor of the next page, 0 after the last one.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn sweep_page(&mut self, table: &str, cursor: u64) -> Result<u64, EngineError> {
        let (cursor, page) = (cursor.to_string(), PAGE.to_string());
        let answer = self.run(Script::Sweep, &[table], &[cursor.as_bytes(), page.as_bytes()]).await?;
        reply::text(answer).and_then(|next| next.parse().ok()).ok_or_else(|| reply::odd("the script that sweeps"))
    }

    /// The ends of a log. `None`: nothing was ever written to it.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn log_ends(&mut self, log: &str) -> Result<Option<LogEnds>, EngineError> {
        let mut command = cmd("XINFO");
        command.arg("STREAM").arg(log);
        let answer = tokio::time::timeout(ANSWER, command.query_async::<Value>(&mut self.commands)).await;
        let answer = match answer.map_err(|_| EngineError::Silent)? {
            Ok(answer) => answer,
            Err(error) if matches!(error.kind(), ErrorKind::Server(_)) && error.to_string().contains("no such key") => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let odd = || reply::odd("XINFO STREAM");
        let (mut ends, mut added, mut length) = (LogEnds::default(), 0, 0);
        let id = |value| reply::text(value).and_then(|id| id.parse().ok()).ok_or_else(odd);
        for (name, value) in reply::pairs(answer).ok_or_else(odd)? {
            match reply::text(name).ok_or_else(odd)?.as_str() {
                "last-generated-id" => ends.newest = id(value)?,
                "first-entry" => {
                    let first = reply::list(value).and_then(|parts| parts.into_iter().next());
                    ends.oldest = first.map(id).transpose()?;
                }
                "entries-added" => added = reply::number(value).ok_or_else(odd)?,
                "length" => length = reply::number(value).ok_or_else(odd)?,
                _ => {}
            }
        }
        ends.is_trimmed = added > length;
        Ok(Some(ends))
    }

    /// Waits for entries of these logs behind these identifiers, for a second at most.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn read_logs(&mut self, logs: &[(String, EntryId)]) -> Result<Vec<LogPage>, EngineError> {
        let mut command = cmd("XREAD");
        command.arg("COUNT").arg(ENTRIES).arg("BLOCK").arg(BLOCK.as_millis() as u64).arg("STREAMS");
        for (log, _) in logs {
            command.arg(log);
        }
        for (_, id) in logs {
            command.arg(id.to_string());
        }
        let answer = ask(&mut self.reader, &command, BLOCK + ANSWER).await?;
        let odd = || reply::odd("XREAD");
        let mut pages = Vec::new();
        for (log, entries) in reply::streams(answer).ok_or_else(odd)? {
            let log = reply::text(log).ok_or_else(odd)?;
            let entries = reply::list(entries).ok_or_else(odd)?.into_iter().map(entry);
            pages.push(LogPage { log, entries: entries.collect::<Option<_>>().ok_or_else(odd)? });
        }
        Ok(pages)
    }

    /// Appends an entry to a log of this length. The identifier of the entry.
    ///
    /// # Errors
    /// The engine is away. Nobody knows then whether it has the entry.
    pub(crate) async fn append(
        &mut self,
        log: &str,
        length: usize,
        fields: &[(&str, &[u8])],
    ) -> Result<EntryId, EngineError> {
        let mut command = cmd("XADD");
        command.arg(log).arg("MAXLEN").arg("~").arg(length).arg("*");
        for (name, value) in fields {
            command.arg(*name).arg(*value);
        }
        let id = reply::text(self.ask(&command).await?).and_then(|id| id.parse().ok());
        id.ok_or_else(|| reply::odd("XADD"))
    }

    /// Stores a value in a table.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn note(&mut self, table: &str, name: &str, value: &str) -> Result<(), EngineError> {
        self.ask(cmd("HSET").arg(table).arg(name).arg(value)).await.map(|_| ())
    }

    /// Tells that this node lives. The engine's clock, in milliseconds since 1970, and the number of nodes.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn beat(
        &mut self,
        names: &EngineNames,
        node: &str,
        gone: Duration,
        about: &[(String, String)],
    ) -> Result<(u64, usize), EngineError> {
        let gone = gone.as_millis().to_string();
        let mut args: Vec<&[u8]> = vec![node.as_bytes(), gone.as_bytes()];
        for (name, value) in about {
            args.extend([name.as_bytes(), value.as_bytes()]);
        }
        let answer = self.run(Script::Beat, &[&names.nodes(), &names.node(node)], &args).await?;
        let odd = || reply::odd("the script of the heartbeat");
        let [now, count]: [Value; 2] = reply::list(answer).and_then(|parts| parts.try_into().ok()).ok_or_else(odd)?;
        let number = |value| reply::number(value).and_then(|number| u64::try_from(number).ok());
        Ok((number(now).ok_or_else(odd)?, number(count).ok_or_else(odd)? as usize))
    }

    /// Takes a node from the list of those that live.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn leave(&mut self, names: &EngineNames, node: &str) -> Result<(), EngineError> {
        let mut command = cmd("ZREM");
        command.arg(names.nodes()).arg(node);
        self.ask(&command).await?;
        self.ask(cmd("DEL").arg(names.node(node))).await.map(|_| ())
    }

    /// The nodes that live: their identifiers, the engine's time at which they were heard of, and their tables.
    ///
    /// # Errors
    /// The engine is away.
    pub(crate) async fn nodes(&mut self, names: &EngineNames, most: usize) -> Result<Vec<EngineNode>, EngineError> {
        let (most, tables) = (most.to_string(), names.node(""));
        let answer = self.run(Script::Nodes, &[&names.nodes()], &[most.as_bytes(), tables.as_bytes()]).await?;
        let each = |node| {
            let [node, at, table]: [Value; 3] = reply::list(node)?.try_into().ok()?;
            let facts = reply::pairs(table)?.into_iter();
            let facts = facts.filter_map(|(name, value)| Some((reply::text(name)?, reply::text(value)?)));
            let heard_of = reply::text(at)?.parse::<f64>().ok()? as u64;
            Some(EngineNode { node: reply::text(node)?, heard_of, facts: facts.collect() })
        };
        let all = reply::list(answer).map(|nodes| nodes.into_iter().filter_map(each).collect());
        all.ok_or_else(|| reply::odd("the script that lists nodes"))
    }
}

/// A node as the engine has it.
pub(crate) struct EngineNode {
    /// Its identifier.
    pub(crate) node: String,
    /// The engine's time at which it was heard of, in milliseconds since 1970.
    pub(crate) heard_of: u64,
    /// The facts that it tells.
    pub(crate) facts: Vec<(String, String)>,
}

/// An entry of a log: its identifier and its fields.
fn entry(value: Value) -> Option<(EntryId, EntryFields)> {
    let mut parts = reply::list(value)?.into_iter();
    let id = reply::text(parts.next()?)?.parse().ok()?;
    let fields = reply::pairs(parts.next()?)?.into_iter();
    let fields = fields.map(|(name, value)| Some((reply::bytes(name)?, reply::bytes(value)?)));
    Some((id, fields.collect::<Option<_>>()?))
}

async fn ask(to: &mut MultiplexedConnection, command: &Cmd, limit: Duration) -> Result<Value, EngineError> {
    let answer = tokio::time::timeout(limit, command.query_async::<Value>(to)).await;
    Ok(answer.map_err(|_| EngineError::Silent)??)
}
