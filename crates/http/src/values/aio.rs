//! `aio` and the thread pools it names.

use freerun_conf::{Cx, Node, Place, Problem, Shape, Value, Word};
use freerun_runtime::pool::{DEFAULT_NAME, PoolSpec};
use freerun_serve::Subject;
use freerun_serve::values::Template;

/// The pools that `thread_pool` has defined, and the names that `aio` uses. Lives in the configuration's context.
#[derive(Debug, Default)]
pub struct ThreadPools {
    /// The definitions, in order.
    pub defined: Vec<PoolSpec>,
    used: Vec<(String, Place)>,
}

impl ThreadPools {
    /// Finds the first name without a definition, after all of the configuration was read (`thread_pool` may stand
    /// below its use).
    ///
    /// # Errors
    /// nginx's `unknown thread pool "x"`.
    pub fn check(&self) -> Result<(), Problem> {
        let known = |name: &str| name == DEFAULT_NAME || self.defined.iter().any(|pool| pool.name == name);
        match self.used.iter().find(|(name, _)| !known(name)) {
            None => Ok(()),
            Some((name, place)) => {
                let near = freerun_conf::near(name, self.defined.iter().map(|pool| pool.name.as_str()));
                let hint = near.map(|near| format!("did you mean \"{near}\"?"));
                Err(Problem::new(format!("unknown thread pool \"{name}\"")).at(*place).hint_if(hint))
            }
        }
    }
}

/// The value of `aio`.
pub enum AioSetting<S: Subject> {
    /// Probe the page cache, and use the pool `default` for operations that would wait.
    Auto,
    /// Probe the page cache, and use the pool with this name for operations that would wait.
    Threads(Template<S>),
    /// Every operation goes to the pool.
    Always(Template<S>),
    /// Every operation stays on the loop.
    Off,
}

impl<S: Subject> Clone for AioSetting<S> {
    fn clone(&self) -> AioSetting<S> {
        match self {
            AioSetting::Auto => AioSetting::Auto,
            AioSetting::Threads(name) => AioSetting::Threads(name.clone()),
            AioSetting::Always(name) => AioSetting::Always(name.clone()),
            AioSetting::Off => AioSetting::Off,
        }
    }
}

impl<S: Subject> Value for AioSetting<S> {
    const SHAPE: Shape = Shape::between(1, 2, "auto | on | off | threads[=pool] [always]");

    fn parse(directive: &Node, cx: &mut Cx) -> Result<AioSetting<S>, Problem> {
        let word = &directive.args[0];
        let always = match directive.args.get(1) {
            None => false,
            Some(second) if second.text == "always" && word.text.starts_with("threads") => true,
            Some(second) => return Err(Problem::new(format!("invalid parameter \"{}\"", second.text)).at(second.place)),
        };
        let name = match word.text.as_str() {
            "off" => return Ok(AioSetting::Off),
            "auto" | "on" => return Ok(AioSetting::Auto),
            "threads" => DEFAULT_NAME,
            text => match text.strip_prefix("threads=") {
                Some(name) => name,
                None => return Err(Problem::invalid_value(directive, word)),
            },
        };
        let template = Template::parse(&Word { text: name.to_owned(), ..word.clone() }, cx)?;
        if template.constant().is_some() {
            cx.extensions.get_or_default::<ThreadPools>().used.push((name.to_owned(), word.place));
        }
        Ok(if always { AioSetting::Always(template) } else { AioSetting::Threads(template) })
    }
}
