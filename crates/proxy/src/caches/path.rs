//! `cache_path`: the folder of a cache, the zone with its index, and the maintenance of both.

use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word, parse_offset, parse_seconds, parse_size, parse_time};
use freerun_serve::configuration::engine_declared::EngineDeclared;
use freerun_serve::configuration::parts::{Paths, TempFolders};
use freerun_serve::configuration::zones::{ZoneName, ZoneTable};

use crate::caches::zones;
use crate::caches::zones::{CacheDefinition, Caches};

/// The size of the smallest zone, in bytes: nginx's two pages.
const MIN_ZONE: u64 = 8 * 1024;

/// The most folders between the cache's own and a file, and the most digits in the name of such a folder.
const MAX_LEVELS: usize = 3;

/// The settings of one `cache_path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachePath {
    /// The zone's name.
    pub name: String,
    /// The folder, without a slash at its end.
    pub path: String,
    /// The number of digits in the names of the folders on each level, as it is written: `1:2`; empty: there are no
    /// levels.
    pub levels: String,
    /// The size of the zone, in bytes.
    pub zone_size: u64,
    /// Whether files are made in the folder for temporary files.
    pub use_temp_path: bool,
    /// The time in seconds without use after which an entry is removed.
    pub inactive: u64,
    /// The most bytes on disk; `None`: only limited by the disk.
    pub max_size: Option<u64>,
    /// The bytes that stay free on the disk.
    pub min_free: u64,
    /// The size of the tier in memory, in bytes; `None`: the default.
    pub memory: Option<u64>,
    /// The pace at which the manager removes entries.
    pub manager: CachePace,
    /// The pace at which the loader reads the files at the start.
    pub loader: CachePace,
    /// The pace at which entries that a purge names are looked for and removed; `None`: they are not.
    pub purger: Option<CachePace>,
    /// Whether purges reach other machines (`sync`).
    pub sync: bool,
}

/// The pace of work done in pieces: a number of files at a time, or a duration, and then a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachePace {
    /// The number of files at a time.
    pub files: u64,
    /// The pause between two pieces of work.
    pub sleep: Duration,
    /// The longest time that one piece may take.
    pub threshold: Duration,
}

impl CachePace {
    fn of(files: u64, sleep: u64, threshold: u64) -> CachePace {
        CachePace { files, sleep: Duration::from_millis(sleep), threshold: Duration::from_millis(threshold) }
    }

