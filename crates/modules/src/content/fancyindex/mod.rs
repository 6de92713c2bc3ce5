//! `fancyindex`: the contents of a folder as a page with a table that can be sorted.

mod render;

use std::cmp::Ordering;
use std::collections::VecDeque;

use bytes::Bytes;
use freerun_conf::{Cx, Node, Problem, Setting, SettingsSet, Shape, Value, bytes_of, group, keyword_enum, settings};
use freerun_http::body;
use freerun_http::content::{open, path};
use freerun_http::log_error;
use freerun_http::module::Module;
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::{Body, BodySource, LocalBoxFuture, Response, SourceError};
use freerun_http::variables::VariableTable;
use freerun_proto::{Method, Status};
use freerun_runtime::files::{Arrange, DirectoryEntry};
use freerun_runtime::loops;

use crate::filters::charset;
use crate::filters::sequence::{Sequence, SequencePart};
use crate::small_file;
use render::{FancyPage, FancyStyle};

keyword_enum! {
    /// The order of a listing: `fancyindex_default_sort`.
    pub enum Sort {
        /// By name.
        Name = "name",
        /// By size.
        Size = "size",
        /// By time.
        Date = "date",
        /// By name, the last one first.
        NameDesc = "name_desc",
        /// By size, the largest one first.
        SizeDesc = "size_desc",
        /// By time, the latest one first.
        DateDesc = "date_desc",
    }
}

settings! {
    /// Listings of folders that can be sorted.
    #[module = "fancyindex"]
    pub struct FancySettings {
        /// Lists a folder that has no index file, as a page with a table whose columns can be sorted. In `?C=N&O=D`,
        /// `N` is the name, `S` the size, `M` the time, `D` descending, `A` ascending.
        fancyindex: bool = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("the built-in style sheet is another one; a folder with more than 262144 entries is answered with 500");
        /// The order of the entries if the client names none.
        fancyindex_default_sort: Sort = "name", in HTTP | SERVER | LOCATION;
        /// Whether upper and lower case are different when names are sorted.
        fancyindex_case_sensitive: bool = "on", in HTTP | SERVER | LOCATION;
        /// Whether folders come before files.
        fancyindex_directories_first: bool = "on", in HTTP | SERVER | LOCATION;
        /// The address of a style sheet that the page refers to.
        fancyindex_css_href: String = "\"\"", in HTTP | SERVER | LOCATION;
        /// Whether sizes are exact, or rounded ones such as `1.5 KiB`.
        fancyindex_exact_size: bool = "on", in HTTP | SERVER | LOCATION;
        /// The end of the page: the answer to a subrequest for a URI, or with `local` a file.
        fancyindex_footer: Insert, in HTTP | SERVER | LOCATION;
        /// The beginning of the page: the answer to a subrequest for a URI, or with `local` a file.
        fancyindex_header: Insert, in HTTP | SERVER | LOCATION;
        /// Whether the path of the folder follows the header.
        fancyindex_show_path: bool = "on", in HTTP | SERVER | LOCATION;
        /// Whether names that begin with a dot are shown.
        fancyindex_show_dotfiles: bool = "off", in HTTP | SERVER | LOCATION,
            fidelity = Differs("`.` and `..` are not shown");
        /// Regular expressions of names that are not shown.
        fancyindex_ignore: IgnorePatterns, in HTTP | SERVER | LOCATION;
        /// Whether symbolic links are left out.
        fancyindex_hide_symlinks: bool = "off", in HTTP | SERVER | LOCATION;
        /// Whether the link to the parent folder is left out.
        fancyindex_hide_parent_dir: bool = "off", in HTTP | SERVER | LOCATION;
        /// Whether times are local ones.
        fancyindex_localtime: bool = "off", in HTTP | SERVER | LOCATION;
        /// The format of times, as strftime(3) has it.
        fancyindex_time_format: String = "\"%Y-%b-%d %H:%M\"", in HTTP | SERVER | LOCATION;
        /// The number of characters of a name that are shown.
        fancyindex_name_length: usize = "50", in HTTP | SERVER | LOCATION;
    }
}

/// The largest file that a page may begin or end with, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// A part of the page that comes from elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Insert(Option<(String, bool)>);

