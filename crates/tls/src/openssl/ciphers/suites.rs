//! The cipher suites that a cipher string chooses from.

use freerun_proto::tls::names;

/// Key exchange of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum KeyExchange {
    /// The client encrypts the secret with the server's RSA key.
    Rsa,
    /// Ephemeral Diffie-Hellman.
    Dhe,
    /// Ephemeral Diffie-Hellman over elliptic curves.
    Ecdhe,
    /// A key that both sides know.
    Psk,
    /// A key that both sides know, and RSA.
    RsaPsk,
    /// A key that both sides know, and Diffie-Hellman.
    DhePsk,
    /// A key that both sides know, and Diffie-Hellman over elliptic curves.
    EcdhePsk,
    /// A password (RFC 5054).
    Srp,
}

/// Authentication of the server in a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Authentication {
    /// An RSA certificate.
    Rsa,
    /// A DSA certificate.
    Dss,
    /// An ECDSA or EdDSA certificate.
    Ecdsa,
    /// Nothing does.
    Anonymous,
    /// A key that both sides know.
    Psk,
    /// A password.
    Srp,
}

/// Encryption of a suite. The ciphers without a mode in their name run in CBC mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the ciphers")]
pub enum Encryption {
    /// Nothing is encrypted.
    Null,
    Aes128,
    Aes256,
    Aes128Gcm,
    Aes256Gcm,
    Aes128Ccm,
    Aes256Ccm,
    Aes128Ccm8,
    Aes256Ccm8,
    /// ChaCha20 with Poly1305.
    Chacha20,
    Aria128Gcm,
    Aria256Gcm,
    Camellia128,
    Camellia256,
}

/// Detection of changes in a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names are those of the hashes")]
pub enum Mac {
    Md5,
    Sha1,
    Sha256,
    Sha384,
    /// The cipher does it itself.
    Aead,
}

/// The version of the protocol that first had a suite. All of them work in TLS 1.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// SSL 3.
    Ssl3,
    /// TLS 1.0.
    Tls1,
    /// TLS 1.2.
    Tls12,
}

/// A cipher suite of TLS 1.2 or older.
#[derive(Debug, PartialEq, Eq)]
pub struct Suite {
    /// The number that stands for it in a handshake, assigned by IANA.
    pub id: u16,
    /// OpenSSL's name.
    pub name: &'static str,
    /// The name in IANA's registry.
    pub standard_name: &'static str,
    /// The method of agreeing on keys.
    pub key_exchange: KeyExchange,
    /// The server's proof of its identity.
    pub authentication: Authentication,
    /// The cipher for data.
    pub encryption: Encryption,
    /// The method of detecting changes.
    pub mac: Mac,
    /// The version of the protocol that first had it.
    pub since: Since,
    /// Whether OpenSSL's `FIPS` has it.
    pub fips: bool,
    /// Whether OpenSSL's `COMPLEMENTOFDEFAULT` has it.
    pub not_default: bool,
}

impl Suite {
    /// The bits of security that OpenSSL ascribes to its encryption.
    pub const fn strength_bits(&self) -> u16 {
        match self.encryption {
            Encryption::Null => 0,
            Encryption::Aes128
            | Encryption::Aes128Gcm
            | Encryption::Aes128Ccm
            | Encryption::Aes128Ccm8
            | Encryption::Aria128Gcm
            | Encryption::Camellia128 => 128,
            Encryption::Aes256
            | Encryption::Aes256Gcm
            | Encryption::Aes256Ccm
            | Encryption::Aes256Ccm8
            | Encryption::Chacha20
            | Encryption::Aria256Gcm
            | Encryption::Camellia256 => 256,
        }
    }

    /// Whether rustls has it, with aws-lc-rs as its provider: ECDHE with a certificate, and an AEAD that is not CCM.
    pub const fn usable(&self) -> bool {
        matches!(self.key_exchange, KeyExchange::Ecdhe)
            && matches!(self.authentication, Authentication::Rsa | Authentication::Ecdsa)
            && matches!(self.encryption, Encryption::Aes128Gcm | Encryption::Aes256Gcm | Encryption::Chacha20)
    }
}

