//! `error_page`.

use freerun_conf::{Cx, Node, Problem, Shape, Value};

use freerun_serve::Subject;
use freerun_serve::values::Template;

/// The page that is shown instead of an error.
pub enum Target<S: Subject> {
    /// A URI of this server, or a URL to redirect to.
    Uri(Template<S>),
    /// A named location, with its `@`.
    Named(String),
}

/// An `error_page` directive.
pub struct ErrorPage<S: Subject> {
    /// The statuses of the errors.
    pub statuses: Vec<u16>,
    /// The status to send: `=200` sends 200; `=` alone, here 0, the status of the page itself.
    pub overwrite: Option<u16>,
    /// The page that is shown.
    pub target: Target<S>,
}

impl<S: Subject> Clone for Target<S> {
    fn clone(&self) -> Target<S> {
        match self {
            Target::Uri(uri) => Target::Uri(uri.clone()),
            Target::Named(name) => Target::Named(name.clone()),
        }
    }
}

impl<S: Subject> Clone for ErrorPage<S> {
    fn clone(&self) -> ErrorPage<S> {
        let ErrorPage { statuses, overwrite, target } = self;
        ErrorPage { statuses: statuses.clone(), overwrite: *overwrite, target: target.clone() }
    }
}

impl<S: Subject> Value for ErrorPage<S> {
    const SHAPE: Shape = Shape::at_least(2, "code … [=[response]] uri");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<ErrorPage<S>, Problem> {
        let Some((uri, mut codes)) = directive.args.split_last() else { return Err(Problem::wrong_count(directive)) };
        let mut overwrite = None;
        if let Some((word, rest)) = codes.split_last()
            && let Some(number) = word.text.strip_prefix('=')
        {
            overwrite = Some(match number {
                "" => 0,
                number => number
                    .parse()
                    .map_err(|_| Problem::new(format!("invalid value \"{}\"", word.text)).at(word.place))?,
            });
            codes = rest;
            if codes.is_empty() {
                return Err(Problem::new(format!("invalid value \"{}\"", word.text)).at(word.place));
            }
        }
        let target = match uri.text.strip_prefix('@') {
            Some(_) => Target::Named(uri.text.clone()),
            None => Target::Uri(Template::parse(uri, cx)?),
        };
        let mut statuses = Vec::with_capacity(codes.len());
        for word in codes {
            let invalid = |why: &str| Err(Problem::new(format!("{why} \"{}\"", word.text)).at(word.place));
            match word.text.parse::<u16>() {
                Ok(499) => return invalid("invalid value"),
                Ok(status @ 300..=599) => statuses.push(status),
                Ok(_) => {
                    let text = &word.text;
                    return Err(Problem::new(format!("value \"{text}\" must be between 300 and 599")).at(word.place));
                }
                Err(_) => return invalid("invalid value"),
            }
        }
        Ok(ErrorPage { statuses, overwrite, target })
    }
}
