//! What a handshake's numbers are called is said in two places: `freerun_proto::tls` prints a ClientHello, and the tables here
//! read a configuration. They have to agree.

use freerun_proto::tls::names;
use freerun_tls::openssl::ciphers::SUITES;
use freerun_tls::openssl::groups::Group;

#[test]
fn suites_have_one_name() {
    for suite in SUITES {
        assert_eq!(names::cipher(suite.id), Some(suite.name), "{:#06x}", suite.id);
    }
}

#[test]
fn groups_have_one_name() {
    let mut compared = 0;
    for (id, group) in (0..=u16::MAX).filter_map(|id| Some((id, Group::by_id(id)?))) {
        if let Some(name) = names::group(id) {
            assert_eq!(name, group.name(), "{id:#06x}");
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
}
