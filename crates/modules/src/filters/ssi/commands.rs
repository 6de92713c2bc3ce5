//! Carries out the commands of pages.

use bytes::Bytes;
use freerun_conf::text_of;
use freerun_http::log_error;
use freerun_http::phases::subrequest::{plain, subrequest, target};
use freerun_http::phases::subrequest_body::SubrequestBody;
use freerun_http::request::Request;
use freerun_proto::uri;

use super::expr::{self, Captures, Lookup, Patterns};
use super::page::{Branch, Include, Purpose, SsiPage};
use super::parser::SsiCommand;
use super::state::{SharedPage, TimeFormat};

/// The name and the parameters of a command; the flag marks parameters that are required.
struct Spec {
    name: &'static str,
    conditional: bool,
    params: &'static [(&'static str, bool)],
}

const fn spec(name: &'static str, conditional: bool, params: &'static [(&'static str, bool)]) -> Spec {
    Spec { name, conditional, params }
}

const COMMANDS: &[Spec] = &[
    spec("include", false, &[("virtual", false), ("file", false), ("wait", false), ("set", false), ("stub", false)]),
    spec("echo", false, &[("var", true), ("default", false), ("encoding", false)]),
    spec("config", false, &[("errmsg", false), ("timefmt", false)]),
    spec("set", false, &[("var", true), ("value", true)]),
    spec("if", true, &[("expr", true)]),
    spec("elif", true, &[("expr", true)]),
    spec("else", true, &[]),
    spec("endif", true, &[]),
    spec("block", false, &[("name", true)]),
    spec("endblock", false, &[]),
];

/// The variables of a page: its own, then the server's.
struct PageVariables<'p> {
    request: &'p Request,
    shared: &'p SharedPage,
}

impl PageVariables<'_> {
    fn find(&self, name: &[u8]) -> Option<Bytes> {
        if let Some(value) = self.shared.variable(name) {
            return Some(value);
        }
        let name = std::str::from_utf8(name).ok()?;
        let reference = self.request.generation.http.variables.find(name)?;
        reference.get(self.request).map(|value| Bytes::from(value.into_owned()))
    }
}

impl Lookup for PageVariables<'_> {
    fn value(&self, name: &[u8], out: &mut Vec<u8>) {
        if let Some(value) = self.find(name) {
            out.extend_from_slice(&value);
        }
    }

    fn captured(&mut self, captures: Captures) {
        if let Err(full) = self.shared.keep_captures(captures) {
            log_error!(self.request, Error, "{full}");
        }
    }
}

impl SsiPage {
    /// Carries out a command, unless the page is being skipped.
    pub(super) fn run(&mut self, command: &SsiCommand) {
        if let Err(why) = self.dispatch(command) {
            self.fail(&why);
        }
    }

    fn dispatch(&mut self, command: &SsiCommand) -> Result<(), String> {
        let name = text_of(&command.name);
        let Some(spec) = COMMANDS.iter().find(|spec| spec.name.as_bytes() == command.name) else {
            if !self.shown || self.block.is_some() {
                return Ok(());
            }
            return Err(format!("invalid SSI command: \"{name}\""));
        };
        if !self.shown && (!spec.conditional || spec.name == "if") {
            return Ok(());
        }
        if let Some((_, content)) = &mut self.block
            && spec.name != "endblock"
        {
            if let Some(kept) = content {
                command.source(kept);
                if kept.len() > self.shared.room() {
                    *content = None;
                }
            }
            return Ok(());
        }
        match (spec.name, self.branch) {
            ("if", Branch::If | Branch::Else) => {
                return Err("the \"if\" command inside the \"if\" command".to_owned());
            }
            ("elif" | "else", Branch::None | Branch::Else) | ("endif", Branch::None) => {
                return Err(format!("invalid context of SSI command: \"{name}\""));
            }
            _ => {}
        }
        check(spec, command)?;
        let param = |name| command.param(name).unwrap_or_default();
        match spec.name {
            "include" => self.include(command)?,
            "echo" => self.echo(command)?,
            "config" => {
                if let Some(format) = command.param("timefmt") {
                    self.request.own.get::<TimeFormat>().set(format);
                }
                if let Some(error) = command.param("errmsg") {
                    self.error = Bytes::copy_from_slice(error);
                }
            }
            "set" => {
                let value = self.evaluate(param("value"))?;
                self.set(param("var"), value.into())?;
            }
            "if" => {
                let holds = self.holds(param("expr"))?;
                (self.branch, self.shown, self.taken) = (Branch::If, holds, holds);
            }
            "elif" if self.taken => self.shown = false,
            "elif" => {
                let holds = self.holds(param("expr"))?;
                (self.shown, self.taken) = (holds, holds);
            }
            "else" => (self.branch, self.shown, self.taken) = (Branch::Else, !self.taken, true),
            "endif" => (self.branch, self.shown, self.taken) = (Branch::None, true, false),
            "block" => self.block = Some((param("name").to_vec(), Some(Vec::new()))),
            _ => match self.block.take() {
                Some((name, Some(content))) => {
                    self.shared.keep_block(name, content.into()).map_err(|full| full.to_string())?;
                }
                Some((name, None)) => return Err(format!("too large block \"{}\"", text_of(&name))),
                None => {}
            },
        }
        Ok(())
    }

