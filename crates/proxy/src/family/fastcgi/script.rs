//! `$fastcgi_script_name` and `$fastcgi_path_info`: the part of the path that names the script, and the part behind it.

use std::borrow::Cow;
use std::ops::Range;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, bytes_of, text_of};
use freerun_http::log_error;
use freerun_http::regex::Pattern;
use freerun_http::request::Request;
use freerun_http::variables;
use freerun_http::variables::VariableTable;

use crate::family::fastcgi::FastCgiSettings;

/// `fastcgi_split_path_info`: an expression with two groups. Of several at one level the last one counts, as in nginx.
#[derive(Debug, Clone)]
pub struct Split(Pattern);

impl Setting for Split {
    const SHAPE: Shape = Shape::exactly(1, "expression");

    fn set(_: Option<Self>, directive: &Node, cx: &mut Cx) -> Result<Split, Problem> {
        let word = &directive.args[0];
        let variables = cx.extensions.get_or_default::<VariableTable>();
        let pattern = Pattern::new(&word.text, false, variables).map_err(|text| Problem::new(text).at(word.place))?;
        if pattern.groups() != 2 {
            return Err(Problem::new(format!("pattern \"{}\" must have 2 captures", word.text)).at(word.place));
        }
        Ok(Split(pattern))
    }
}

/// The ranges of script and path information in the path, if the expression matches.
fn split(request: &Request, settings: &FastCgiSettings) -> Option<[Range<usize>; 2]> {
    let Split(pattern) = settings.fastcgi_split_path_info.as_ref()?;
    pattern.split(&request.asked.path).unwrap_or_else(|error| {
        log_error!(request, Alert, "{error} on \"{}\"", text_of(&request.asked.path));
        None
    })
}

/// The value of `$fastcgi_script_name`.
pub fn script_name<'r>(request: &'r Request, _: &str) -> variables::VariableValue<'r> {
    let settings = request.settings().get::<FastCgiSettings>();
    if let Some([script, _]) = split(request, settings) {
        return Some(Cow::Borrowed(&request.asked.path[script]));
    }
    match &settings.fastcgi_index {
        Some(index) if request.asked.path.ends_with(b"/") => {
            Some([&request.asked.path[..], &bytes_of(index)].concat().into())
        }
        _ => Some(Cow::Borrowed(&request.asked.path)),
    }
}

/// The value of `$fastcgi_path_info`.
pub fn path_info<'r>(request: &'r Request, _: &str) -> variables::VariableValue<'r> {
    let settings = request.settings().get::<FastCgiSettings>();
    Some(split(request, settings).map_or(Cow::Borrowed(b""), |[_, rest]| Cow::Borrowed(&request.asked.path[rest])))
}