impl Value for Insert {
    const SHAPE: Shape = Shape::between(1, 2, "path [subrequest | local]");

    fn parse(directive: &Node, _cx: &mut Cx) -> Result<Insert, Problem> {
        let is_file = match directive.args.get(1) {
            None => false,
            Some(word) if word.text == "subrequest" => false,
            Some(word) if word.text == "local" => true,
            Some(word) => return Err(Problem::invalid_parameter(directive, word)),
        };
        let path = directive.args[0].text.clone();
        Ok(Insert(Some((path, is_file)).filter(|(path, _)| !path.is_empty())))
    }
}

/// Names that are not shown.
#[derive(Debug, Clone, Default)]
pub struct IgnorePatterns(Vec<Pattern>);

impl Setting for IgnorePatterns {
    const SHAPE: Shape = Shape::at_least(1, "regex …");

    fn set(previous: Option<IgnorePatterns>, directive: &Node, cx: &mut Cx) -> Result<IgnorePatterns, Problem> {
        let mut ignored = previous.unwrap_or_default();
        for word in &directive.args {
            let table = cx.extensions.get_or_default::<VariableTable>();
            let pattern = Pattern::new(&word.text, false, table);
            ignored.0.push(pattern.map_err(|why| Problem::new(why).at(word.place))?);
        }
        Ok(ignored)
    }
}