    fn names(&self) -> PageVariables<'_> {
        PageVariables { request: &self.request, shared: &self.shared }
    }

    fn evaluate(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        expr::evaluate(text, &self.names())
    }

    fn holds(&self, text: &[u8]) -> Result<bool, String> {
        let patterns = self.request.client.loop_state.modules.get::<Patterns>();
        expr::holds(text, &mut self.names(), &patterns)
    }

    fn set(&self, name: &[u8], value: Bytes) -> Result<(), String> {
        self.shared.set(&name.to_ascii_lowercase(), value).map_err(|full| full.to_string())
    }

    fn echo(&mut self, command: &SsiCommand) -> Result<(), String> {
        let var = command.param("var").unwrap_or_default().to_ascii_lowercase();
        let value = match self.names().find(&var) {
            // A format with an empty result is an error of the page.
            Some(value) if value.is_empty() && matches!(&*var, b"date_local" | b"date_gmt") => {
                return Err("strftime() failed".to_owned());
            }
            Some(value) => value,
            None => Bytes::copy_from_slice(command.param("default").unwrap_or(b"(none)")),
        };
        let encoding = command.param("encoding");
        if let Some(unknown) = encoding.filter(|known| !matches!(*known, b"none" | b"url" | b"entity")) {
            let unknown = text_of(unknown);
            log_error!(self.request, Error, "unknown encoding \"{unknown}\" in the \"echo\" command");
        }
        self.push(match encoding {
            Some(b"none") => value,
            Some(b"url") => url(&value),
            _ => entity(value),
        });
        Ok(())
    }

    fn include(&mut self, command: &SsiCommand) -> Result<(), String> {
        let shown = |value: &[u8]| text_of(value).into_owned();
        let (path, file) = (command.param("virtual"), command.param("file"));
        let uri = match (path, file) {
            (Some(path), Some(file)) => {
                let (path, file) = (shown(path), shown(file));
                return Err(format!("inclusion may be either virtual=\"{path}\" or file=\"{file}\""));
            }
            (None, None) => return Err("no parameter in \"include\" SSI command".to_owned()),
            (Some(uri), None) | (None, Some(uri)) => uri,
        };
        let (set, stub) = (command.param("set"), command.param("stub"));
        if set.is_some() && stub.is_some() {
            return Err("\"set\" and \"stub\" cannot be used together in \"include\" SSI command".to_owned());
        }
        let wait = match (command.param("wait"), file) {
            (None, _) => false,
            (Some(_), Some(file)) => return Err(format!("\"wait\" cannot be used with file=\"{}\"", shown(file))),
            (Some(b"no"), _) => false,
            (Some(b"yes"), _) => true,
            (Some(other), _) => return Err(format!("invalid value \"{}\" in the \"wait\" parameter", shown(other))),
        };
        let uri = self.evaluate(uri)?;
        let (path, args) = self.place(&uri)?;
        let purpose = match (stub, set) {
            (Some(name), _) => match self.shared.block(name) {
                Some(content) => Purpose::Stub(content),
                None => return Err(format!("\"stub\"=\"{}\" for \"include\" not found", shown(name))),
            },
            (None, Some(name)) => {
                self.set(name, Bytes::new())?;
                Purpose::Set(name.to_ascii_lowercase())
            }
            (None, None) => Purpose::Show,
        };
        let wait = wait || matches!(purpose, Purpose::Set(_));
        // A stub stands for any error, so that no error page is asked.
        let running = match purpose {
            Purpose::Stub(_) => plain(&self.request, path, args),
            Purpose::Show | Purpose::Set(_) => subrequest(&self.request, path, args),
        };
        // The error was logged.
        let Ok(running) = running else {
            self.push_error();
            return Ok(());
        };
        self.push_include(Include { body: SubrequestBody::new(running), purpose, wait, begun: false });
        Ok(())
    }

    /// The path and arguments of a URI in a page, which may be relative to the page's own.
    fn place(&self, uri: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>), String> {
        let folder = self.request.asked.path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
        target(&self.request.asked.path[..folder], uri)
            .map_err(|full| format!("unsafe URI \"{}\" was detected", text_of(&full)))
    }
}

fn check(spec: &Spec, command: &SsiCommand) -> Result<(), String> {
    for (at, (name, _)) in command.params.iter().enumerate() {
        let shown = text_of(name);
        if !spec.params.iter().any(|(known, _)| known.as_bytes() == name) {
            return Err(format!("invalid parameter name: \"{shown}\" in \"{}\" SSI command", spec.name));
        }
        if command.params[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(format!("duplicate \"{shown}\" parameter in \"{}\" SSI command", spec.name));
        }
    }
    match spec.params.iter().find(|(name, mandatory)| *mandatory && command.param(name).is_none()) {
        Some((name, _)) => Err(format!("mandatory \"{name}\" parameter is absent in \"{}\" SSI command", spec.name)),
        None => Ok(()),
    }
}

fn entity(value: Bytes) -> Bytes {
    if !value.iter().any(|byte| matches!(byte, b'<' | b'>' | b'&' | b'"')) {
        return value;
    }
    let mut out = Vec::with_capacity(value.len() + 16);
    for byte in value {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            byte => out.push(byte),
        }
    }
    out.into()
}

/// Escapes the bytes that may not stand in a URI, and both quotes.
fn url(value: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(value.len() + 16);
    for byte in value {
        match byte {
            b'?' => out.push(b'?'),
            b'\'' => out.extend_from_slice(b"%27"),
            byte => uri::escape_into(uri::EscapeSet::Uri, &[*byte], &mut out),
        }
    }
    out.into()
}