    /// Reads `files=`, `sleep=` and `threshold=` with the prefix `what`. Returns whether the word is one of these.
    fn read(&mut self, what: &str, value: &str, word: &Word, name: &str) -> Result<bool, Problem> {
        let time = || parse_time(value).ok_or_else(|| invalid(name, word));
        match what {
            "files" => self.files = value.parse().map_err(|_| invalid(name, word))?,
            "sleep" => self.sleep = time()?,
            "threshold" => self.threshold = time()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn invalid(name: &str, word: &Word) -> Problem {
    Problem::new(format!("invalid {name} value \"{}\"", word.text)).at(word.place)
}

fn on_or_off(name: &str, value: &str, word: &Word) -> Result<bool, Problem> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => {
            let message = format!("invalid {name} value \"{}\", it must be \"on\" or \"off\"", word.text);
            Err(Problem::new(message).at(word.place))
        }
    }
}

/// Whether the text is one to three digits 1 or 2, separated by colons.
fn are_levels(text: &str) -> bool {
    text.is_empty() || text.split(':').count() <= MAX_LEVELS && text.split(':').all(|level| matches!(level, "1" | "2"))
}

impl CachePath {
    /// Parses the directive.
    ///
    /// # Errors
    /// What is wrong, in nginx's words.
    pub fn parse(directive: &Node, cx: &mut Cx) -> Result<CachePath, Problem> {
        let paths = cx.extensions.get_or_default::<Paths>();
        let folder = paths.absolute(directive.args[0].as_str());
        let mut read = CachePath {
            name: String::new(),
            path: folder.strip_suffix('/').unwrap_or(&folder).to_owned(),
            levels: String::new(),
            zone_size: 0,
            use_temp_path: true,
            inactive: 600,
            max_size: None,
            min_free: 0,
            memory: None,
            manager: CachePace::of(100, 50, 200),
            loader: CachePace::of(100, 50, 200),
            purger: None,
            sync: false,
        };
        let (mut purger, mut purges) = (CachePace::of(10, 50, 50), false);
        for word in &directive.args[1..] {
            let unknown = || Problem::invalid_parameter(directive, word);
            if word.text == "sync" {
                EngineDeclared::check(directive, word, cx)?;
                read.sync = true;
                continue;
            }
            let (name, value) = word.text.split_once('=').ok_or_else(unknown)?;
            match name {
                "levels" if are_levels(value) => read.levels = value.to_owned(),
                "levels" => {
                    return Err(Problem::new(format!("invalid \"levels\" \"{}\"", word.text))
                        .at(word.place)
                        .hint("one to three levels of one or two digits each, such as levels=1:2"));
                }
                "use_temp_path" => read.use_temp_path = on_or_off(name, value, word)?,
                "keys_zone" => (read.name, read.zone_size) = zone(value, word)?,
                "inactive" => read.inactive = parse_seconds(value).ok_or_else(|| invalid(name, word))?,
                "max_size" => {
                    read.max_size = Some(parse_offset(value).ok_or_else(|| invalid(name, word))?);
                }
                "min_free" => read.min_free = parse_offset(value).ok_or_else(|| invalid(name, word))?,
                "memory" => read.memory = Some(parse_offset(value).ok_or_else(|| invalid(name, word))?),
                "purger" => purges = on_or_off(name, value, word)?,
                _ => {
                    let known = match name.split_once('_') {
                        Some(("loader", what)) => read.loader.read(what, value, word, name)?,
                        Some(("manager", what)) => read.manager.read(what, value, word, name)?,
                        Some(("purger", what)) => purger.read(what, value, word, name)?,
                        _ => false,
                    };
                    if !known {
                        return Err(unknown());
                    }
                }
            }
        }
        read.purger = purges.then_some(purger);
        if read.name.is_empty() {
            let message = format!("\"{}\" must have \"keys_zone\" parameter", directive.name.text);
            return Err(Problem::new(message).at_node(directive));
        }
        Ok(read)
    }
}

/// Parses `name:size`.
fn zone(value: &str, word: &Word) -> Result<(String, u64), Problem> {
    let invalid = || Problem::new(format!("invalid keys zone size \"{}\"", word.text)).at(word.place);
    let (name, size) = value.split_once(':').ok_or_else(invalid)?;
    let size = parse_size(size).ok_or_else(invalid)?;
    if size < MIN_ZONE {
        let problem = Problem::new(format!("keys zone \"{}\" is too small", word.text)).at(word.place);
        return Err(problem.hint("a zone has at least 8k"));
    }
    Ok((name.to_owned(), size))
}

/// All `cache_path` directives of a member; the declared zones are in the configuration's [`ZoneTable`] and [`Caches`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CachePaths;

impl Setting for CachePaths {
    const SHAPE: Shape = Shape::at_least(
        2,
        "path keys_zone=name:size [levels=levels] [use_temp_path=on|off] [inactive=time] [max_size=size] [min_free=size] \
         [memory=size] [manager_files=number] [manager_sleep=time] [manager_threshold=time] [loader_files=number] \
         [loader_sleep=time] [loader_threshold=time] [purger=on|off] [purger_files=number] [purger_sleep=time] \
         [purger_threshold=time] [sync]",
    );

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        let read = CachePath::parse(directive, cx)?;
        let kind = zones::kind(&directive.name.text);
        let place = directive.args[1..].iter().rev().find(|word| word.text.starts_with("keys_zone="));
        let named = ZoneName {
            name: read.name.clone(),
            size: read.zone_size,
            place: place.map_or(directive.name.place, |word| word.place),
        };
        if let Some(first) = cx.extensions.get_or_default::<Caches>().place_of(&read.path) {
            let first = cx.sources.location(first).unwrap_or_default();
            return Err(Problem::new(format!("the same path name \"{}\" used in {first} and", read.path)));
        }
        let table = cx.extensions.get_or_default::<ZoneTable>();
        if table.has(&named, kind) {
            return Err(Problem::new(format!("duplicate zone \"{}\"", named.name)).at(named.place));
        }
        let folder = zones::cache_folder(table, &read)?;
        let defined = CacheDefinition { path: read.clone(), kind, folder, place: directive.end };
        table.declare(directive, kind, &named, &read.path, || Some(()), |_| defined.clone())?;
        cx.extensions.get_or_default::<Caches>().add(defined);
        cx.extensions.get_or_default::<TempFolders>().add(&read.path, &directive.name.text);
        Ok(CachePaths)
    }
}
