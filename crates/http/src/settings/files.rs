//! Settings about finding files and keeping them open: `open_file_cache` and its relatives, `disable_symlinks`.

use std::sync::Arc;
use std::time::Duration;

use freerun_conf::{Cx, Node, Problem, Seconds, Setting, Shape, Value, parse_seconds, settings};
use freerun_serve::configuration::zones::ZoneTable;

use crate::files::open_files::OpenFiles;
use crate::template::Template;

settings! {
    /// The HTTP core: how files are found and kept open.
    #[module = "files"]
    pub struct FileSettings {
        /// Keeps open files, and the attributes of files and folders, from one request to the next.
        ///
        /// `max=` is the largest number of names that are kept; when there are more, the names that were used longest ago are
        /// removed. A name that no request asks for is kept for `inactive=` (60 seconds). All event loops share the cache, and
        /// a reload that does not change these values keeps it. Of the descriptors that the process may have, it holds at
        /// most a quarter. An entry of the cache is believed for `open_file_cache_valid`.
        ///
        /// `short`, the default, keeps files for at most one second, for each loop. A request sees every change of a
        /// file, of a folder or of a link on the way to it that is complete before the request is sent. The kernel
        /// reports changes (inotify); where it does not, the attributes of the file are asked for each time. Files of
        /// network and FUSE file systems are not kept. Only bytes that a process writes through a shared mapping of the
        /// file, or by `io_submit`, may be seen up to a second later. `off` asks the file system for every request.
        open_file_cache: OpenFileCache = "short", in HTTP | SERVER | LOCATION,
            fidelity = Differs("the cache stays over a reload; small contents are kept with the file; `short` is ours");
        /// For how long an entry of `open_file_cache` is believed before the file is looked at again.
        ///
        /// `checked`, the default, believes an entry only if the attributes of the file are asked for first, so that no
        /// change is missed.
        open_file_cache_valid: Valid = "checked", in HTTP | SERVER | LOCATION,
            fidelity = Differs("`checked` is ours and the default, in place of 60 seconds");
        /// The number of requests for a file, without a pause of `inactive`, that make it stay open.
        open_file_cache_min_uses: u32 = "1", in HTTP | SERVER | LOCATION;
        /// Whether the cache also keeps errors: that there is no such file, or that it may not be opened.
        open_file_cache_errors: bool = "off", in HTTP | SERVER | LOCATION;
        /// Whether the kernel tells of changes of files.
        open_file_cache_events: bool = "off", in HTTP | SERVER | LOCATION,
            fidelity = NoEffect("nginx has it for kqueue; here files are watched wherever the kernel tells of changes");
        /// Whether symbolic links on the way to a file are followed.
        ///
        /// With `on` no link is followed; with `if_not_owner` a link is not followed if its owner does not own the file
        /// that it leads to. The answer is 403 then. The part of a path that `from=` names, if the path begins with it,
        /// is not checked. The check and the opening are one step: a link that is made in between is not followed.
        ///
        /// Listings (`autoindex`, `random_index`) leave out links that would not be followed, and `dav` changes nothing beyond
        /// one; a link that a URI names itself is neither replaced nor removed then.
        disable_symlinks: DisableSymlinks = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("holds for listings and `dav` as well");
    }
}

/// The value of `open_file_cache`.
#[derive(Debug, Clone)]
pub enum OpenFileCache {
    /// Nothing is kept from one request to the next.
    Off,
    /// Open files and small contents are kept for at most one second, by each loop.
    Short,
    /// Files are kept as long as nginx keeps them, for all loops together.
    Shared(Arc<OpenFiles>),
}

/// The value of `open_file_cache_valid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Valid {
    /// An entry is believed if the attributes of the file, asked for before each use, are the same.
    Checked,
    /// An entry is believed for this time.
    For(Duration),
}