/// The module `fancyindex`. It stands after `index`.
pub static MODULE: Module = Module {
    name: "fancyindex",
    groups: &[group::<FancySettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(|request| Box::pin(answer(request))) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<FancySettings>().fancyindex
}

async fn answer(request: &mut Request) -> Outcome {
    if request.asked.path.last() != Some(&b'/') || !matches!(request.asked.method, Method::Get | Method::Head) {
        return Outcome::Declined;
    }
    if let Err(status) = body::begin_discarding(request) {
        return Outcome::Status(status);
    }
    let mut folder = path::file_name(request);
    if folder.last() != Some(&b'/') {
        return Outcome::Status(Status::NOT_FOUND);
    }
    if folder.len() > 1 {
        folder.pop();
    }
    let location = request.place.location.clone();
    let settings = location.settings.get::<FancySettings>();
    let asked = sort_asked_for(request.asked.args.as_deref().unwrap_or_default());
    let arrange = arrange(settings, asked.unwrap_or(settings.fancyindex_default_sort));
    let entries = match open::list_arranged(request, &folder, arrange).await {
        Ok(listing) => listing.entries,
        Err(status) => return Outcome::Status(status),
    };
    let (header, footer) = (&settings.fancyindex_header, &settings.fancyindex_footer);
    let (header, footer) = match (insert(request, header).await, insert(request, footer).await) {
        (Ok(header), Ok(footer)) => (header, footer),
        _ => return Outcome::Status(Status::INTERNAL_SERVER_ERROR),
    };
    let mut response = Response::new(Status::OK, &b"text/html"[..], Body::Empty);
    let utf8 = charset::of(request, &response).is_some_and(|name| name.eq_ignore_ascii_case(b"utf-8"));
    let style = FancyStyle {
        path: request.asked.path.clone(),
        // The order goes along to other folders if it is not the usual one.
        sort: asked.filter(|sort| *sort != settings.fancyindex_default_sort),
        shows_head: header.is_none(),
        shows_path: settings.fancyindex_show_path || header.is_none(),
        shows_foot: footer.is_none(),
        shows_parent: !settings.fancyindex_hide_parent_dir && request.asked.path != b"/",
        style_sheet: settings.fancyindex_css_href.clone(),
        exact: settings.fancyindex_exact_size,
        is_local: settings.fancyindex_localtime,
        time_format: settings.fancyindex_time_format.clone(),
        name_length: settings.fancyindex_name_length,
        utf8,
    };
    let mut parts = VecDeque::with_capacity(3);
    parts.extend(header);
    parts.push_back(SequencePart::Body(Box::new(FancyPages(FancyPage::new(style, entries)))));
    parts.extend(footer);
    response.body = Body::Source(Box::new(Sequence::new(request, parts)));
    response.into()
}

/// A part of the page that comes from elsewhere. A file that cannot be read is logged.
async fn insert(request: &Request, insert: &Insert) -> Result<Option<SequencePart>, ()> {
    let Some((path, is_file)) = &insert.0 else { return Ok(None) };
    if !is_file {
        return Ok(Some(SequencePart::Uri(bytes_of(path).into_owned())));
    }
    let path = request.generation.paths.beside_configuration(&bytes_of(path));
    match small_file::read(request, &path, MAX_FILE).await {
        Ok(text) => Ok(Some(SequencePart::Body(Body::Bytes(text).into_source(request)))),
        Err(why) => {
            log_error!(request, Error, "{why}");
            Err(())
        }
    }
}

/// The order that the arguments ask for: `C=N`, `C=S` or `C=M`, and behind it nothing, `&O=A` or `&O=D`.
fn sort_asked_for(args: &[u8]) -> Option<Sort> {
    let (column, order) = args.strip_prefix(b"C=")?.split_at_checked(1)?;
    let descends = match order {
        b"" | b"&O=A" => false,
        b"&O=D" => true,
        _ => return None,
    };
    Some(match (column, descends) {
        (b"N", false) => Sort::Name,
        (b"S", false) => Sort::Size,
        (b"M", false) => Sort::Date,
        (b"N", true) => Sort::NameDesc,
        (b"S", true) => Sort::SizeDesc,
        (b"M", true) => Sort::DateDesc,
        _ => return None,
    })
}

/// The selection of entries to show, and their order.
fn arrange(settings: &FancySettings, sort: Sort) -> Arrange {
    let ignored = settings.fancyindex_ignore.clone();
    let (hides_links, folders_first) = (settings.fancyindex_hide_symlinks, settings.fancyindex_directories_first);
    let has_case = settings.fancyindex_case_sensitive;
    let change = move |entries: &mut Vec<DirectoryEntry>| {
        // An expression that is given up hides the name.
        let is_ignored = |name: &[u8]| ignored.0.iter().any(|pattern| pattern.is_match(name).unwrap_or(true));
        entries.retain(|entry| !(hides_links && entry.is_link || is_ignored(&entry.name)));
        entries.sort_unstable_by(|one, other| {
            let folders = if folders_first { other.meta.is_dir().cmp(&one.meta.is_dir()) } else { Ordering::Equal };
            folders.then_with(|| by(sort, has_case, one, other)).then_with(|| one.name.cmp(&other.name))
        });
    };
    Arrange { dotfiles: settings.fancyindex_show_dotfiles, change: Some(Box::new(change)) }
}

fn by(sort: Sort, has_case: bool, one: &DirectoryEntry, other: &DirectoryEntry) -> Ordering {
    let lower = |entry: &DirectoryEntry| entry.name.to_ascii_lowercase();
    let names = || if has_case { one.name.cmp(&other.name) } else { lower(one).cmp(&lower(other)) };
    match sort {
        Sort::Name => names(),
        Sort::NameDesc => names().reverse(),
        Sort::Size => render::size(one).cmp(&render::size(other)),
        Sort::SizeDesc => render::size(other).cmp(&render::size(one)),
        Sort::Date => one.meta.mtime.cmp(&other.meta.mtime),
        Sort::DateDesc => other.meta.mtime.cmp(&one.meta.mtime),
    }
}

/// A page that is sent in pieces.
struct FancyPages(FancyPage);

impl BodySource for FancyPages {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Bytes>, SourceError>> {
        Box::pin(async {
            // A long listing must not starve other tasks of the loop.
            loops::consume_budget().await;
            Ok(loops::measured(|| self.0.next_piece()).map(Bytes::from))
        })
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_arguments_change_the_order() {
        for (args, wanted) in [
            ("C=N", Some(Sort::Name)),
            ("C=S&O=D", Some(Sort::SizeDesc)),
            ("C=M&O=A", Some(Sort::Date)),
            ("", None),
            ("C=", None),
            ("C=X", None),
            ("C=N&O=D&x", None),
            ("O=D", None),
            ("C=N&O=", None),
        ] {
            assert_eq!(sort_asked_for(args.as_bytes()), wanted, "{args}");
        }
    }
}
