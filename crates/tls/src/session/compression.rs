//! Certificates that are sent compressed (RFC 8879), with the libraries that compress responses.
//!
//! A chain is compressed at the first handshake that wants it, by whichever loop that is, so brotli does not try as hard as it
//! could: that would take milliseconds. rustls remembers the result.

use brotlic::{BrotliEncoderOptions, CompressorWriter, Quality};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use rustls::CertificateCompressionAlgorithm;
use rustls::compress::{CertCompressor, CompressionCache, CompressionFailed, CompressionLevel};
use std::io::Write;
use std::sync::Arc;

/// The effort of brotli, of 11.
const BROTLI_QUALITY: u8 = 5;

/// The algorithms in the order of preference.
pub(super) const COMPRESSORS: [&dyn CertCompressor; 2] = [&Brotli, &Zlib];

/// Room for the compressed chains of this number of certificates, with and without a stapled response.
pub(super) fn cache(certificates: usize) -> Arc<CompressionCache> {
    Arc::new(CompressionCache::new(2 * COMPRESSORS.len() * certificates))
}

#[derive(Debug)]
struct Brotli;

#[derive(Debug)]
struct Zlib;

impl CertCompressor for Brotli {
    fn compress(&self, chain: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let quality = Quality::new(BROTLI_QUALITY).map_err(|_| CompressionFailed)?;
        let encoder = BrotliEncoderOptions::new().quality(quality).build().map_err(|_| CompressionFailed)?;
        let mut writer = CompressorWriter::with_encoder(encoder, Vec::new());
        writer.write_all(&chain).map_err(|_| CompressionFailed)?;
        writer.into_inner().map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Brotli
    }
}

impl CertCompressor for Zlib {
    fn compress(&self, chain: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let mut writer = ZlibEncoder::new(Vec::new(), Compression::default());
        writer.write_all(&chain).map_err(|_| CompressionFailed)?;
        writer.finish().map_err(|_| CompressionFailed)
    }

    fn algorithm(&self) -> CertificateCompressionAlgorithm {
        CertificateCompressionAlgorithm::Zlib
    }
}
