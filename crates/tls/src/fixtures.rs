//! Certificates and keys for tests. Those named `RSA` are of version 1, as `openssl x509 -req` makes them without
//! extensions.

pub(crate) const RSA_CRT: &str = include_str!("../tests/fixtures/rsa.crt");
pub(crate) const RSA_TRUSTED_CRT: &str = include_str!("../tests/fixtures/rsa-trusted.crt");
pub(crate) const RSA_KEY: &str = include_str!("../tests/fixtures/rsa.key");
pub(crate) const RSA_PKCS1_KEY: &str = include_str!("../tests/fixtures/rsa-pkcs1.key");
pub(crate) const RSA_DEK_INFO_KEY: &str = include_str!("../tests/fixtures/rsa-dek-info.key");
pub(crate) const RSA_PBES2_KEY: &str = include_str!("../tests/fixtures/rsa-pbes2.key");
pub(crate) const OTHER_RSA_KEY: &str = include_str!("../tests/fixtures/other-rsa.key");
pub(crate) const RSA1024_CRT: &str = include_str!("../tests/fixtures/rsa1024.crt");
pub(crate) const RSA1024_KEY: &str = include_str!("../tests/fixtures/rsa1024.key");
pub(crate) const EC_CRT: &str = include_str!("../tests/fixtures/ec.crt");
pub(crate) const EC_KEY: &str = include_str!("../tests/fixtures/ec.key");
pub(crate) const ED25519_CRT: &str = include_str!("../tests/fixtures/ed25519.crt");
pub(crate) const ED25519_KEY: &str = include_str!("../tests/fixtures/ed25519.key");
pub(crate) const SECP256K1_CRT: &str = include_str!("../tests/fixtures/secp256k1.crt");
pub(crate) const SECP256K1_KEY: &str = include_str!("../tests/fixtures/secp256k1.key");
