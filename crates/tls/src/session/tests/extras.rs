//! Compressed certificates, stapled responses and secrets that are logged.

use super::super::{ClientSettings, KeyLog, TlsVersion};
use super::client::{Ability, Client};
use super::{ServerSettings, ec, established, handshake, settings};
use rustls::client::ClientConfig;
use rustls::compress::{CertDecompressor, DecompressionFailed};
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateCompressionAlgorithm, SupportedProtocolVersion};
use std::io::Read;
use std::sync::{Arc, Mutex};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// Decompresses, and counts how often.
#[derive(Debug)]
struct Decompressor(CertificateCompressionAlgorithm, &'static Mutex<usize>);

impl CertDecompressor for Decompressor {
    fn decompress(&self, input: &[u8], output: &mut [u8]) -> Result<(), DecompressionFailed> {
        *self.1.lock().expect("a lock") += 1;
        let mut whole = Vec::new();
        match self.0 {
            CertificateCompressionAlgorithm::Brotli => brotlic::DecompressorReader::new(input).read_to_end(&mut whole),
            _ => flate2::read::ZlibDecoder::new(input).read_to_end(&mut whole),
        }
        .map_err(|_| DecompressionFailed)?;
        if whole.len() != output.len() {
            return Err(DecompressionFailed);
        }
        output.copy_from_slice(&whole);
        Ok(())
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        self.0
    }
}

/// A client that can read one kind of compressed certificates, and how often it has.
fn reading(algorithm: CertificateCompressionAlgorithm) -> (Client, &'static Mutex<usize>) {
    let count: &'static Mutex<usize> = Box::leak(Box::default());
    let mut config = ClientConfig::clone(&Ability { versions: vec![&TLS13], ..Ability::default() }.config());
    config.cert_decompressors = vec![Box::leak(Box::new(Decompressor(algorithm, count)))];
    (Client::new(Arc::new(config)), count)
}

#[test]
fn certificates_are_compressed_if_the_settings_say_so() {
    let own = ec().chain().next().map(<[u8]>::to_vec);
    for compress_certificates in [false, true] {
        let config = ServerSettings { compress_certificates, ..settings() }.build().expect("settings");
        for algorithm in [CertificateCompressionAlgorithm::Brotli, CertificateCompressionAlgorithm::Zlib] {
            // The second time it comes from rustls's memory.
            for _ in 0..2 {
                let (mut client, count) = reading(algorithm);
                drop(handshake(&mut client, &config));
                assert_eq!(Some(client.shown()), own.as_deref());
                assert_eq!(*count.lock().expect("a lock"), usize::from(compress_certificates), "{algorithm:?}");
            }
        }
        // There is no common way, and then there is the usual one.
        let (mut client, count) = reading(CertificateCompressionAlgorithm::Zstd);
        drop(handshake(&mut client, &config));
        assert_eq!((Some(client.shown()), *count.lock().expect("a lock")), (own.as_deref(), 0));
    }
}

#[test]
fn a_response_is_stapled_from_one_handshake_to_the_next() {
    let other = ec();
    let key = other.with_own_staple();
    let config = ServerSettings { keys: vec![key.clone()], ..settings() }.build().expect("settings");
    for version in VERSIONS {
        other.staple(Some(b"of another server".to_vec()));
        for response in [None, Some(b"good".to_vec()), Some(b"still good".to_vec()), None] {
            key.staple(response.clone());
            let ability = Ability { versions: vec![version], ..Ability::default() };
            drop(handshake(&mut ability.client(), &config));
            assert_eq!(*ability.stapled.lock().expect("a lock"), response.unwrap_or_default(), "{version:?}");
        }
    }
}

#[test]
fn both_sides_log_the_same_secrets() {
    for (version, labels) in [
        (TlsVersion::Tls12, &["CLIENT_RANDOM"][..]),
        (
            TlsVersion::Tls13,
            &[
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
                "CLIENT_TRAFFIC_SECRET_0",
                "EXPORTER_SECRET",
                "SERVER_HANDSHAKE_TRAFFIC_SECRET",
                "SERVER_TRAFFIC_SECRET_0",
            ],
        ),
    ] {
        let [client, server] = [(); 2].map(|()| {
            let logged = Arc::new(Mutex::new(Vec::new()));
            let to = logged.clone();
            let log = KeyLog::new(move |label, random, secret| {
                to.lock().expect("a lock").push((label.to_owned(), random.to_vec(), secret.to_vec()));
            });
            (log, logged)
        });
        let clients = ClientSettings { versions: vec![version], key_log: Some(client.0), ..ClientSettings::default() };
        let servers = ServerSettings { key_log: Some(server.0), ..settings() };
        drop(established(&clients.build().expect("settings"), None, &servers.build().expect("settings")));
        let [client, server] = [client.1, server.1].map(|logged| {
            let mut logged = std::mem::take(&mut *logged.lock().expect("a lock"));
            logged.sort();
            logged
        });
        assert_eq!(client, server);
        assert!(client.iter().map(|(label, ..)| label.as_str()).eq(labels.iter().copied()), "{client:?}");
        assert!(client.iter().all(|(_, random, secret)| random.len() == 32 && secret.len() >= 32));
    }
}
