//! `state` inside `upstream`: a file with the group's servers, read with the configuration. The master reads it and
//! sends it to the worker with the configuration. The worker reads it once more, as it may have written it since.

use std::io;

use freerun_conf::{Cx, Loader, Node, OneText, Place, Problem, Setting, parse, reason, text_of};
use freerun_proxy::upstream::HttpServers;
use freerun_serve::configuration::parts::Paths;
use freerun_serve::configuration::state_file;
use freerun_stream::upstream::StreamServers;

/// Reasons why the present texts of state files are not used; they live in the configuration's context.
#[derive(Debug, Default)]
pub struct Unusable(pub Vec<String>);

/// Inserts the servers of state files in the place of the directive, as if they were written there. A missing file
/// counts as an empty one. The worker writes these files, and the master may have read them long ago. With `now`, which
/// the worker has, a file's present text counts, unless it is wrong or cannot be read.
///
/// # Errors
/// There are more problems than are collected.
pub fn insert(
    nodes: &mut [Node],
    (loader, now): (&mut dyn Loader, Option<ReadText>),
    cx: &mut Cx,
) -> Result<(), Problem> {
    let is_of_stream = |node: &Node| node.name.text == "stream";
    let services = nodes.iter_mut().filter(|node| node.name.text == "http" || is_of_stream(node));
    let inside = services.flat_map(|node| {
        let (service, check): (&str, Check) =
            if is_of_stream(node) { ("stream", check::<StreamServers>) } else { ("http", check::<HttpServers>) };
        node.block.iter_mut().flatten().map(move |inside| (inside, service, check))
    });
    for (node, service, check) in inside.filter(|(node, ..)| node.name.text == "upstream") {
        let name = node.args.first().map_or("", |name| &*name.text);
        let owner = format!("the {service} upstream \"{name}\"");
        let Some(upstream) = node.block.as_mut() else { continue };
        let state = upstream.iter().find(|node| node.name.text == "state" && node.args.len() == 1).cloned();
        let Some(state) = state else { continue };
        if let Some(server) = upstream.iter().find(|node| node.name.text == "server") {
            cx.report(Problem::new("\"server\" is incompatible with \"state\"").at_node(server))?;
            continue;
        }
        let path = cx.extensions.get_or_default::<Paths>().absolute(&state.args[0].text);
        state_file::claim(&path, &owner, &state, cx);
        let present = now.and_then(|read| read(&path).ok());
        let mut is_unusable = false;
        let present = present.and_then(|text| match servers(&path, &state, check, &mut OneText(&text_of(&text)), cx) {
            Ok(servers) => Some((servers, text)),
            Err(problem) => {
                is_unusable = true;
                cx.extensions.get_or_default::<Unusable>().0.push(problem.message);
                None
            }
        });
        let used = match present {
            Some(used) => Ok(used),
            None => servers(&path, &state, check, loader, cx)
                .map(|servers| (servers, loader.load(&path).unwrap_or_default())),
        };
        match used {
            Ok((servers, text)) => {
                state_file::note_text(&path, &text, is_unusable, cx);
                upstream.extend(servers);
            }
            Err(problem) => cx.report(problem)?,
        }
    }
    Ok(())
}

/// Reads a text from the disk.
pub type ReadText = fn(&str) -> io::Result<Vec<u8>>;

/// Checks a directive `server`.
type Check = fn(&Node, &mut Cx) -> Result<(), Problem>;

fn check<S: Setting>(server: &Node, cx: &mut Cx) -> Result<(), Problem> {
    S::set(None, server, cx).map(drop)
}

fn servers(path: &str, state: &Node, check: Check, loader: &mut dyn Loader, cx: &mut Cx) -> Result<Vec<Node>, Problem> {
    match loader.load(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            let message = format!("open() \"{path}\" failed ({})", reason(&error));
            return Err(Problem::new(message).at_node(state).at(state.args[0].place));
        }
    }
    let tree = parse(path, None, "", loader);
    // The line in a message is the directive's line in the configuration.
    let wrong = |message: &str, place: Option<Place>| {
        let inside = place.and_then(|place| tree.sources.location(place)).unwrap_or_else(|| path.to_owned());
        Problem::new(format!("{message} in {inside}")).at_node(state).at(state.args[0].place)
    };
    if let Some(error) = tree.error {
        return Err(wrong(&error.message, error.reported.or(error.place)));
    }
    let mut nodes = tree.nodes;
    for node in &mut nodes {
        if node.name.text != "server" {
            let message = format!("unexpected directive \"{}\"", node.name.text);
            return Err(wrong(&message, Some(node.end)));
        }
        let checked = match (node.args.len(), &node.block) {
            (0, None) => Err(Problem::wrong_count(node)),
            (_, None) => check(node, cx),
            (_, Some(_)) => Err(Problem::new("directive \"server\" is not terminated by \";\"")),
        };
        checked.map_err(|problem| wrong(&problem.message, Some(node.end)))?;
        // Messages name the directive that the file belongs to.
        (node.order, node.end, node.close) = (state.order, state.end, state.close);
        node.name.place = state.name.place;
        node.args.iter_mut().for_each(|word| word.place = state.args[0].place);
    }
    Ok(nodes)
}
