//! `random_index`: a random file of a folder.

use std::hash::{BuildHasher, RandomState};

use freerun_conf::{SettingsSet, group, settings};
use freerun_http::content::{open, path};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_proto::Method;
use freerun_runtime::files::{Arrange, DirectoryEntry};

settings! {
    /// Random index files.
    #[module = "random_index"]
    pub struct RandomIndexSettings {
        /// Answers a URI that ends with a slash with a random file of the folder. Names that begin with a dot are left
        /// out.
        random_index: bool = "off", in LOCATION;
    }
}

/// The module `random_index`. It stands before `index`.
pub static MODULE: Module = Module {
    name: "random_index",
    groups: &[group::<RandomIndexSettings>()],
    handlers: &[Handler { phase: Phase::Content, wanted, run: Run::Later(answer) }],
    ..Module::EMPTY
};

fn wanted(settings: &SettingsSet) -> bool {
    settings.get::<RandomIndexSettings>().random_index
}

fn answer(request: &mut Request) -> LocalBoxFuture<'_, Outcome> {
    Box::pin(async move {
        let concerns = matches!(request.asked.method, Method::Get | Method::Head | Method::Post);
        if request.asked.path.last() != Some(&b'/') || !concerns {
            return Outcome::Declined;
        }
        let mut folder = path::file_name(request);
        if folder.len() > 1 && folder.last() == Some(&b'/') {
            folder.pop();
        }
        // The random keys of a hasher are random enough here.
        let chance = RandomState::new().hash_one(request.arrival.serial);
        // One file is chosen in the pool: there may be many.
        let choose = move |entries: &mut Vec<DirectoryEntry>| {
            entries.retain(|entry| entry.meta.is_file());
            if !entries.is_empty() {
                let index = usize::try_from(chance % entries.len() as u64).unwrap_or(0);
                entries.swap(0, index);
                entries.truncate(1);
            }
        };
        let arrange = Arrange { change: Some(Box::new(choose)), ..Arrange::default() };
        let file = match open::list_arranged(request, &folder, arrange).await {
            Ok(mut listing) => listing.entries.next(),
            Err(status) => return Outcome::Status(status),
        };
        let Some(file) = file else { return Outcome::Declined };
        let uri = [&request.asked.path[..], &file.name].concat();
        Outcome::Redirect(uri, request.asked.args.clone())
    })
}
