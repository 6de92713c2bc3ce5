//! The directives, as they are written.

use std::sync::Arc;

use freerun_conf::{Cx, Node, Problem, Setting, Shape, Word};
use freerun_http::request::Request;
use freerun_http::template::Template;

/// The directives that make a location's content.
pub(super) const NAMES: &[&str] = &[
    "echo",
    "echo_duplicate",
    "echo_flush",
    "echo_sleep",
    "echo_blocking_sleep",
    "echo_reset_timer",
    "echo_read_request_body",
    "echo_request_body",
    "echo_location",
    "echo_location_async",
    "echo_subrequest",
    "echo_subrequest_async",
    "echo_foreach_split",
    "echo_end",
    "echo_exec",
];

/// A line of text.
#[derive(Debug, Clone)]
pub(super) struct Line {
    words: Box<[Template]>,
    ends: bool,
}

impl Line {
    fn parse(directive: &Node, cx: &mut Cx) -> Result<Line, Problem> {
        let mut ends = true;
        let mut words = &*directive.args;
        while let Some((word, rest)) = words.split_first() {
            match word.as_str() {
                "-n" => ends = false,
                "--" => {
                    words = rest;
                    break;
                }
                _ => break,
            }
            words = rest;
        }
        let words = words.iter().map(|word| Template::parse(word, cx)).collect::<Result<_, _>>()?;
        Ok(Line { words, ends })
    }

    /// Appends the line to `out`.
    pub(super) fn render(&self, request: &Request, out: &mut Vec<u8>) {
        for (index, word) in self.words.iter().enumerate() {
            if index > 0 {
                out.push(b' ');
            }
            word.render_into(request, out);
        }
        if self.ends {
            out.push(b'\n');
        }
    }
}

/// The lines of `echo_before_body` or `echo_after_body`.
#[derive(Debug, Clone, Default)]
pub struct Lines(Arc<Vec<Line>>);

impl Lines {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn render(&self, request: &Request) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.iter().for_each(|line| line.render(request, &mut out));
        out
    }
}

impl Setting for Lines {
    const SHAPE: Shape = Shape::at_least(0, "[-n] [--] [text …]");

    fn set(previous: Option<Lines>, directive: &Node, cx: &mut Cx) -> Result<Lines, Problem> {
        let mut lines = previous.unwrap_or_default();
        Arc::make_mut(&mut lines.0).push(Line::parse(directive, cx)?);
        Ok(lines)
    }
}

/// The body of a subrequest.
#[derive(Debug, Clone)]
pub(super) enum SentText {
    /// The one of the request itself.
    Same,
    Text(Template),
    File(Template),
}

/// A subrequest.
#[derive(Debug, Clone)]
pub(super) struct Sub {
    pub(super) method: Option<Template>,
    pub(super) uri: Template,
    pub(super) args: Option<Template>,
    pub(super) body: SentText,
    /// Whether the next directive waits for it.
    pub(super) waits: bool,
}

/// A directive.
#[derive(Debug, Clone)]
pub(super) enum EchoCommand {
    Line(Line),
    Duplicate(Template, Template),
    Flush,
    Sleep(Template),
    ResetTimer,
    ReadBody,
    RequestBody,
    Sub(Box<Sub>),
    ForEach(Template, Template),
    End,
    Exec(Template, Option<Template>),
}

impl EchoCommand {
    /// Whether the body of the request is read for it.
    pub(super) fn needs_body(&self) -> bool {
        match self {
            EchoCommand::ReadBody => true,
            EchoCommand::Sub(sub) => sub.method.is_some(),
            _ => false,
        }
    }

    fn parse(directive: &Node, cx: &mut Cx) -> Result<EchoCommand, Problem> {
        let name = directive.name.as_str();
        let args = &*directive.args;
        let mut text = |index: usize| match args.get(index) {
            Some(word) => Template::parse(word, cx),
            None => Err(Problem::wrong_count(directive)),
        };
        Ok(match name {
            "echo" => EchoCommand::Line(Line::parse(directive, cx)?),
            "echo_duplicate" => EchoCommand::Duplicate(text(0)?, text(1)?),
            "echo_flush" => EchoCommand::Flush,
            "echo_sleep" | "echo_blocking_sleep" => EchoCommand::Sleep(text(0)?),
            "echo_reset_timer" => EchoCommand::ResetTimer,
            "echo_read_request_body" => EchoCommand::ReadBody,
            "echo_request_body" => EchoCommand::RequestBody,
            "echo_location" | "echo_location_async" => EchoCommand::Sub(Box::new(Sub {
                method: None,
                uri: text(0)?,
                args: if args.len() > 1 { Some(text(1)?) } else { None },
                body: SentText::Same,
                waits: name == "echo_location",
            })),
            "echo_subrequest" | "echo_subrequest_async" => {
                let (method, uri) = (text(0)?, text(1)?);
                let waits = name == "echo_subrequest";
                let mut sub = Sub { method: Some(method), uri, args: None, body: SentText::Same, waits };
                sub.options(&args[2..], directive, cx)?;
                EchoCommand::Sub(Box::new(sub))
            }
            "echo_foreach_split" => {
                let from = usize::from(args[0].as_str() == "--");
                EchoCommand::ForEach(text(from)?, text(from + 1)?)
            }
            "echo_end" => EchoCommand::End,
            _ => EchoCommand::Exec(text(0)?, if args.len() > 1 { Some(text(1)?) } else { None }),
        })
    }
}

impl Sub {
    fn options(&mut self, words: &[Word], directive: &Node, cx: &mut Cx) -> Result<(), Problem> {
        for pair in words.chunks(2) {
            let [option, value] = pair else { return Err(Problem::wrong_count(directive)) };
            let value = Template::parse(value, cx)?;
            match option.as_str() {
                "-q" => self.args = Some(value),
                "-b" => self.body = SentText::Text(value),
                "-f" => self.body = SentText::File(value),
                _ => return Err(Problem::invalid_parameter(directive, option)),
            }
        }
        Ok(())
    }
}

/// The directives of one level, in their order. Cloning is cheap.
#[derive(Debug, Clone, Default)]
pub struct Commands(Arc<Vec<EchoCommand>>);

impl Commands {
    pub(super) fn list(&self) -> &[EchoCommand] {
        &self.0
    }
}

impl Setting for Commands {
    const SHAPE: Shape = Shape::at_least(0, "[-n] [--] [text …]");

    fn set(previous: Option<Commands>, directive: &Node, cx: &mut Cx) -> Result<Commands, Problem> {
        let mut commands = previous.unwrap_or_default();
        Arc::make_mut(&mut commands.0).push(EchoCommand::parse(directive, cx)?);
        Ok(commands)
    }
}