impl Value for Valid {
    const SHAPE: Shape = Shape::between(1, 1, "time | checked");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<Valid, Problem> {
        match directive.args.first() {
            Some(word) if word.text == "checked" => Ok(Valid::Checked),
            _ => Seconds::parse(directive, cx).map(|time| Valid::For(Duration::from_secs(time.0))),
        }
    }
}

const INACTIVE: Duration = Duration::from_secs(60);

impl Value for OpenFileCache {
    const SHAPE: Shape = Shape::between(1, 2, "off | short | max=number [inactive=time]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<OpenFileCache, Problem> {
        let (mut max, mut inactive, mut word_alone) = (None, INACTIVE, None);
        for word in &directive.args {
            let invalid =
                || Problem::new(format!("invalid \"open_file_cache\" parameter \"{}\"", word.text)).at(word.place);
            if let Some(number) = word.text.strip_prefix("max=") {
                let number = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse::<usize>().ok());
                max = Some(number.flatten().filter(|max| *max > 0).ok_or_else(invalid)?);
            } else if let Some(time) = word.text.strip_prefix("inactive=") {
                inactive = parse_seconds(time).map(Duration::from_secs).ok_or_else(invalid)?;
            } else {
                word_alone = Some(match word.text.as_str() {
                    "off" => OpenFileCache::Off,
                    "short" => OpenFileCache::Short,
                    _ => return Err(invalid()),
                });
            }
        }
        if let Some(word) = word_alone {
            return Ok(word);
        }
        let Some(max) = max else {
            return Err(Problem::new("\"open_file_cache\" must have the \"max\" parameter").at_node(directive));
        };
        let key = format!("open_file_cache max={max} inactive={}", inactive.as_secs());
        let make = || OpenFiles::new(max, inactive);
        let cache = cx.extensions.get_or_default::<ZoneTable>().keep(&key, make);
        cache.register();
        Ok(OpenFileCache::Shared(cache))
    }
}

/// Which symbolic links are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// All links are followed.
    All,
    /// No link is followed.
    None,
    /// Only links are followed that have the same owner as their targets.
    OfOwner,
}

/// The value of `disable_symlinks`.
#[derive(Debug, Clone)]
pub struct DisableSymlinks {
    /// Which symbolic links are followed.
    pub links: Links,
    /// The part of a path that is not checked.
    pub from: Option<Template>,
}

impl Setting for DisableSymlinks {
    const SHAPE: Shape = Shape::between(1, 2, "off | on [from=part] | if_not_owner [from=part]");

    fn set(previous: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Self, Problem> {
        if previous.is_some() {
            return Err(Problem::duplicate(directive));
        }
        let (mut links, mut from) = (None, None);
        for (index, word) in directive.args.iter().enumerate() {
            let keyword = match word.text.as_str() {
                "off" => Links::All,
                "on" => Links::None,
                "if_not_owner" => Links::OfOwner,
                text => match text.strip_prefix("from=") {
                    Some(part) if from.is_none() => {
                        let part = freerun_conf::Word { text: part.to_owned(), ..word.clone() };
                        from = Some(Template::parse(&part, cx)?);
                        continue;
                    }
                    Some(_) => return Err(duplicate(directive)),
                    None => return Err(Problem::new(format!("invalid parameter \"{text}\"")).at(word.place)),
                },
            };
            if links.replace(keyword).is_some() {
                return Err(duplicate(directive).at(directive.args[index].place));
            }
        }
        let Some(links) = links else {
            let message = "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter";
            return Err(Problem::new(message).at_node(directive));
        };
        if links == Links::All && from.is_some() {
            return Err(Problem::new("\"from=\" cannot be used with \"off\" parameter").at_node(directive));
        }
        Ok(DisableSymlinks { links, from })
    }
}

fn duplicate(directive: &Node) -> Problem {
    let words: Vec<&str> = directive.args.iter().map(|word| word.text.as_str()).collect();
    Problem::new(format!("duplicate parameters \"{}\"", words.join(" "))).at_node(directive)
}
