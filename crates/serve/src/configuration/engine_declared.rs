//! Whether a configuration names an engine for state that several machines share (`zone_sync_engine`).

use freerun_conf::{Cx, Node, Problem, Word};

/// The configuration names an engine. Lives in the configuration's context, from before its blocks are read.
#[derive(Debug, Clone, Copy)]
pub struct EngineDeclared;

/// The configuration names a secret for the engine (`zone_sync_secret`). Lives in the configuration's context, from before its
/// blocks are read.
#[derive(Debug, Clone, Copy)]
pub struct SecretDeclared;

impl SecretDeclared {
    /// Checks that there is a secret for the value `sync` of a directive, which has keys written to the engine.
    ///
    /// # Errors
    /// There is none.
    pub fn check(directive: &Node, word: &Word, cx: &Cx) -> Result<(), Problem> {
        if cx.extensions.get::<SecretDeclared>().is_some() {
            return Ok(());
        }
        let problem = Problem::new(format!("\"sync\" of \"{}\" needs \"zone_sync_secret\"", directive.name.text));
        Err(problem.at(word.place).hint("keys would be readable in the engine; make one with: openssl rand -hex 32"))
    }
}

impl EngineDeclared {
    /// Checks that there is an engine for the parameter `sync` of a directive.
    ///
    /// # Errors
    /// There is none.
    pub fn check(directive: &Node, word: &Word, cx: &Cx) -> Result<(), Problem> {
        if cx.extensions.get::<EngineDeclared>().is_some() {
            return Ok(());
        }
        let problem = Problem::new(format!("\"sync\" of \"{}\" needs \"zone_sync_engine\"", directive.name.text));
        Err(problem.at(word.place).hint("outside of all blocks, such as: zone_sync_engine redis://127.0.0.1:6379;"))
    }
}
