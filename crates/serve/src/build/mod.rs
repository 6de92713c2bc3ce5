//! Making a service, such as `http` or `stream`, of its block: the steps that all services have in common, what modules bring,
//! and virtual servers by their names.

pub mod blueprint;
#[cfg(debug_assertions)]
pub mod debug_block;
pub mod module;
pub mod names;

use std::marker::PhantomData;
use std::sync::Arc;

use freerun_conf::{Block, Cx, Directive, Node, Place, Problem, Registry, SettingsSet, apply_block};

use crate::build::module::{Module, Path};
use crate::tls::ech;
use crate::tls::server::ServerTls;
use crate::values::proxy_header::{ProxiedSubject, ProxyVariables};
use crate::values::ssl_variables::{SslVariables, TlsSubject};
use crate::values::{Common, Variable, VariableTable};

/// All structural directives of a service: its `own`, and the blocks of its modules.
pub fn structure<P: Path>(own: &[Directive], modules: &[&Module<P>]) -> Vec<Directive> {
    let blocks = modules.iter().flat_map(|module| module.blocks).map(|block| &block.directive);
    own.iter().chain(blocks).copied().collect()
}

/// All variables that a configuration may name in a service. They are the variables of all services, of the service's `core`,
/// and of its modules, each table with the name of its module. Of variables with the same name the last one counts.
pub fn variables<'m, P: Path>(
    core: &'static [Variable<P::Subject>],
    modules: &'m [&Module<P>],
) -> impl Iterator<Item = (&'static str, &'static [Variable<P::Subject>])> + 'm
where
    P::Subject: ProxiedSubject + TlsSubject,
{
    let core = [
        ("core", Common::<P::Subject>::VARIABLES),
        ("core", ProxyVariables::<P::Subject>::VARIABLES),
        ("ssl", SslVariables::<P::Subject>::VARIABLES),
        ("core", core),
    ];
    core.into_iter().chain(modules.iter().map(|module| (module.name, module.variables)))
}

/// Makes the [variables] known. It has to be called before any directive is read.
pub fn add_variables<P: Path>(core: &'static [Variable<P::Subject>], modules: &[&Module<P>], cx: &mut Cx)
where
    P::Subject: ProxiedSubject + TlsSubject,
{
    let table = cx.extensions.get_or_default::<VariableTable<P::Subject>>();
    for (_, variables) in variables(core, modules) {
        table.add(variables);
    }
}

/// The block of a service that is being read.
pub struct ServiceBlock<'a, P: Path> {
    /// All directives of the program.
    pub registry: &'a Registry,
    /// The modules of the service, in order.
    pub modules: &'a [&'static Module<P>],
}

/// The end of a service's block, where nginx reports what it finds out there; lives in the configuration's context.
struct BlockEnd<P>(Place, PhantomData<fn() -> P>);

impl<P: Path> ServiceBlock<'_, P> {
    /// Begins with the block of the service. There may be one at most; `nodes` are the directives of the main level.
    ///
    /// # Errors
    /// There is a second one.
    pub fn begin<'n>(&self, nodes: &[&'n Node], cx: &mut Cx) -> Result<Option<&'n Node>, Problem> {
        if let Some(second) = nodes.get(1) {
            cx.report(Problem::duplicate(second).first_at(nodes[0].name.place))?;
        }
        if let Some(first) = nodes.first() {
            cx.extensions.insert(BlockEnd::<P>(first.close, PhantomData));
        }
        Ok(nodes.first().copied())
    }

    /// Reads a block that belongs to a module, with the `settings` around it. Other blocks are left alone.
    ///
    /// # Errors
    /// The first problem that makes further reading useless; other problems are reported to `cx`.
    pub fn module_block(&self, node: &Node, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
        let mut blocks = self.modules.iter().flat_map(|module| module.blocks);
        let Some(block) = blocks.find(|block| block.directive.name == node.name.text) else { return Ok(()) };
        let Block::Inside(context) = block.directive.shape.block else { return Ok(()) };
        let (inside, _) = apply_block(self.registry, context, node.children(), settings, cx)?;
        (block.read)(node, &inside, cx).or_else(|problem| cx.report(problem))
    }

    /// Has the modules check the merged settings of a level.
    ///
    /// # Errors
    /// As [`ServiceBlock::module_block`].
    pub fn settle(&self, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
        for settle in self.modules.iter().filter_map(|module| module.settle) {
            if let Err(problem) = settle(settings, cx) {
                let problem = at_the_end::<P>(problem, cx);
                cx.report(problem)?;
            }
        }
        Ok(())
    }

    /// The TLS of a virtual server, as its directives have `made` it; nothing if they cannot be used.
    ///
    /// # Errors
    /// As [`ServiceBlock::module_block`].
    pub fn tls(
        &self,
        made: Result<Option<Arc<ServerTls>>, Problem>,
        cx: &mut Cx,
    ) -> Result<Option<Arc<ServerTls>>, Problem> {
        made.or_else(|mut problem| {
            // As in nginx, it is reported after all problems of single directives.
            if problem.place.is_some() && problem.reported.is_none() {
                problem.reported = cx.extensions.get::<BlockEnd<P>>().map(|end| end.0);
            }
            cx.report(problem).map(|()| None)
        })
    }

    /// Ends the block, when all of it has been read, with the settings of its level.
    ///
    /// # Errors
    /// As [`ServiceBlock::module_block`].
    pub fn finish(&self, settings: &SettingsSet, cx: &mut Cx) -> Result<(), Problem> {
        for finish in self.modules.iter().filter_map(|module| module.finish) {
            finish(settings, cx).or_else(|problem| cx.report(problem))?;
        }
        ech::warn(cx);
        Ok(())
    }
}

/// The place where the block of the service ends: nginx reports there what it finds when everything was read.
pub fn end_of_block<P: Path>(cx: &Cx) -> Option<Place> {
    cx.extensions.get::<BlockEnd<P>>().map(|end| end.0)
}

/// Gives a problem that was found only in merged settings the line where the block of the service ends, unless the problem has
/// a better place, as in nginx.
pub fn at_the_end<P: Path>(problem: Problem, cx: &Cx) -> Problem {
    let known = problem.place.is_some() || problem.reported.is_some();
    match cx.extensions.get::<BlockEnd<P>>() {
        Some(BlockEnd(end, _)) if !known => problem.at(*end).reported_at(*end),
        _ => problem,
    }
}
