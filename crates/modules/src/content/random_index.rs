//! `random_index`: a random file of a folder.

use std::hash::{BuildHasher, RandomState};

use freerun_conf::{SettingsSet, group, settings};
use freerun_http::content::{open, path};
use freerun_http::module::Module;
use freerun_http::request::Request;
use freerun_http::request::handler::{Handler, Outcome, Phase, Run};
use freerun_http::request::response::LocalBoxFuture;
use freerun_proto::Method;
use freerun_runtime::files::Listing;

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
        let Listing { entries: mut files, share: _share, .. } = match open::list(request, &folder).await {
            Ok(listing) => listing,
            Err(status) => return Outcome::Status(status),
        };
        files.retain(|entry| entry.meta.is_file());
        if files.is_empty() {
            return Outcome::Declined;
        }
        // The random keys of a hasher are random enough here.
        let chance = RandomState::new().hash_one(request.arrival.serial);
        let index = usize::try_from(chance % files.len() as u64).unwrap_or(0);
        let uri = [&request.asked.path[..], &files[index].name].concat();
        Outcome::Redirect(uri, request.asked.args.clone())
    })
}
