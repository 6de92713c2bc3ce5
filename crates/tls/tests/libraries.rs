//! What the crate is linked with.

/// aws-lc-rs and the wrappers of certificates share one AWS-LC: a second one would be linked without a word, as the names
/// of its functions begin with its version.
#[test]
fn one_aws_lc() {
    let locked = include_str!("../../../Cargo.lock");
    let copies = locked.lines().filter(|line| line.contains("name = \"aws-lc-") && line.contains("-sys\"")).count();
    assert_eq!(copies, 1, "aws-lc-sys in Cargo.toml is not the version that aws-lc-rs has");
}