macro_rules! suites {
    ($($id:literal $standard:literal $kx:ident $auth:ident $enc:ident $mac:ident $since:ident
        [$($flag:ident)*];)*) => {
        &[$(Suite {
            id: $id,
            name: openssl_name($id),
            standard_name: $standard,
            key_exchange: KeyExchange::$kx,
            authentication: Authentication::$auth,
            encryption: Encryption::$enc,
            mac: Mac::$mac,
            since: Since::$since,
            fips: flag(&[$(stringify!($flag)),*], b'f'),
            not_default: flag(&[$(stringify!($flag)),*], b'e'),
        }),*]
    };
}

/// OpenSSL's name of a suite, which the compiler looks for.
const fn openssl_name(id: u16) -> &'static str {
    match names::cipher(id) {
        Some(name) => name,
        None => panic!("a suite without a name"),
    }
}

/// Whether one of the words begins with this letter.
const fn flag(words: &[&str], first: u8) -> bool {
    let mut at = 0;
    while at < words.len() {
        if words[at].as_bytes()[0] == first {
            return true;
        }
        at += 1;
    }
    false
}

/// The suites of TLS 1.2 and older that OpenSSL 3 has as Debian builds it, in OpenSSL's order of preference. A cipher
/// string that takes several at once takes them in this order. `extra` marks suites outside of `DEFAULT`.
#[rustfmt::skip]
pub static SUITES: &[Suite] = suites! {
    0xc02c "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" Ecdhe Ecdsa Aes256Gcm Aead Tls12 [fips];
    0xc030 "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" Ecdhe Rsa Aes256Gcm Aead Tls12 [fips];
    0x00a3 "TLS_DHE_DSS_WITH_AES_256_GCM_SHA384" Dhe Dss Aes256Gcm Aead Tls12 [fips extra];
    0x009f "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384" Dhe Rsa Aes256Gcm Aead Tls12 [fips];
    0xcca9 "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" Ecdhe Ecdsa Chacha20 Aead Tls12 [];
    0xcca8 "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" Ecdhe Rsa Chacha20 Aead Tls12 [];
    0xccaa "TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256" Dhe Rsa Chacha20 Aead Tls12 [];
    0xc0af "TLS_ECDHE_ECDSA_WITH_AES_256_CCM_8" Ecdhe Ecdsa Aes256Ccm8 Aead Tls12 [extra];
    0xc0ad "TLS_ECDHE_ECDSA_WITH_AES_256_CCM" Ecdhe Ecdsa Aes256Ccm Aead Tls12 [extra];
    0xc0a3 "TLS_DHE_RSA_WITH_AES_256_CCM_8" Dhe Rsa Aes256Ccm8 Aead Tls12 [extra];
    0xc09f "TLS_DHE_RSA_WITH_AES_256_CCM" Dhe Rsa Aes256Ccm Aead Tls12 [extra];
    0xc05d "TLS_ECDHE_ECDSA_WITH_ARIA_256_GCM_SHA384" Ecdhe Ecdsa Aria256Gcm Aead Tls12 [extra];
    0xc061 "TLS_ECDHE_RSA_WITH_ARIA_256_GCM_SHA384" Ecdhe Rsa Aria256Gcm Aead Tls12 [extra];
    0xc057 "TLS_DHE_DSS_WITH_ARIA_256_GCM_SHA384" Dhe Dss Aria256Gcm Aead Tls12 [extra];
    0xc053 "TLS_DHE_RSA_WITH_ARIA_256_GCM_SHA384" Dhe Rsa Aria256Gcm Aead Tls12 [extra];
    0x00a7 "TLS_DH_anon_WITH_AES_256_GCM_SHA384" Dhe Anonymous Aes256Gcm Aead Tls12 [fips extra];
    0xc02b "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" Ecdhe Ecdsa Aes128Gcm Aead Tls12 [fips];
    0xc02f "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" Ecdhe Rsa Aes128Gcm Aead Tls12 [fips];
    0x00a2 "TLS_DHE_DSS_WITH_AES_128_GCM_SHA256" Dhe Dss Aes128Gcm Aead Tls12 [fips extra];
    0x009e "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256" Dhe Rsa Aes128Gcm Aead Tls12 [fips];
    0xc0ae "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8" Ecdhe Ecdsa Aes128Ccm8 Aead Tls12 [extra];
    0xc0ac "TLS_ECDHE_ECDSA_WITH_AES_128_CCM" Ecdhe Ecdsa Aes128Ccm Aead Tls12 [extra];
    0xc0a2 "TLS_DHE_RSA_WITH_AES_128_CCM_8" Dhe Rsa Aes128Ccm8 Aead Tls12 [extra];
    0xc09e "TLS_DHE_RSA_WITH_AES_128_CCM" Dhe Rsa Aes128Ccm Aead Tls12 [extra];
    0xc05c "TLS_ECDHE_ECDSA_WITH_ARIA_128_GCM_SHA256" Ecdhe Ecdsa Aria128Gcm Aead Tls12 [extra];
    0xc060 "TLS_ECDHE_RSA_WITH_ARIA_128_GCM_SHA256" Ecdhe Rsa Aria128Gcm Aead Tls12 [extra];
    0xc056 "TLS_DHE_DSS_WITH_ARIA_128_GCM_SHA256" Dhe Dss Aria128Gcm Aead Tls12 [extra];
    0xc052 "TLS_DHE_RSA_WITH_ARIA_128_GCM_SHA256" Dhe Rsa Aria128Gcm Aead Tls12 [extra];
    0x00a6 "TLS_DH_anon_WITH_AES_128_GCM_SHA256" Dhe Anonymous Aes128Gcm Aead Tls12 [fips extra];
    0xc024 "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384" Ecdhe Ecdsa Aes256 Sha384 Tls12 [fips];
    0xc028 "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384" Ecdhe Rsa Aes256 Sha384 Tls12 [fips];
    0x006b "TLS_DHE_RSA_WITH_AES_256_CBC_SHA256" Dhe Rsa Aes256 Sha256 Tls12 [fips];
    0x006a "TLS_DHE_DSS_WITH_AES_256_CBC_SHA256" Dhe Dss Aes256 Sha256 Tls12 [fips extra];
    0xc073 "TLS_ECDHE_ECDSA_WITH_CAMELLIA_256_CBC_SHA384" Ecdhe Ecdsa Camellia256 Sha384 Tls12 [extra];
    0xc077 "TLS_ECDHE_RSA_WITH_CAMELLIA_256_CBC_SHA384" Ecdhe Rsa Camellia256 Sha384 Tls12 [extra];
    0x00c4 "TLS_DHE_RSA_WITH_CAMELLIA_256_CBC_SHA256" Dhe Rsa Camellia256 Sha256 Tls12 [extra];
    0x00c3 "TLS_DHE_DSS_WITH_CAMELLIA_256_CBC_SHA256" Dhe Dss Camellia256 Sha256 Tls12 [extra];
    0x006d "TLS_DH_anon_WITH_AES_256_CBC_SHA256" Dhe Anonymous Aes256 Sha256 Tls12 [fips extra];
    0x00c5 "TLS_DH_anon_WITH_CAMELLIA_256_CBC_SHA256" Dhe Anonymous Camellia256 Sha256 Tls12 [extra];
    0xc023 "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256" Ecdhe Ecdsa Aes128 Sha256 Tls12 [fips];
    0xc027 "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256" Ecdhe Rsa Aes128 Sha256 Tls12 [fips];
    0x0067 "TLS_DHE_RSA_WITH_AES_128_CBC_SHA256" Dhe Rsa Aes128 Sha256 Tls12 [fips];
    0x0040 "TLS_DHE_DSS_WITH_AES_128_CBC_SHA256" Dhe Dss Aes128 Sha256 Tls12 [fips extra];
    0xc072 "TLS_ECDHE_ECDSA_WITH_CAMELLIA_128_CBC_SHA256" Ecdhe Ecdsa Camellia128 Sha256 Tls12 [extra];
    0xc076 "TLS_ECDHE_RSA_WITH_CAMELLIA_128_CBC_SHA256" Ecdhe Rsa Camellia128 Sha256 Tls12 [extra];
    0x00be "TLS_DHE_RSA_WITH_CAMELLIA_128_CBC_SHA256" Dhe Rsa Camellia128 Sha256 Tls12 [extra];
    0x00bd "TLS_DHE_DSS_WITH_CAMELLIA_128_CBC_SHA256" Dhe Dss Camellia128 Sha256 Tls12 [extra];
    0x006c "TLS_DH_anon_WITH_AES_128_CBC_SHA256" Dhe Anonymous Aes128 Sha256 Tls12 [fips extra];
    0x00bf "TLS_DH_anon_WITH_CAMELLIA_128_CBC_SHA256" Dhe Anonymous Camellia128 Sha256 Tls12 [extra];
    0xc00a "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA" Ecdhe Ecdsa Aes256 Sha1 Tls1 [fips];
    0xc014 "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA" Ecdhe Rsa Aes256 Sha1 Tls1 [fips];
    0x0039 "TLS_DHE_RSA_WITH_AES_256_CBC_SHA" Dhe Rsa Aes256 Sha1 Ssl3 [fips];
    0x0038 "TLS_DHE_DSS_WITH_AES_256_CBC_SHA" Dhe Dss Aes256 Sha1 Ssl3 [fips extra];
    0x0088 "TLS_DHE_RSA_WITH_CAMELLIA_256_CBC_SHA" Dhe Rsa Camellia256 Sha1 Ssl3 [extra];
    0x0087 "TLS_DHE_DSS_WITH_CAMELLIA_256_CBC_SHA" Dhe Dss Camellia256 Sha1 Ssl3 [extra];
    0xc019 "TLS_ECDH_anon_WITH_AES_256_CBC_SHA" Ecdhe Anonymous Aes256 Sha1 Tls1 [fips extra];
    0x003a "TLS_DH_anon_WITH_AES_256_CBC_SHA" Dhe Anonymous Aes256 Sha1 Ssl3 [fips extra];
    0x0089 "TLS_DH_anon_WITH_CAMELLIA_256_CBC_SHA" Dhe Anonymous Camellia256 Sha1 Ssl3 [extra];
    0xc009 "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA" Ecdhe Ecdsa Aes128 Sha1 Tls1 [fips];
    0xc013 "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA" Ecdhe Rsa Aes128 Sha1 Tls1 [fips];
    0x0033 "TLS_DHE_RSA_WITH_AES_128_CBC_SHA" Dhe Rsa Aes128 Sha1 Ssl3 [fips];
    0x0032 "TLS_DHE_DSS_WITH_AES_128_CBC_SHA" Dhe Dss Aes128 Sha1 Ssl3 [fips extra];
    0x0045 "TLS_DHE_RSA_WITH_CAMELLIA_128_CBC_SHA" Dhe Rsa Camellia128 Sha1 Ssl3 [extra];
    0x0044 "TLS_DHE_DSS_WITH_CAMELLIA_128_CBC_SHA" Dhe Dss Camellia128 Sha1 Ssl3 [extra];
    0xc018 "TLS_ECDH_anon_WITH_AES_128_CBC_SHA" Ecdhe Anonymous Aes128 Sha1 Tls1 [fips extra];
    0x0034 "TLS_DH_anon_WITH_AES_128_CBC_SHA" Dhe Anonymous Aes128 Sha1 Ssl3 [fips extra];
    0x0046 "TLS_DH_anon_WITH_CAMELLIA_128_CBC_SHA" Dhe Anonymous Camellia128 Sha1 Ssl3 [extra];
    0xc006 "TLS_ECDHE_ECDSA_WITH_NULL_SHA" Ecdhe Ecdsa Null Sha1 Tls1 [];
    0xc010 "TLS_ECDHE_RSA_WITH_NULL_SHA" Ecdhe Rsa Null Sha1 Tls1 [];
    0xc015 "TLS_ECDH_anon_WITH_NULL_SHA" Ecdhe Anonymous Null Sha1 Tls1 [];
    0x00ad "TLS_RSA_PSK_WITH_AES_256_GCM_SHA384" RsaPsk Rsa Aes256Gcm Aead Tls12 [fips];
    0x00ab "TLS_DHE_PSK_WITH_AES_256_GCM_SHA384" DhePsk Psk Aes256Gcm Aead Tls12 [fips];
    0xccae "TLS_RSA_PSK_WITH_CHACHA20_POLY1305_SHA256" RsaPsk Rsa Chacha20 Aead Tls12 [];
    0xccad "TLS_DHE_PSK_WITH_CHACHA20_POLY1305_SHA256" DhePsk Psk Chacha20 Aead Tls12 [];
    0xccac "TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256" EcdhePsk Psk Chacha20 Aead Tls12 [];
    0xc0ab "TLS_PSK_DHE_WITH_AES_256_CCM_8" DhePsk Psk Aes256Ccm8 Aead Tls12 [extra];
    0xc0a7 "TLS_DHE_PSK_WITH_AES_256_CCM" DhePsk Psk Aes256Ccm Aead Tls12 [extra];
    0xc06f "TLS_RSA_PSK_WITH_ARIA_256_GCM_SHA384" RsaPsk Rsa Aria256Gcm Aead Tls12 [extra];
    0xc06d "TLS_DHE_PSK_WITH_ARIA_256_GCM_SHA384" DhePsk Psk Aria256Gcm Aead Tls12 [extra];
    0x009d "TLS_RSA_WITH_AES_256_GCM_SHA384" Rsa Rsa Aes256Gcm Aead Tls12 [fips];
    0xc0a1 "TLS_RSA_WITH_AES_256_CCM_8" Rsa Rsa Aes256Ccm8 Aead Tls12 [extra];
    0xc09d "TLS_RSA_WITH_AES_256_CCM" Rsa Rsa Aes256Ccm Aead Tls12 [extra];
    0xc051 "TLS_RSA_WITH_ARIA_256_GCM_SHA384" Rsa Rsa Aria256Gcm Aead Tls12 [extra];
    0x00a9 "TLS_PSK_WITH_AES_256_GCM_SHA384" Psk Psk Aes256Gcm Aead Tls12 [fips];
    0xccab "TLS_PSK_WITH_CHACHA20_POLY1305_SHA256" Psk Psk Chacha20 Aead Tls12 [];
    0xc0a9 "TLS_PSK_WITH_AES_256_CCM_8" Psk Psk Aes256Ccm8 Aead Tls12 [extra];
    0xc0a5 "TLS_PSK_WITH_AES_256_CCM" Psk Psk Aes256Ccm Aead Tls12 [extra];
    0xc06b "TLS_PSK_WITH_ARIA_256_GCM_SHA384" Psk Psk Aria256Gcm Aead Tls12 [extra];
    0x00ac "TLS_RSA_PSK_WITH_AES_128_GCM_SHA256" RsaPsk Rsa Aes128Gcm Aead Tls12 [fips];
    0x00aa "TLS_DHE_PSK_WITH_AES_128_GCM_SHA256" DhePsk Psk Aes128Gcm Aead Tls12 [fips];
    0xc0aa "TLS_PSK_DHE_WITH_AES_128_CCM_8" DhePsk Psk Aes128Ccm8 Aead Tls12 [extra];
    0xc0a6 "TLS_DHE_PSK_WITH_AES_128_CCM" DhePsk Psk Aes128Ccm Aead Tls12 [extra];
    0xc06e "TLS_RSA_PSK_WITH_ARIA_128_GCM_SHA256" RsaPsk Rsa Aria128Gcm Aead Tls12 [extra];
    0xc06c "TLS_DHE_PSK_WITH_ARIA_128_GCM_SHA256" DhePsk Psk Aria128Gcm Aead Tls12 [extra];
    0x009c "TLS_RSA_WITH_AES_128_GCM_SHA256" Rsa Rsa Aes128Gcm Aead Tls12 [fips];
    0xc0a0 "TLS_RSA_WITH_AES_128_CCM_8" Rsa Rsa Aes128Ccm8 Aead Tls12 [extra];
    0xc09c "TLS_RSA_WITH_AES_128_CCM" Rsa Rsa Aes128Ccm Aead Tls12 [extra];
    0xc050 "TLS_RSA_WITH_ARIA_128_GCM_SHA256" Rsa Rsa Aria128Gcm Aead Tls12 [extra];
    0x00a8 "TLS_PSK_WITH_AES_128_GCM_SHA256" Psk Psk Aes128Gcm Aead Tls12 [fips];
    0xc0a8 "TLS_PSK_WITH_AES_128_CCM_8" Psk Psk Aes128Ccm8 Aead Tls12 [extra];
    0xc0a4 "TLS_PSK_WITH_AES_128_CCM" Psk Psk Aes128Ccm Aead Tls12 [extra];
    0xc06a "TLS_PSK_WITH_ARIA_128_GCM_SHA256" Psk Psk Aria128Gcm Aead Tls12 [extra];
    0x003d "TLS_RSA_WITH_AES_256_CBC_SHA256" Rsa Rsa Aes256 Sha256 Tls12 [fips];
    0x00c0 "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA256" Rsa Rsa Camellia256 Sha256 Tls12 [extra];
    0x003c "TLS_RSA_WITH_AES_128_CBC_SHA256" Rsa Rsa Aes128 Sha256 Tls12 [fips];
    0x00ba "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA256" Rsa Rsa Camellia128 Sha256 Tls12 [extra];
    0x003b "TLS_RSA_WITH_NULL_SHA256" Rsa Rsa Null Sha256 Tls12 [];
    0xc038 "TLS_ECDHE_PSK_WITH_AES_256_CBC_SHA384" EcdhePsk Psk Aes256 Sha384 Tls1 [fips];
    0xc036 "TLS_ECDHE_PSK_WITH_AES_256_CBC_SHA" EcdhePsk Psk Aes256 Sha1 Tls1 [fips];
    0xc022 "TLS_SRP_SHA_DSS_WITH_AES_256_CBC_SHA" Srp Dss Aes256 Sha1 Ssl3 [extra];
    0xc021 "TLS_SRP_SHA_RSA_WITH_AES_256_CBC_SHA" Srp Rsa Aes256 Sha1 Ssl3 [];
    0xc020 "TLS_SRP_SHA_WITH_AES_256_CBC_SHA" Srp Srp Aes256 Sha1 Ssl3 [];
    0x00b7 "TLS_RSA_PSK_WITH_AES_256_CBC_SHA384" RsaPsk Rsa Aes256 Sha384 Tls1 [fips];
    0x00b3 "TLS_DHE_PSK_WITH_AES_256_CBC_SHA384" DhePsk Psk Aes256 Sha384 Tls1 [fips];
    0x0095 "TLS_RSA_PSK_WITH_AES_256_CBC_SHA" RsaPsk Rsa Aes256 Sha1 Ssl3 [fips];
    0x0091 "TLS_DHE_PSK_WITH_AES_256_CBC_SHA" DhePsk Psk Aes256 Sha1 Ssl3 [fips];
    0xc09b "TLS_ECDHE_PSK_WITH_CAMELLIA_256_CBC_SHA384" EcdhePsk Psk Camellia256 Sha384 Tls1 [extra];
    0xc099 "TLS_RSA_PSK_WITH_CAMELLIA_256_CBC_SHA384" RsaPsk Rsa Camellia256 Sha384 Tls1 [extra];
    0xc097 "TLS_DHE_PSK_WITH_CAMELLIA_256_CBC_SHA384" DhePsk Psk Camellia256 Sha384 Tls1 [extra];
    0x0035 "TLS_RSA_WITH_AES_256_CBC_SHA" Rsa Rsa Aes256 Sha1 Ssl3 [fips];
    0x0084 "TLS_RSA_WITH_CAMELLIA_256_CBC_SHA" Rsa Rsa Camellia256 Sha1 Ssl3 [extra];
    0x00af "TLS_PSK_WITH_AES_256_CBC_SHA384" Psk Psk Aes256 Sha384 Tls1 [fips];
    0x008d "TLS_PSK_WITH_AES_256_CBC_SHA" Psk Psk Aes256 Sha1 Ssl3 [fips];
    0xc095 "TLS_PSK_WITH_CAMELLIA_256_CBC_SHA384" Psk Psk Camellia256 Sha384 Tls1 [extra];
    0xc037 "TLS_ECDHE_PSK_WITH_AES_128_CBC_SHA256" EcdhePsk Psk Aes128 Sha256 Tls1 [fips];
    0xc035 "TLS_ECDHE_PSK_WITH_AES_128_CBC_SHA" EcdhePsk Psk Aes128 Sha1 Tls1 [fips];
    0xc01f "TLS_SRP_SHA_DSS_WITH_AES_128_CBC_SHA" Srp Dss Aes128 Sha1 Ssl3 [extra];
    0xc01e "TLS_SRP_SHA_RSA_WITH_AES_128_CBC_SHA" Srp Rsa Aes128 Sha1 Ssl3 [];
    0xc01d "TLS_SRP_SHA_WITH_AES_128_CBC_SHA" Srp Srp Aes128 Sha1 Ssl3 [];
    0x00b6 "TLS_RSA_PSK_WITH_AES_128_CBC_SHA256" RsaPsk Rsa Aes128 Sha256 Tls1 [fips];
    0x00b2 "TLS_DHE_PSK_WITH_AES_128_CBC_SHA256" DhePsk Psk Aes128 Sha256 Tls1 [fips];
    0x0094 "TLS_RSA_PSK_WITH_AES_128_CBC_SHA" RsaPsk Rsa Aes128 Sha1 Ssl3 [fips];
    0x0090 "TLS_DHE_PSK_WITH_AES_128_CBC_SHA" DhePsk Psk Aes128 Sha1 Ssl3 [fips];
    0xc09a "TLS_ECDHE_PSK_WITH_CAMELLIA_128_CBC_SHA256" EcdhePsk Psk Camellia128 Sha256 Tls1 [extra];
    0xc098 "TLS_RSA_PSK_WITH_CAMELLIA_128_CBC_SHA256" RsaPsk Rsa Camellia128 Sha256 Tls1 [extra];
    0xc096 "TLS_DHE_PSK_WITH_CAMELLIA_128_CBC_SHA256" DhePsk Psk Camellia128 Sha256 Tls1 [extra];
    0x002f "TLS_RSA_WITH_AES_128_CBC_SHA" Rsa Rsa Aes128 Sha1 Ssl3 [fips];
    0x0041 "TLS_RSA_WITH_CAMELLIA_128_CBC_SHA" Rsa Rsa Camellia128 Sha1 Ssl3 [extra];
    0x00ae "TLS_PSK_WITH_AES_128_CBC_SHA256" Psk Psk Aes128 Sha256 Tls1 [fips];
    0x008c "TLS_PSK_WITH_AES_128_CBC_SHA" Psk Psk Aes128 Sha1 Ssl3 [fips];
    0xc094 "TLS_PSK_WITH_CAMELLIA_128_CBC_SHA256" Psk Psk Camellia128 Sha256 Tls1 [extra];
    0xc03b "TLS_ECDHE_PSK_WITH_NULL_SHA384" EcdhePsk Psk Null Sha384 Tls1 [];
    0xc03a "TLS_ECDHE_PSK_WITH_NULL_SHA256" EcdhePsk Psk Null Sha256 Tls1 [];
    0xc039 "TLS_ECDHE_PSK_WITH_NULL_SHA" EcdhePsk Psk Null Sha1 Tls1 [];
    0x00b9 "TLS_RSA_PSK_WITH_NULL_SHA384" RsaPsk Rsa Null Sha384 Tls1 [];
    0x00b8 "TLS_RSA_PSK_WITH_NULL_SHA256" RsaPsk Rsa Null Sha256 Tls1 [];
    0x00b5 "TLS_DHE_PSK_WITH_NULL_SHA384" DhePsk Psk Null Sha384 Tls1 [];
    0x00b4 "TLS_DHE_PSK_WITH_NULL_SHA256" DhePsk Psk Null Sha256 Tls1 [];
    0x002e "TLS_RSA_PSK_WITH_NULL_SHA" RsaPsk Rsa Null Sha1 Ssl3 [];
    0x002d "TLS_DHE_PSK_WITH_NULL_SHA" DhePsk Psk Null Sha1 Ssl3 [];
    0x0002 "TLS_RSA_WITH_NULL_SHA" Rsa Rsa Null Sha1 Ssl3 [];
    0x0001 "TLS_RSA_WITH_NULL_MD5" Rsa Rsa Null Md5 Ssl3 [];
    0x00b1 "TLS_PSK_WITH_NULL_SHA384" Psk Psk Null Sha384 Tls1 [];
    0x00b0 "TLS_PSK_WITH_NULL_SHA256" Psk Psk Null Sha256 Tls1 [];
    0x002c "TLS_PSK_WITH_NULL_SHA" Psk Psk Null Sha1 Ssl3 [];
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_unique() {
        for (at, suite) in SUITES.iter().enumerate() {
            for other in &SUITES[at + 1..] {
                assert!(suite.id != other.id && suite.name != other.name, "{}", suite.name);
                assert_ne!(suite.standard_name, other.standard_name);
            }
            assert_eq!(
                suite.mac == Mac::Aead,
                suite.name.contains("GCM") || suite.name.contains("CCM") || suite.name.contains("CHACHA")
            );
            assert!(suite.standard_name.starts_with("TLS_") && suite.standard_name.contains("_WITH_"));
        }
    }

    #[test]
    fn six_suites_are_usable() {
        let mut ids: Vec<u16> = SUITES.iter().filter(|suite| suite.usable()).map(|suite| suite.id).collect();
        ids.sort_unstable();
        assert_eq!(ids, [0xc02b, 0xc02c, 0xc02f, 0xc030, 0xcca8, 0xcca9]);
    }
}
