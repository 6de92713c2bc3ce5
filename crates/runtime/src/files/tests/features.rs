//! Features of the kernel that are missing are found at the start, and only these.

use rustix::io::Errno;

use super::super::features::{KernelFeature, MissingFeature};
use super::fake::{Bench, Plan};

fn missing(plan: impl FnOnce(&mut Plan)) -> Vec<MissingFeature> {
    Bench::with("ext4", "", plan).fs.missing_features().to_vec()
}

#[test]
fn a_call_that_the_kernel_knows_is_not_missing() {
    // `cachestat` is as good as there with any answer but those of an old kernel or a filter.
    assert_eq!(missing(|plan| plan.cached = Some(0)), []);
}

#[test]
fn each_missing_feature_is_found_by_itself() {
    for error in [Errno::NOSYS, Errno::PERM, Errno::INVAL] {
        let lookup = missing(|plan| (plan.name_cached, plan.cached) = (Some(error), Some(0)));
        assert_eq!(lookup, [MissingFeature { feature: KernelFeature::CachedLookup, error }]);
        let nowait = missing(|plan| (plan.nowait, plan.cached) = (Some(error), Some(0)));
        assert_eq!(nowait, [MissingFeature { feature: KernelFeature::NowaitRead, error }]);
    }
    let statistics = missing(|_| ());
    assert_eq!(statistics.iter().map(|one| one.feature).collect::<Vec<_>>(), [KernelFeature::CacheStatistics]);
}

#[test]
fn a_line_names_the_feature_its_version_and_the_loss() {
    let line = MissingFeature { feature: KernelFeature::CachedLookup, error: Errno::NOSYS }.to_string();
    assert_eq!(line, "RESOLVE_CACHED (Linux 5.12) is missing or forbidden: files are opened by a pool");
}
